//! What one block says, while it is read.
//!
//! Owns: the parts of a location, a server, a pool, and a server of stream that inner blocks do not inherit.
//! Never: makes a node of the model of them; `build` does, once the block is read.
//! Driven by: the entries of the table.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::Dashboard;
use weir_model::settings::{Datagrams, Inspect, LogLevel, RetrySettings};
use weir_model::{
    AccessLog, AccessRule, Address, ErrorLog, LimitConn, NamePattern, Op, Pool, ProxyTarget, Resolver,
    SocketOptions, Template, TryFiles, UpstreamTls, Who,
};

use super::acme_parts::Wanted;
use super::scope::{Level, List, TlsScope, UpstreamTlsScope, VERIFY_DEPTH};
use super::state::Lowering;
use crate::lexer::Word;

/// What kind of place words stand in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Server,
    Prefix(String),
    Exact(String),
    Regex,
    Named,
    If,
    LimitExcept,
}

impl PlaceKind {
    /// True where `proxy_pass` may have a path: the part of the path it replaces is known.
    pub(crate) fn takes_uri(&self) -> bool {
        matches!(self, Self::Prefix(_) | Self::Exact(_))
    }

    /// "… in a location given by a pattern".
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Regex => "in a location given by a pattern",
            Self::Named => "in a named location",
            Self::If => "inside `if`",
            Self::LimitExcept => "inside `limit_except`",
            Self::Server | Self::Prefix(_) | Self::Exact(_) => "here",
        }
    }
}

/// What answers, as written; finished once all settings are known.
#[derive(Clone, Debug)]
pub(crate) enum ActionSpec {
    /// Files, of which videos may be begun in their middle.
    Video(VideoKind),
    Proxy(Arc<ProxySpec>),
    Grpc(Arc<ProxySpec>),
    FastCgi(Application, ProxyTarget),
    StubStatus,
    EmptyGif,
    Metrics,
    Dashboard(Dashboard),
    /// True: it may be told to change things.
    Api(bool),
}

/// What is spoken with an application server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Application {
    FastCgi,
    Uwsgi { tls: bool },
    Scgi,
    Memcached,
}

/// Words of one place that inner ones do not inherit.
pub(crate) struct Place {
    pub kind: PlaceKind,
    pub internal: bool,
    pub alias: Option<(Template, Span)>,
    pub try_files: Option<TryFiles>,
    pub action: Option<ActionSpec>,
    pub health: Option<HealthSpec>,
    action_span: Option<Span>,
}

impl Place {
    pub(crate) fn new(kind: PlaceKind) -> Self {
        Self {
            kind,
            internal: false,
            alias: None,
            try_files: None,
            action: None,
            health: None,
            action_span: None,
        }
    }

    /// Sets what answers; two answers are a mistake that nginx meets by taking the last.
    pub(crate) fn set_action(&mut self, lo: &mut Lowering<'_>, action: ActionSpec, span: Span) {
        if let Some(first) = self.action_span.replace(span) {
            lo.report(
                Diagnostic::warning(
                    "nginx::two-actions",
                    "two words say what answers here; the last one holds",
                )
                .at(span)
                .also(first, "first here"),
            );
        }
        self.action = Some(action);
    }
}

/// What videos there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VideoKind {
    Mp4,
    Flv,
}

/// `health_check` as written.
#[derive(Clone, Debug)]
pub(crate) struct HealthSpec {
    pub span: Span,
    pub interval: Duration,
    pub jitter: Duration,
    pub fails: u32,
    pub passes: u32,
    pub uri: String,
    pub mandatory: bool,
    /// Name of a `match` block.
    pub matching: Option<Word>,
    pub port: Option<u16>,
    /// How long a connection serves for checks; `None`: each has its own.
    pub keepalive: Option<Duration>,
    /// gRPC's health service is asked: about which service, and which status is as good as an answer.
    pub grpc: Option<(String, Option<u32>)>,
    /// Datagrams are sent.
    pub udp: bool,
}

/// What `proxy_pass` says.
#[derive(Clone, Debug)]
pub(crate) struct ProxySpec {
    pub target: ProxyTarget,
    /// TLS is, or may turn out to be, spoken.
    pub tls: bool,
    pub host: String,
    /// The path part as written.
    pub uri: Option<String>,
    /// The URL as written, if it holds no variables.
    pub url: Option<String>,
}

/// A server while its block is read.
#[derive(Default)]
pub(crate) struct ServerParts {
    pub listens: Vec<ListenSpec>,
    /// Where each address of theirs was written.
    pub listened: HashMap<Address, Span>,
    /// A `listen` was written that binds nothing.
    pub skipped_listen: bool,
    pub names: Vec<NamePattern>,
    /// The first name as `$server_name` shows it.
    pub first_name: Option<String>,
    /// `status_zone`.
    pub zone: Option<String>,
    /// `acme_certificate`.
    pub acme: Option<Wanted>,
}

