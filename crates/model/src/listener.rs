//! Where connections arrive.

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::settings::Quic;

use crate::{Address, ListenerTls, NamePattern, Op, SiteId, TcpId, TcpKeepalive};

/// One bound address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listener {
    /// Unique name: the address as text, or a name given.
    pub name: String,
    /// Where it was written first.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// What is bound.
    pub address: Address,
    /// Which of the listeners of one address this is. The kernel spreads connections over them, whatever they serve (HAProxy's
    /// frontends that bind the same).
    #[serde(skip_serializing_if = "is_first")]
    pub share: u32,
    /// Socket options.
    pub socket: SocketOptions,
    /// A PROXY header is expected first on each connection (RFC-less; proxy-protocol.txt). Without one the connection is closed.
    pub proxy_protocol: bool,
    /// Who it names is the client. Otherwise that is only known, and real-IP rules say whether it holds.
    pub proxy_header_names_client: bool,
    /// HTTP/2 is spoken where a connection without TLS begins with its preface. With TLS the identities' ALPN decides.
    pub http2: bool,
    /// QUIC is spoken here: what comes are datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<Quic>,
    /// TLS, if it is spoken here.
    pub tls: Option<ListenerTls>,
    /// Client connections accepted at once; `None`: only the process's limit.
    pub max_connections: Option<u64>,
    /// Runs on every connection as it is accepted, before anything is read; it may only close (HAProxy `tcp-request
    /// connection`).
    pub gate: Vec<Op>,
    /// TCP services by the name that TLS asks for, ended here or read ahead; the default among them. Empty: there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<(Vec<NamePattern>, TcpId)>,
    /// What is served.
    pub service: Service,
}

fn is_first(share: &u32) -> bool {
    *share == 0
}

/// What a listener's connections are for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// HTTP sites, told apart by Host.
    Http {
        /// All sites reachable here, default included. Names unique to one site each (warned about otherwise; first wins).
        sites: Vec<SiteId>,
        /// The site for hosts that no other names.
        default: SiteId,
    },
    /// A TCP service, for names that none of `services` has.
    Tcp(TcpId),
}

/// Options of listening sockets. Defaults are the system's.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketOptions {
    /// Length of the accept queue; `None`: 4096, cut by the system's `somaxconn`.
    pub backlog: Option<u32>,
    /// IPv6 sockets take IPv6 only; `None`: true (nginx's default).
    pub ipv6_only: Option<bool>,
    /// The file asks for one socket a worker. Weir decides by itself; kept for `explain`.
    pub reuse_port: bool,
    /// Queue length of TCP Fast Open.
    pub fast_open: Option<u32>,
    /// Wake up only once data is there (TCP_DEFER_ACCEPT).
    pub deferred: bool,
    /// SO_RCVBUF in bytes.
    pub receive_buffer: Option<u64>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: Option<u64>,
    /// TCP keep-alive probes: idle, interval, count; `None`: system defaults, off.
    pub keepalive: Option<TcpKeepalive>,
    /// Bind even if the address is not on the machine yet (IP_FREEBIND / transparent).
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
