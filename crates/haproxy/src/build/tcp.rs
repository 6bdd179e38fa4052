//! Frontends and listens in mode tcp as TCP services.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{
    Access, AccessRule, Condition, Manner, ProxyTarget, Subject, TcpAction, TcpId, TcpProxy, TcpService,
    Template, Test, Var, Who,
};

use super::condition::Acls;
use super::logs::{access_logs, log_scope};
use super::proxies::{Context, mode};
use super::route::local_address;
use super::rules::{Deed, Read, Reader};
use super::settings::{UNSET, retry};
use crate::draft::{Mode, Proxy, RuleList};
use crate::read::Word;

/// Builds the service; `None` if it has nowhere to send connections (reported).
pub(crate) fn service<'a>(context: &mut Context<'a>, proxy: &'a Proxy, tls: &[bool]) -> Option<TcpId> {
    let scope = context.scope(proxy);
    let log = log_scope(proxy, tls);
    let logs = access_logs(&scope, &log, context.findings);
    let acls = Acls::build(&scope, context.findings);
    http_words(context, proxy);
    let rules = access_rules(context, proxy, &acls);
    let action = match target(context, proxy)? {
        Some(backend) => TcpAction::Proxy(carry(proxy, backend)),
        None => TcpAction::Respond(Template::default()),
    };
    let service = TcpService {
        name: proxy.name.text.clone(),
        origin: Some(proxy.name.span),
        action,
        access: Arc::new(Access { rules, ..Access::default() }),
        limit_conn: Arc::default(),
        real_ip: None,
        access_logs: Arc::new(logs),
        error_logs: None,
        manner: Manner::Haproxy,
        handshake_timeout: proxy.settings.timeout("client").unwrap_or(UNSET).min(UNSET),
        tcp_nodelay: true,
        max_connections: proxy.settings.maxconn,
        socket_keepalive: proxy.settings.flag("clitcpka") || proxy.settings.flag("tcpka"),
        log_empty_connections: !proxy.settings.flag("dontlognull"),
    };
    context.model.tcp.push(service);
    u32::try_from(context.model.tcp.len() - 1).ok().map(TcpId)
}

/// How bytes are carried from a frontend to a backend.
fn carry(proxy: &Proxy, backend: &Proxy) -> TcpProxy {
    let settings = &backend.settings;
    let server = settings.timeout("server").unwrap_or(UNSET);
    let client = proxy.settings.timeout("client").unwrap_or(UNSET);
    let fins = [proxy.settings.timeout("client-fin"), settings.timeout("server-fin")];
    TcpProxy {
        target: ProxyTarget::Pool(backend.name.text.clone()),
        connect_timeout: settings.timeout("connect").unwrap_or(UNSET),
        idle_timeout: client.max(server),
        client_timeout: Some(client),
        server_timeout: Some(server),
        tunnel_timeout: settings.timeout("tunnel"),
        half_closed_timeout: fins.into_iter().flatten().min(),
        buffer: 16 << 10,
        retry: retry(backend),
        send_proxy: None,
        tls: None,
        bind: local_address(backend),
        limit_rate: (None, None),
        socket_keepalive: settings.flag("srvtcpka") || settings.flag("tcpka"),
    }
}

/// HTTP words that HAProxy ignores in a TCP proxy, with a warning.
fn http_words(context: &mut Context<'_>, proxy: &Proxy) {
    let http = |list: RuleList| {
        matches!(
            list,
            RuleList::HttpRequest
                | RuleList::HttpResponse
                | RuleList::HttpAfterResponse
                | RuleList::Redirect
                | RuleList::Block
        )
    };
    for rule in proxy.settings.rules.iter().filter(|rule| http(rule.list)) {
        let keyword = &rule.line.keyword().text;
        context.findings.ignored(
            rule.line.span(),
            format!("`{keyword}` is ignored: `{}` is a TCP proxy", proxy.name.text),
        );
    }
    if let Some(span) = proxy.settings.stats.enabled.filter(|_| proxy.kind.is_frontend()) {
        context.findings.ignored(
            span,
            format!("the statistics page is not served: `{}` is a TCP proxy", proxy.name.text),
        );
    }
}