/// One address of one server.
#[derive(Clone, Debug)]
pub(crate) struct ListenSpec {
    pub address: Address,
    pub span: Span,
    pub default_server: bool,
    pub tls: bool,
    pub proxy_protocol: bool,
    pub http2: bool,
    /// It takes datagrams.
    pub udp: bool,
    /// QUIC is spoken on them.
    pub quic: bool,
    /// Socket options were written, which only one `listen` of an address may do.
    pub has_options: bool,
    pub socket: SocketOptions,
}

impl ListenSpec {
    /// An address without parameters.
    pub(crate) fn plain(address: Address, span: Span) -> Self {
        Self {
            address,
            span,
            default_server: false,
            tls: false,
            proxy_protocol: false,
            http2: false,
            udp: false,
            quic: false,
            has_options: false,
            socket: SocketOptions::default(),
        }
    }
}

/// A pool while its block is read.
pub(crate) struct PoolParts {
    pub pool: Pool,
    /// The word that chose the algorithm.
    pub balance_span: Option<Span>,
    pub resolver_timeout: Option<Duration>,
    /// Its name as written.
    pub written: String,
    /// `weir_sticky_key`.
    pub sticky_key: Option<(String, Span)>,
    /// `state`.
    pub state: Option<(std::path::PathBuf, Span)>,
}

/// Settings of `stream`, inherited by its servers, and the action of one server.
#[derive(Clone, Debug)]
pub(crate) struct StreamScope {
    pub level: Level,
    pub health: Option<HealthSpec>,
    pub health_timeout: Duration,
    pub action: Option<TcpTarget>,
    pub access_logs: List<AccessLog>,
    pub error_logs: List<ErrorLog>,
    pub access_rules: List<AccessRule>,
    pub real_ip_from: List<Who>,
    pub limit_conn: List<LimitConn>,
    pub limit_level: LogLevel,
    pub limit_dry_run: bool,
    pub resolver: Option<Resolver>,
    pub resolver_timeout: Duration,
    pub tcp_nodelay: bool,
    pub proxy_protocol_timeout: Option<Duration>,
    pub handshake_timeout: Duration,
    pub preread: bool,
    pub inspect: Inspect,
    pub connect_timeout: Duration,
    pub idle_timeout: Duration,
    pub buffer: u64,
    pub send_proxy: bool,
    pub send_proxy_v2: bool,
    pub retry: Arc<RetrySettings>,
    pub rates: (Option<u64>, Option<u64>),
    pub socket_keepalive: bool,
    pub half_close: bool,
    pub datagrams: Datagrams,
    /// Variables that are assigned, in order.
    pub assignments: Vec<Op>,
    pub bind: Option<Template>,
    /// It may be another machine's.
    pub transparent: bool,
    pub upstream_tls_on: bool,
    pub upstream_tls: Arc<UpstreamTlsScope>,
    pub tls: Arc<TlsScope>,
    pub alpn: Vec<String>,
}

/// What a server does.
#[derive(Clone, Debug)]
pub(crate) enum TcpTarget {
    Proxy {
        target: ProxyTarget,
        host: String,
    },
    Respond(Template),
    /// To another listener, and where that was written.
    Pass(Template, Span),
}

impl StreamScope {
    pub(crate) fn defaults() -> Self {
        let tls = UpstreamTls { session_reuse: true, depth: Some(VERIFY_DEPTH), ..UpstreamTls::default() };
        Self {
            health: None,
            health_timeout: Duration::from_secs(5),
            level: Level::default(),
            action: None,
            access_logs: List::default(),
            error_logs: List::default(),
            access_rules: List::default(),
            real_ip_from: List::default(),
            limit_conn: List::default(),
            limit_level: LogLevel::Error,
            limit_dry_run: false,
            resolver: None,
            resolver_timeout: Duration::from_secs(30),
            tcp_nodelay: true,
            proxy_protocol_timeout: None,
            handshake_timeout: Duration::from_secs(60),
            preread: false,
            inspect: Inspect { time: Duration::from_secs(30), most: 16 << 10, least: 0, strict: true },
            connect_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(600),
            buffer: 16 << 10,
            send_proxy: false,
            send_proxy_v2: false,
            retry: Arc::default(),
            rates: (None, None),
            socket_keepalive: false,
            half_close: false,
            datagrams: Datagrams::default(),
            assignments: Vec::new(),
            bind: None,
            transparent: false,
            upstream_tls_on: false,
            upstream_tls: Arc::new(UpstreamTlsScope { tls, ..UpstreamTlsScope::default() }),
            tls: Arc::default(),
            alpn: Vec::new(),
        }
    }

    /// The name servers, with the time of a look-up.
    pub(crate) fn resolver(&self) -> Option<Resolver> {
        let timeout = self.resolver_timeout;
        self.resolver.clone().map(|resolver| Resolver { timeout, again: timeout, ..resolver })
    }

    pub(crate) fn retry_mut(&mut self) -> &mut RetrySettings {
        Arc::make_mut(&mut self.retry)
    }

    pub(crate) fn tls_mut(&mut self) -> &mut TlsScope {
        Arc::make_mut(&mut self.tls)
    }

    pub(crate) fn upstream_tls(&mut self) -> &mut UpstreamTlsScope {
        Arc::make_mut(&mut self.upstream_tls)
    }
}
