//! What belongs to the process as a whole.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{ControlSocket, LogLevel, LogPool, LogRing, Paces, PeerGroup};

use crate::{Address, LogTarget, SocketOptions};

/// The process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Worker threads.
    pub workers: Workers,
    /// User and group that the data plane runs as when started as root.
    pub user: Option<User>,
    /// Where the process id is written.
    pub pid_file: Option<PathBuf>,
    /// Detach from the terminal.
    pub daemon: bool,
    /// It runs under a master of its own, whose process id is the one that is written (HAProxy `master-worker`).
    pub master_worker: bool,
    /// Limit of open files asked for (`worker_rlimit_nofile`, `ulimit-n`); where the system grants less, that is used and said.
    pub open_files: Option<u64>,
    /// Where `open_files` was written.
    pub open_files_origin: Origin,
    /// Connections of one worker, clients and upstreams together (`worker_connections`).
    pub connections_per_worker: Option<u64>,
    /// Client connections of the whole process (HAProxy global `maxconn`).
    pub max_connections: Option<u64>,
    /// Client connections, sessions and TLS handshakes that begin in a second, for the whole process.
    #[serde(skip_serializing_if = "Paces::are_none")]
    pub paces: Paces,
    /// Most bytes of memory in use; above it accepting pauses and requests that begin get 503 (`weir_memory_budget`,
    /// HAProxy's `-m`). `None`: half of what machine and control group grant.
    pub memory_budget: Option<u64>,
    /// Error logs; empty means standard error at [`LogLevel::Error`].
    pub error_logs: Vec<ErrorLog>,
    /// Draining ends after this; `None`: never by itself (`worker_shutdown_timeout`, `hard-stop-after`).
    pub shutdown_timeout: Option<Duration>,
    /// Change the root folder after start.
    pub chroot: Option<PathBuf>,
    /// Working directory.
    pub working_directory: Option<PathBuf>,
    /// Text for `description`/`node` on status pages.
    pub description: Option<String>,
    /// Sockets for commands while running (HAProxy's `stats socket`), and those that peers call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control: Vec<ControlListener>,
    /// Idle time of their connections; `None`: 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_timeout: Option<Duration>,
    /// Their connections at once; `None`: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_connections: Option<u32>,
    /// Processes that stick tables are shared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerGroup>,
    /// Log lines in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log_rings: Vec<LogRing>,
    /// Servers that share log lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log_pools: Vec<LogPool>,
    /// Values that rules keep in the process, as they are at the start (HAProxy's `set-var proc.NAME`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<(String, weir_expr::KeptValue)>,
    /// Whom spans of requests are told to (`otel_exporter`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<SpanExport>,
    /// Folder that relative paths of the file were resolved against; for messages.
    pub prefix: PathBuf,
    /// Connections may come from addresses of other machines: the right to it outlives that of root. Found out
    /// ([`crate::Model::is_transparent`]), never written.
    #[serde(skip)]
    pub transparent: bool,
}

/// Whom spans of requests are told to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanExport {
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// `host:port` or an URL without a path: OTLP over gRPC there; an URL with a path, such as `http://host:4318/v1/traces`: OTLP over
    /// HTTP.
    pub endpoint: String,
    /// Authorities that vouch for it; `None`: the system's.
    pub trusted: Option<crate::Pem>,
    /// Fields of each export.
    #[serde(serialize_with = "crate::redact::values")]
    pub headers: Vec<(String, String)>,
    /// Longest time that a span waits.
    pub interval: Duration,
    /// Spans in an export.
    pub batch_size: u32,
    /// Exports that may wait; spans beyond them are dropped.
    pub batch_count: u32,
    /// The name of the service.
    pub service: String,
    /// What else is said of it.
    pub resource: Vec<(String, String)>,
}

impl SpanExport {
    /// With the numbers of nginx's module.
    pub fn to(endpoint: String) -> Self {
        Self {
            origin: None,
            endpoint,
            trusted: None,
            headers: Vec::new(),
            interval: Duration::from_secs(5),
            batch_size: 512,
            batch_count: 4,
            service: "unknown_service:nginx".to_owned(),
            resource: Vec::new(),
        }
    }
}

/// A socket for commands while running.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControlListener {
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// What is bound.
    pub address: Address,
    /// Socket options.
    pub socket: SocketOptions,
    /// Its name, and what whoever connects may.
    pub control: ControlSocket,
}

/// Number of worker threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    /// One for each CPU that the process may use.
    #[default]
    Auto,
    /// So many; at least 1.
    Count(u16),
}

/// User and group by name or number, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub user: String,
    /// Group; the user's own if not given.
    pub group: Option<String>,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
}

/// One error log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorLog {
    /// Where lines go.
    pub target: LogTarget,
    /// Least severity written.
    pub level: LogLevel,
}