/// The backend that all connections go to; `Some(None)` where they are closed, `None` after an error.
fn target<'a>(context: &mut Context<'a>, proxy: &'a Proxy) -> Option<Option<&'a Proxy>> {
    let mut uses = proxy.settings.rules.iter().filter(|rule| rule.list == RuleList::UseBackend);
    let mut name: Option<Word> = proxy.settings.default_backend.clone();
    if let Some(rule) = uses.next() {
        let words = rule.line.from(rule.from);
        if words.len() > 1 || words.first().is_some_and(|word| word.text.contains('%')) {
            let why = "a TCP frontend sends all connections to one backend until conditions are built for it";
            context.findings.not_built(rule.line.span(), "use_backend on a condition in mode tcp", why);
            return None;
        }
        name = words.first().cloned();
    }
    let backend = match name {
        Some(word) => {
            let backend = context.backend(&word)?;
            if mode(backend) != Mode::Tcp {
                let title = format!(
                    "`{}` is an HTTP backend and `{}` a TCP frontend",
                    backend.name.text, proxy.name.text
                );
                let found = Diagnostic::error("haproxy::other-mode", title).at(word.span);
                context
                    .findings
                    .push(found.also(backend.name.span, "the backend").help("write `mode tcp` in both"));
                return None;
            }
            backend
        }
        None => proxy,
    };
    if context.pools.contains(&backend.name.text) {
        return Some(Some(backend));
    }
    let title =
        format!("TCP {} `{}` has no server to send connections to", proxy.kind.name(), proxy.name.text);
    let found = Diagnostic::warning("haproxy::no-server", title).at(proxy.name.span);
    context.findings.push(found.help("connections to it are closed"));
    Some(None)
}

/// `tcp-request` rules as rules about networks: the first that matches decides, as there.
fn access_rules<'a>(context: &mut Context<'a>, proxy: &'a Proxy, acls: &Acls) -> Vec<AccessRule> {
    let mut rules = Vec::new();
    for list in [RuleList::TcpConnection, RuleList::TcpContent] {
        let mut captures = 0;
        let scope = context.scope(proxy);
        // Rules that only accept change nothing, whatever they wait for: the list ends in acceptance.
        let refuses = proxy
            .settings
            .rules
            .iter()
            .any(|rule| rule.list == list && rule.line.text(rule.from) != "accept");
        if !refuses {
            continue;
        }
        let read = Reader {
            scope,
            acls,
            tarpit: 0,
            captures: &mut captures,
            after: false,
            findings: context.findings,
        }
        .list(list, false);
        for rule in read {
            let allow = match &rule.deed {
                Deed::Allow => true,
                Deed::Ops(ops) if ops.iter().all(|op| matches!(op, weir_model::Op::Close)) => false,
                _ => {
                    let span = proxy.name.span;
                    context.findings.not_built(
                        span,
                        "this `tcp-request` action in mode tcp",
                        "it decides what happens to connections",
                    );
                    continue;
                }
            };
            match networks(&rule) {
                Some(who) => rules.extend(who.into_iter().map(|who| AccessRule { allow, who })),
                None => {
                    let why = "in mode tcp only conditions on `src` are built";
                    context.findings.not_built(
                        proxy.name.span,
                        "this condition of a `tcp-request` rule",
                        why,
                    );
                }
            }
        }
    }
    rules
}

/// The clients a rule speaks of, if its condition is about addresses only.
fn networks(rule: &Read) -> Option<Vec<Who>> {
    match &rule.condition {
        None | Some(Condition::Always(true)) => Some(vec![Who::All]),
        Some(Condition::Always(false)) => Some(Vec::new()),
        Some(condition) => sources(condition),
    }
}

fn sources(condition: &Condition) -> Option<Vec<Who>> {
    match condition {
        Condition::Test { subject: Subject::Value(value), test: Test::In(nets) }
            if *value == Template::var(Var::ClientAddr) =>
        {
            Some(nets.iter().copied().map(Who::Net).collect())
        }
        Condition::Any(any) => {
            let all: Option<Vec<Vec<Who>>> = any.iter().map(sources).collect();
            all.map(|all| all.into_iter().flatten().collect())
        }
        _ => None,
    }
}
