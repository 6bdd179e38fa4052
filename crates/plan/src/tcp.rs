//! TCP services.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_control::{SiteId, ZoneId};
use weir_expr::settings::{Datagrams, Inspect, LogLevel, ProxyProtocol};
use weir_policy::retry::RetryPolicy;

use crate::{
    Access, AccessLog, Condition, ErrorLog, LimitConn, Program, ProxyTarget, RealIp, Template, UpstreamTlsUse,
};

/// A TCP service: connections are carried, not read.
#[derive(Clone, Debug, Serialize)]
pub struct TcpService {
    /// Stable id, from the name: what counters are kept under.
    pub id: SiteId,
    /// Name for people and metrics.
    pub name: Box<str>,
    /// What is done with a connection.
    pub action: TcpAction,
    /// Bytes of the client are read ahead before rules look at them (`ssl_preread`, HAProxy `inspect-delay`).
    pub inspect: Option<Inspect>,
    /// Runs before anything is done; it may only close.
    pub program: Option<Arc<Program>>,
    /// Who may pass.
    pub access: Arc<Access>,
    /// Concurrency limits.
    pub limit_conn: Arc<[LimitConn]>,
    /// Client addresses from the PROXY header of trusted peers.
    pub real_ip: Option<Arc<RealIp>>,
    /// Name servers for targets that are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Arc<crate::Resolver>>,
    /// Access logs.
    pub access_logs: Arc<[AccessLog]>,
    /// Error logs; the process's if the service names none.
    pub error_logs: Arc<[ErrorLog]>,
    /// Least severity of what error logs say about sessions.
    pub error_lines: LogLevel,
    /// Time for a PROXY header and a TLS handshake with the client.
    pub handshake_timeout: Duration,
    /// Disable Nagle's algorithm.
    pub tcp_nodelay: bool,
    /// Connections at once.
    pub max_connections: Option<u64>,
    /// Sessions that begin in a second, beyond which new connections wait in the accept queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_rate: Option<u32>,
    /// TCP keep-alive probes on client sockets.
    pub socket_keepalive: bool,
    /// Log sessions whose client sent nothing (HAProxy without `dontlognull`; nginx always).
    pub log_empty_connections: bool,
    /// Its sessions are counted in this zone, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneId>,
}

/// What a TCP service does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "there are few services, and most carry bytes")]
pub enum TcpAction {
    /// Carries bytes to a pool.
    Proxy(TcpProxy),
    /// Sends a text and closes.
    Respond(Template),
    /// Hands the connection to the listener of this address, as if it had arrived there.
    Pass(Template),
    /// Nobody is there: the connection is closed.
    Nobody,
    /// The first case whose condition holds.
    Choose(Box<[TcpCase]>),
}

/// One choice of a TCP service.
#[derive(Clone, Debug, Serialize)]
pub struct TcpCase {
    /// When it is chosen; `None`: always.
    pub condition: Option<Condition>,
    /// Runs once it is chosen; it may only close.
    pub program: Option<Arc<Program>>,
    /// What is done.
    pub action: TcpAction,
}

/// Carrying of bytes.
#[derive(Clone, Debug, Serialize)]
pub struct TcpProxy {
    /// Pool, or computed `host:port`.
    pub target: ProxyTarget,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time between two bytes, either way.
    pub idle_timeout: Duration,
    /// Time the client may be silent, if told apart.
    pub client_timeout: Option<Duration>,
    /// Time the endpoint may be silent.
    pub server_timeout: Option<Duration>,
    /// Idle time once both sides have sent.
    pub tunnel_timeout: Option<Duration>,
    /// Idle time once one side has closed.
    pub half_closed_timeout: Option<Duration>,
    /// Bytes of buffer each way.
    pub buffer: u64,
    /// When another endpoint is tried.
    #[serde(serialize_with = "crate::show::debug")]
    pub retry: RetryPolicy,
    /// PROXY header sent.
    pub send_proxy: Option<ProxyProtocol>,
    /// TLS to endpoints.
    pub tls: Option<UpstreamTlsUse>,
    /// Local address.
    pub bind: Option<Template>,
    /// It may be an address of another machine (IP_TRANSPARENT).
    pub transparent: bool,
    /// Bytes a second from and to the client.
    pub limit_rate: (Option<u64>, Option<u64>),
    /// TCP keep-alive probes on upstream sockets.
    pub socket_keepalive: bool,
    /// A side that ends its half leaves the other open (`proxy_half_close`); otherwise the session is over.
    pub half_close: bool,
    /// Where what comes are datagrams.
    pub datagrams: Datagrams,
    /// What is done by the first bytes of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Arc<TcpAnswers>>,
}

/// Rules about the first bytes of an endpoint.
#[derive(Clone, Debug, Serialize)]
pub struct TcpAnswers {
    /// So long more bytes are waited for.
    pub wait: Duration,
    /// So many are waited for.
    pub least: u64,
    /// Most bytes that are looked at.
    pub most: u64,
    /// Runs once they are there; it may only close.
    pub program: Arc<Program>,
}
