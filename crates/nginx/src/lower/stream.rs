//! The `stream` block.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model::settings::{LogLevel, ProxyProtocol, RetrySettings};
use weir_model::{
    Access, AccessLog, AccessRule, Address, ErrorLog, LimitConn, Listener, ListenerTls, ProxyTarget, RealIp,
    RealIpSource, Resolver, Service, TcpAction, TcpId, TcpProxy, TcpService, Template, UpstreamTls, Who,
};

use super::listen::ListenSpec;
use super::scope::{Level, List, TlsScope, UpstreamTlsScope};
use super::{Lowering, ServerParts, access, log, pool};
use crate::table::{Contexts, Lower};
use crate::tree::Directive;
use crate::variables::Dialect;

/// Settings of `stream`, inherited by its servers, and the action of one server.
#[derive(Clone, Debug)]
pub(crate) struct StreamScope {
    pub level: Level,
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
    pub connect_timeout: Duration,
    pub idle_timeout: Duration,
    pub buffer: u64,
    pub send_proxy: bool,
    pub send_proxy_v2: bool,
    pub retry: Arc<RetrySettings>,
    pub rates: (Option<u64>, Option<u64>),
    pub socket_keepalive: bool,
    pub bind: Option<Template>,
    pub upstream_tls_on: bool,
    pub upstream_tls: Arc<UpstreamTlsScope>,
    pub tls: Arc<TlsScope>,
    pub alpn: Vec<String>,
}

/// What a server does.
#[derive(Clone, Debug)]
pub(crate) enum TcpTarget {
    Proxy { target: ProxyTarget, host: String },
    Respond(Template),
}

impl StreamScope {
    fn defaults() -> Self {
        let tls = UpstreamTls {
            session_reuse: true,
            depth: Some(super::tls::VERIFY_DEPTH),
            ..UpstreamTls::default()
        };
        Self {
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
            connect_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(600),
            buffer: 16 << 10,
            send_proxy: false,
            send_proxy_v2: false,
            retry: Arc::default(),
            rates: (None, None),
            socket_keepalive: false,
            bind: None,
            upstream_tls_on: false,
            upstream_tls: Arc::new(UpstreamTlsScope { tls, ..UpstreamTlsScope::default() }),
            tls: Arc::default(),
            alpn: Vec::new(),
        }
    }

