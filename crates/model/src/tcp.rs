//! TCP services.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::{Datagrams, Inspect, LogLevel, ProxyProtocol, RetrySettings};

use crate::{Access, AccessLog, Condition, LimitConn, Op, RealIp, Template, UpstreamTls};

/// A TCP service: connections are carried, not read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpService {
    /// Name for people and metrics.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// What is done with a connection.
    pub action: TcpAction,
    /// Bytes of the client are read ahead before rules look at them (`ssl_preread`, HAProxy `inspect-delay`).
    pub inspect: Option<Inspect>,
    /// Runs before anything is done; it may only close (HAProxy `tcp-request content`).
    pub program: Vec<Op>,
    /// Who may pass.
    pub access: Arc<Access>,
    /// Concurrency limits.
    pub limit_conn: Arc<Vec<LimitConn>>,
    /// Client addresses from the PROXY header of trusted peers.
    pub real_ip: Option<Arc<RealIp>>,
    /// Name servers, if other than all services'.
    pub resolver: Option<Arc<crate::Resolver>>,
    /// Access logs.
    pub access_logs: Arc<Vec<AccessLog>>,
    /// Error logs, if other than the process's.
    pub error_logs: Option<Arc<Vec<crate::ErrorLog>>>,
    /// Least severity of what error logs say about sessions.
    pub error_lines: LogLevel,
    /// Time for a PROXY header and a TLS handshake with the client.
    pub handshake_timeout: Duration,
    /// Disable Nagle's algorithm.
    pub tcp_nodelay: bool,
    /// Connections at once.
    pub max_connections: Option<u64>,
    /// Sessions that begin in a second, beyond which new connections wait in the accept queue (HAProxy frontend `rate-limit sessions`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_rate: Option<u32>,
    /// TCP keep-alive probes on client sockets.
    pub socket_keepalive: bool,
    /// Log sessions whose client sent nothing (HAProxy without `dontlognull`; nginx always).
    pub log_empty_connections: bool,
    /// Its sessions are counted under this name, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// What a TCP service does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "there are few services, and most carry bytes")]
pub enum TcpAction {
    /// Carries bytes to a pool.
    Proxy(TcpProxy),
    /// Sends a text and closes (stream `return`).
    Respond(Template),
    /// Hands the connection to the listener of this address, as if it had arrived there (stream `pass`).
    Pass(Template),
    /// Nobody is there: the connection is closed.
    Nobody,
    /// The first case whose condition holds.
    Choose(Vec<TcpCase>),
}

impl TcpAction {
    /// Whether connections to endpoints may come from addresses of other machines.
    pub(crate) fn is_transparent(&self) -> bool {
        match self {
            Self::Proxy(proxy) => proxy.transparent,
            Self::Choose(cases) => cases.iter().any(|case| case.action.is_transparent()),
            Self::Respond(_) | Self::Pass(_) | Self::Nobody => false,
        }
    }
}

/// One choice of a TCP service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpCase {
    /// When it is chosen; `None`: always.
    pub condition: Option<Condition>,
    /// Runs once it is chosen; it may only close.
    pub program: Vec<Op>,
    /// What is done.
    pub action: TcpAction,
}

/// Carrying of bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpProxy {
    /// Pool by name, or computed `host:port`.
    pub target: crate::ProxyTarget,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time between two bytes, either way (nginx `proxy_timeout`).
    pub idle_timeout: Duration,
    /// Time the client may be silent, if told apart (HAProxy `timeout client`).
    pub client_timeout: Option<Duration>,
    /// Time the endpoint may be silent (HAProxy `timeout server`).
    pub server_timeout: Option<Duration>,
    /// Idle time once both sides have sent (HAProxy `timeout tunnel`).
    pub tunnel_timeout: Option<Duration>,
    /// Idle time once one side has closed (`client-fin`, `server-fin`).
    pub half_closed_timeout: Option<Duration>,
    /// Bytes of buffer each way.
    pub buffer: u64,
    /// When another endpoint is tried.
    pub retry: RetrySettings,
    /// PROXY header sent.
    pub send_proxy: Option<ProxyProtocol>,
    /// TLS to endpoints.
    pub tls: Option<UpstreamTls>,
    /// Local address.
    pub bind: Option<Template>,
    /// `bind` may be an address of another machine (IP_TRANSPARENT).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transparent: bool,
    /// Bytes a second from and to the client.
    pub limit_rate: (Option<u64>, Option<u64>),
    /// Keep TCP keep-alive probes on upstream sockets.
    pub socket_keepalive: bool,
    /// A side that ends its half leaves the other open (`proxy_half_close`); otherwise the session is over.
    pub half_close: bool,
    /// Where what comes are datagrams.
    pub datagrams: Datagrams,
    /// What is done by the first bytes of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Box<TcpAnswers>>,
}

/// Rules about the first bytes of an endpoint (HAProxy `tcp-response content`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TcpAnswers {
    /// So long more bytes are waited for, where rules look at stretches that have not come.
    pub wait: Duration,
    /// So many are waited for.
    pub least: u64,
    /// Most bytes that are looked at.
    pub most: u64,
    /// Runs once they are there; it may only close.
    pub program: Vec<Op>,
}
