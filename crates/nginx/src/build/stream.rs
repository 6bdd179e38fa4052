//! The `stream` block.
//!
//! Owns: the services of its servers; `stream_listeners` makes the listeners of their addresses.
//! Driven by: `build`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::settings::{LogLevel, ProxyProtocol};
use weir_model::{
    Access, Address, LimitConn, RealIp, RealIpSource, TcpAction, TcpId, TcpProxy, TcpService, Template,
};

use super::stream_listeners::{self, Served};
use super::upstream;
use crate::table::{Contexts, Taker};
use crate::take::parts::TcpTarget;
use crate::take::{Lowering, ServerParts, StreamScope, health, log, upstream_tls};
use crate::tree::Directive;
use crate::variables::Dialect;

/// Lowers the block with everything inside it.
pub(crate) fn build(lo: &mut Lowering<'_>, d: &Directive) {
    lo.dialect = Dialect::Stream;
    lo.declare(d.children());
    log::begin_formats(lo);
    let words = lo.admit(d.children(), Contexts::STREAM);
    for word in &words {
        if let Taker::Shared(f) = word.entry.taker {
            f(lo, word.directive);
        }
    }
    let mut scope = StreamScope { level: lo.next_level(), ..StreamScope::defaults() };
    for word in &words {
        if let Taker::Stream(f) = word.entry.taker {
            f(lo, &mut scope, word.directive);
        }
    }
    let resolver = scope.resolver();
    for word in words.iter().filter(|word| word.entry.name == "upstream") {
        upstream::build(lo, word.directive, resolver.as_ref());
    }
    let mut all = Vec::new();
    for word in words.iter().filter(|word| word.entry.name == "server") {
        server(lo, &scope, word.directive, &mut all);
    }
    stream_listeners::build(lo, all);
}

fn server(lo: &mut Lowering<'_>, outer: &StreamScope, d: &Directive, all: &mut Vec<Served>) {
    let words = lo.admit(d.children(), Contexts::STREAM_SERVER);
    let mut scope = StreamScope { level: lo.next_level(), ..outer.clone() };
    let mut parts = ServerParts::default();
    for word in &words {
        match word.entry.taker {
            Taker::Stream(f) => f(lo, &mut scope, word.directive),
            Taker::Server(f) => f(lo, &mut parts, word.directive),
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
    if scope.upstream_tls_on && parts.listens.iter().any(|spec| spec.udp) {
        let text = "`proxy_ssl` has no effect on datagrams: they go to upstreams as they are";
        lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.name.span));
    }
    if let TcpTarget::Pass(_, span) = &target
        && parts.listens.iter().any(|spec| spec.udp)
    {
        let text = "`pass` hands connections on; this server takes datagrams";
        lo.report(Diagnostic::error("nginx::not-built", text).at(*span).help("use `proxy_pass` for them"));
    }
    if let (Some(spec), TcpTarget::Proxy { target, .. }) = (&scope.health, &target) {
        let tls = scope.upstream_tls_on.then(|| upstream_tls::finish(lo, &scope.upstream_tls));
        let checked = health::Checked {
            target,
            spoken: health::Spoken::Bytes,
            tls: tls.as_ref(),
            timeout: scope.health_timeout,
        };
        health::attach(lo, spec, &checked);
    }
    let service = service(lo, &scope, target, d, &parts);
    lo.model.tcp.push(service);
    let id = TcpId(lo.model.tcp.len() as u32 - 1);
    all.extend(parts.listens.into_iter().map(|spec| Served {
        spec,
        id,
        names: parts.names.clone(),
        preread: scope.preread,
        tls: scope.tls.clone(),
        alpn: scope.alpn.clone(),
    }));
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
        inspect: s.preread.then_some(s.inspect),
        program: s.assignments.clone(),
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
        session_rate: None,
        socket_keepalive: false,
        log_empty_connections: true,
        zone: parts.zone.clone(),
    }
}

fn action(lo: &mut Lowering<'_>, s: &StreamScope, target: TcpTarget) -> TcpAction {
    let (target, host) = match target {
        TcpTarget::Respond(text) => return TcpAction::Respond(text),
        TcpTarget::Pass(address, _) => return TcpAction::Pass(address),
        TcpTarget::Proxy { target, host } => (target, host),
    };
    let tls = s.upstream_tls_on.then(|| {
        let mut tls = upstream_tls::finish(lo, &s.upstream_tls);
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
        transparent: s.transparent,
        limit_rate: s.rates,
        socket_keepalive: s.socket_keepalive,
        half_close: s.half_close,
        datagrams: s.datagrams,
        answers: None,
    })
}

fn address_name(address: &Address) -> String {
    match address {
        Address::Udp(address) => format!("udp:{}", address_name(&Address::Tcp(*address))),
        Address::Tcp(SocketAddr::V4(v4)) if *v4.ip() == Ipv4Addr::UNSPECIFIED => format!("*:{}", v4.port()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_shown_as_nginx_writes_them() {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 3306));
        assert_eq!(address_name(&Address::Tcp(any)), "*:3306");
        assert_eq!(address_name(&Address::Udp(any)), "udp:*:3306");
    }
}