    /// The name servers, with the time of a look-up.
    fn resolver(&self) -> Option<Resolver> {
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

/// Lowers the block with everything inside it.
pub(crate) fn lower(lo: &mut Lowering<'_>, d: &Directive) {
    lo.dialect = Dialect::Stream;
    lo.declare(d.children());
    log::begin_formats(lo);
    let words = lo.admit(d.children(), Contexts::STREAM);
    for word in &words {
        if let Lower::Shared(f) = word.entry.lower {
            f(lo, word.directive);
        }
    }
    let mut scope = StreamScope { level: lo.next_level(), ..StreamScope::defaults() };
    for word in &words {
        if let Lower::Stream(f) = word.entry.lower {
            f(lo, &mut scope, word.directive);
        }
    }
    let resolver = scope.resolver();
    for word in words.iter().filter(|word| word.entry.name == "upstream") {
        pool::lower(lo, word.directive, resolver.as_ref());
    }
    for word in words.iter().filter(|word| word.entry.name == "server") {
        server(lo, &scope, word.directive);
    }
}

fn server(lo: &mut Lowering<'_>, outer: &StreamScope, d: &Directive) {
    let words = lo.admit(d.children(), Contexts::STREAM_SERVER);
    let mut scope = StreamScope { level: lo.next_level(), ..outer.clone() };
    let mut parts = ServerParts::default();
    for word in &words {
        match word.entry.lower {
            Lower::Stream(f) => f(lo, &mut scope, word.directive),
            Lower::Server(f) => f(lo, &mut parts, word.directive),
            _ => {}
        }
    }
    let Some(target) = scope.action.clone() else {
        // The word that says it may be one that is not built, which was told.
        if lo.diagnostics.iter().all(|found| found.severity != weir_diag::Severity::Error) {
            let text = "this server does nothing: it has neither `proxy_pass` nor `return`";
            lo.report(Diagnostic::error("nginx::no-handler", text).at(d.name.span));
        }
        return;
    };
    if parts.listens.is_empty() {
        if !parts.skipped_listen {
            let text = "this server has no `listen`, so nothing reaches it";
            lo.report(Diagnostic::error("nginx::no-listen", text).at(d.name.span));
        }
        return;
    }
    let service = service(lo, &scope, target, d, &parts);
    lo.model.tcp.push(service);
    let id = TcpId(lo.model.tcp.len() as u32 - 1);
    for spec in parts.listens {
        listener(lo, &scope, spec, id);
    }
}

fn service(
    lo: &mut Lowering<'_>,
    s: &StreamScope,
    target: TcpTarget,
    d: &Directive,
    parts: &ServerParts,
) -> TcpService {
    let limits = s.limit_conn.items().iter();
    let limits =
        limits.map(|limit| LimitConn { log_level: s.limit_level, dry_run: s.limit_dry_run, ..limit.clone() });
    let trusted = s.real_ip_from.items();
    let real_ip = (!trusted.is_empty()).then(|| {
        Arc::new(RealIp { from: trusted.to_vec(), source: RealIpSource::ProxyProtocol, recursive: false })
    });
    TcpService {
        name: parts.listens.first().map_or_else(String::new, |spec| address_name(&spec.address)),
        origin: Some(d.name.span),
        action: action(lo, s, target),
        inspect: None,
        program: Vec::new(),
        access: Arc::new(Access { rules: s.access_rules.items().to_vec(), ..Access::default() }),
        limit_conn: Arc::new(limits.collect()),
        real_ip,
        resolver: s.resolver().map(Arc::new),
        access_logs: s.access_logs.items().clone(),
        error_logs: (!s.error_logs.items().is_empty()).then(|| s.error_logs.items().clone()),
        error_lines: LogLevel::Debug,
        handshake_timeout: s
            .proxy_protocol_timeout
            .map_or(s.handshake_timeout, |time| time.min(s.handshake_timeout)),
        tcp_nodelay: s.tcp_nodelay,
        max_connections: None,
        socket_keepalive: false,
        log_empty_connections: true,
    }
}

fn action(lo: &mut Lowering<'_>, s: &StreamScope, target: TcpTarget) -> TcpAction {
    let (target, host) = match target {
        TcpTarget::Respond(text) => return TcpAction::Respond(text),
        TcpTarget::Proxy { target, host } => (target, host),
    };
    let tls = s.upstream_tls_on.then(|| {
        let mut tls = super::upstream_tls::finish(lo, &s.upstream_tls);
        // nginx's default of `proxy_ssl_name`: the host that `proxy_pass` names.
        tls.name = tls.name.or_else(|| (!host.is_empty()).then(|| Template::literal(host)));
        tls
    });
    let version = if s.send_proxy_v2 { ProxyProtocol::V2 } else { ProxyProtocol::V1 };
    TcpAction::Proxy(TcpProxy {
        target,
        connect_timeout: s.connect_timeout,
        idle_timeout: s.idle_timeout,
        client_timeout: None,
        server_timeout: None,
        tunnel_timeout: None,
        half_closed_timeout: None,
        buffer: s.buffer,
        retry: (*s.retry).clone(),
        send_proxy: s.send_proxy.then_some(version),
        tls,
        bind: s.bind.clone(),
        limit_rate: s.rates,
        socket_keepalive: s.socket_keepalive,
    })
}

fn address_name(address: &Address) -> String {
    match address {
        Address::Tcp(SocketAddr::V4(v4)) if *v4.ip() == Ipv4Addr::UNSPECIFIED => format!("*:{}", v4.port()),
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn listener(lo: &mut Lowering<'_>, s: &StreamScope, spec: ListenSpec, id: TcpId) {
    if let Some(first) = lo.listened_at(&spec.address) {
        let text = "this address is listened on already";
        let mut found = Diagnostic::error("nginx::duplicate-listen", text).at(spec.span);
        if let Some(first) = first {
            found = found.also(first, "here");
        }
        return lo.report(found.help("one address serves one stream server, or HTTP"));
    }
    let tls = if spec.tls { tls(lo, s, &spec) } else { None };
    let name = match &spec.address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    lo.listen(Listener {
        name,
        origin: Some(spec.span),
        address: spec.address,
        socket: spec.socket,
        proxy_protocol: spec.proxy_protocol,
        proxy_header_names_client: false,
        tls,
        max_connections: None,
        gate: Vec::new(),
        service: Service::Tcp(id),
    });
}

fn tls(lo: &mut Lowering<'_>, s: &StreamScope, spec: &ListenSpec) -> Option<ListenerTls> {
    let Some(mut identity) = super::tls::identity(lo, &s.tls) else {
        if s.tls.broken || !s.tls.certificates.items().is_empty() {
            // What is wrong with them was told.
            return None;
        }
        let text = "this address speaks TLS, but its server has no certificate";
        let found = Diagnostic::error("nginx::no-certificate", text).at(spec.span);
        lo.report(found.help("add `ssl_certificate` and `ssl_certificate_key`"));
        return None;
    };
    identity.alpn.clone_from(&s.alpn);
    Some(ListenerTls {
        default: identity,
        by_name: Vec::new(),
        strict_sni: false,
        tickets: s.tls.tickets,
        session_cache: s.tls.session_cache,
        session_timeout: s.tls.session_timeout,
        answer_bad_certificates: false,
    })
}

pub(crate) fn respond(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    s.action = Some(TcpTarget::Respond(lo.template(&d.args[0])));
}

pub(crate) fn access_log(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if d.arg(0) == "off" && d.args.len() == 1 {
        return s.access_logs.clear(s.level);
    }
    if d.args.len() < 2 {
        let text = "`access_log` of stream needs a format";
        return lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
    }
    if let Some(log) = log::parse_access_log(lo, d) {
        s.access_logs.push(s.level, log);
    }
}

pub(crate) fn error_log(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(log) = log::parse_error_log(lo, d) {
        s.error_logs.push(s.level, log);
    }
}

pub(crate) fn access_rule(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(rule) = access::parse_rule(lo, d) {
        s.access_rules.push(s.level, rule);
    }
}

pub(crate) fn real_ip_from(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    for who in access::parse_trusted(lo, d) {
        s.real_ip_from.push(s.level, who);
    }
}

pub(crate) fn limit_conn(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(limit) = access::parse_limit_conn(lo, d) {
        s.limit_conn.push(s.level, limit);
    }
}

pub(crate) fn resolver(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    s.resolver = super::client::parse_resolver(lo, d);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_shown_as_nginx_writes_them() {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 3306));
        assert_eq!(address_name(&Address::Tcp(any)), "*:3306");
    }
}
