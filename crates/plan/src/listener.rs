//! Where connections arrive.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use weir_control::ListenerId;
use weir_expr::settings::ClientSettings;

use crate::{HostIndex, ListenerTls, Program, TcpIx};

/// One bound address.
#[derive(Clone, Debug, Serialize)]
pub struct Listener {
    /// Stable id, from the address.
    pub id: ListenerId,
    /// For people.
    pub name: Box<str>,
    /// What is bound.
    pub address: Address,
    /// Socket options.
    pub socket: SocketOptions,
    /// A PROXY header is expected first on each connection.
    pub proxy_protocol: bool,
    /// TLS, if it is spoken here.
    pub tls: Option<Arc<ListenerTls>>,
    /// Client connections accepted at once; `None`: only the process's limit.
    pub max_connections: Option<u64>,
    /// Runs on every connection as it is accepted; it may only close.
    pub gate: Option<Arc<Program>>,
    /// What is served.
    pub service: Service,
    /// Rules for heads that let pass whatever one of the sites lets pass, where they differ. The site's own are applied
    /// once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub widest_heads: Option<Arc<ClientSettings>>,
}

/// An address to bind or connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// Unix stream socket. A leading `@` names an abstract socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What a listener's connections are for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// HTTP sites by Host; shared by listeners that serve the same.
    Http(Arc<HostIndex>),
    /// A TCP service.
    Tcp(TcpIx),
}

/// Options of listening sockets. Defaults are the system's.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SocketOptions {
    /// Length of the accept queue; `None`: 4096, cut by the system's `somaxconn`.
    pub backlog: Option<u32>,
    /// IPv6 sockets take IPv6 only; `None`: true.
    pub ipv6_only: Option<bool>,
    /// Queue length of TCP Fast Open.
    pub fast_open: Option<u32>,
    /// Wake up only once data is there (TCP_DEFER_ACCEPT).
    pub deferred: bool,
    /// SO_RCVBUF in bytes.
    pub receive_buffer: Option<u64>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: Option<u64>,
    /// TCP keep-alive probes; `None`: system defaults, off.
    pub keepalive: Option<TcpKeepalive>,
    /// Bind even if the address is not on the machine yet.
    pub free_bind: bool,
    /// Bind to a network device.
    pub device: Option<String>,
    /// Mode of a unix socket's file.
    pub mode: Option<u32>,
    /// Owner of a unix socket's file.
    pub owner: Option<String>,
    /// Group of a unix socket's file.
    pub group: Option<String>,
}

/// Parameters of TCP keep-alive probes, in seconds; `None` leaves the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TcpKeepalive {
    /// TCP_KEEPIDLE.
    pub idle: Option<u32>,
    /// TCP_KEEPINTVL.
    pub interval: Option<u32>,
    /// TCP_KEEPCNT.
    pub count: Option<u32>,
}
