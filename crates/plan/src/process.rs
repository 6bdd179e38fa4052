//! What belongs to the process as a whole, as far as the data plane asks for it.
//!
//! Never: user, folders, pid file and the like; who starts the data plane sees to them, and asks the model.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_expr::settings::{ControlSocket, LogRing, Paces, PeerGroup};

use crate::ErrorLog;

/// The process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Process {
    /// Connections of one worker, clients and upstreams together.
    pub connections_per_worker: Option<u64>,
    /// Client connections of the whole process.
    pub max_connections: Option<u64>,
    /// Client connections, sessions and TLS handshakes that begin in a second.
    #[serde(skip_serializing_if = "Paces::are_none")]
    pub paces: Paces,
    /// Most bytes of memory in use (resident, not backed by files); above it accepting pauses and requests that begin
    /// get 503. `None`: half of what machine and control group grant.
    pub memory_budget: Option<u64>,
    /// Values that rules keep in the process, as they are at the start.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub kept: Box<[(Box<str>, weir_expr::KeptValue)]>,
    /// Log lines in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log_rings: Vec<LogRing>,
    /// Error logs; never empty.
    pub error_logs: Arc<[ErrorLog]>,
    /// Whom spans of requests are told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<Arc<SpanExport>>,
    /// There is a page that shows single requests: those in flight, slow ones, failed ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shows_requests: bool,
    /// Sockets for commands while running.
    #[serde(skip_serializing_if = "Control::is_absent")]
    pub control: Control,
}

/// Whom spans of requests are told to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanExport {
    /// Where exports go.
    pub url: Box<str>,
    /// Over gRPC; if not, over HTTP.
    pub grpc: bool,
    /// Authorities that vouch for it, in PEM; `None`: the system's.
    #[serde(skip)]
    pub trusted: Option<Arc<[u8]>>,
    /// Fields of each export.
    #[serde(skip)]
    pub headers: Box<[(Box<str>, Box<str>)]>,
    /// Longest time that a span waits.
    pub interval: Duration,
    /// Spans in an export.
    pub batch_size: u32,
    /// Exports that may wait.
    pub batch_count: u32,
    /// The name of the service.
    pub service: Box<str>,
    /// What else is said of it.
    pub resource: Box<[(Box<str>, Box<str>)]>,
}

/// Commands while running.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Control {
    /// The sockets, in the order in which they follow the listeners' own.
    pub sockets: Vec<ControlSocket>,
    /// Idle time of a connection.
    pub timeout: Duration,
    /// Connections at once.
    pub connections: u32,
    /// Processes that stick tables are shared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerGroup>,
}

impl Control {
    fn is_absent(&self) -> bool {
        self.sockets.is_empty() && self.peers.is_empty()
    }
}
