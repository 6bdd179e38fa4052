//! Where connections arrive.

use std::sync::Arc;

use serde::Serialize;
use weir_control::ListenerId;
use weir_expr::settings::Quic;
use weir_http::HeadRules;

use crate::{Address, HostIndex, ListenerTls, NameIndex, Program, TcpIx};

/// One bound address.
#[derive(Clone, Debug, Serialize)]
pub struct Listener {
    /// Stable id, from the address.
    pub id: ListenerId,
    /// For people.
    pub name: Box<str>,
    /// What is bound.
    pub address: Address,
    /// A PROXY header is expected first on each connection.
    pub proxy_protocol: bool,
    /// Who it names is the client; else real-IP rules say whether that holds.
    pub proxy_header_names_client: bool,
    /// HTTP/2 is spoken where a connection without TLS begins with its preface.
    pub http2: bool,
    /// QUIC is spoken here: what comes are datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<Quic>,
    /// TLS, if it is spoken here.
    pub tls: Option<Arc<ListenerTls>>,
    /// Client connections accepted at once; `None`: only the process's limit.
    pub max_connections: Option<u64>,
    /// Runs on every connection as it is accepted; it may only close.
    pub gate: Option<Arc<Program>>,
    /// TCP services by name, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Arc<NameIndex<TcpIx>>>,
    /// What is served.
    pub service: Service,
    /// What a request's head may measure before its site is known: whatever one of the sites lets pass.
    #[serde(serialize_with = "crate::show::debug")]
    pub heads: HeadRules,
    /// Sites have other rules than these; each site's own are applied once it is known.
    pub heads_differ: bool,
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
