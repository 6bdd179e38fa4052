//! Frontends and listens in mode tcp as TCP services.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_expr::Peeked;
use weir_model::settings::{Datagrams, Inspect};
use weir_model::{
    Access, Condition, Op, ProxyTarget, Subject, TcpAction, TcpAnswers, TcpCase, TcpId, TcpProxy, TcpService,
    Template, Test, Words,
};

use super::condition::Acls;
use super::context::{Context, mode};
use super::format::Formatter;
use super::identifier;
use super::logs::{access_logs, log_scope};
use super::rules::{Deed, Read, Reader, program};
use super::scope::Scope;
use super::settings::{UNSET, local_address, retry};
use super::stick_rules;
use crate::draft::{Mode, Proxy, Rule, RuleList};
use crate::findings::Findings;
use crate::read::Word;

/// Builds the service; `None` if it has nowhere to send connections (reported).
pub(crate) fn service<'a>(context: &mut Context<'a>, proxy: &'a Proxy, tls: &[bool]) -> Option<TcpId> {
    let scope = context.scope(proxy);
    let log = log_scope(proxy, tls);
    let logs = access_logs(&scope, &log, context.findings);
    let acls = Acls::build(&scope, context.findings);
    http_words(context, proxy);
    let mut program: Vec<Op> = identifier::given(&scope, &log, context.findings).into_iter().collect();
    program.extend(session_rules(context, proxy, &acls));
    program.extend(stick_rules::count_session(proxy.settings.rules.iter().filter(|rule| is_session(rule))));
    program.extend(content_rules(context, proxy, &acls));
    let action = action(context, proxy, &acls)?;
    let inspect = inspects(context, proxy, &program, &action);
    let service = TcpService {
        name: proxy.name.text.clone(),
        origin: Some(proxy.name.span),
        action,
        inspect,
        program,
        access: Arc::new(Access::default()),
        limit_conn: Arc::default(),
        real_ip: None,
        resolver: None,
        access_logs: Arc::new(logs),
        error_logs: None,
        error_lines: super::settings::CONDUCT.error_lines,
        handshake_timeout: proxy.settings.timeout("client").unwrap_or(UNSET).min(UNSET),
        tcp_nodelay: true,
        max_connections: proxy.settings.maxconn,
        session_rate: proxy.settings.session_rate,
        socket_keepalive: proxy.settings.flag("clitcpka") || proxy.settings.flag("tcpka"),
        log_empty_connections: !proxy.settings.flag("dontlognull"),
        zone: None,
    };
    context.model.tcp.push(service);
    u32::try_from(context.model.tcp.len() - 1).ok().map(TcpId)
}

/// How long first bytes are waited for, where a rule looks at them.
fn inspects(context: &mut Context<'_>, proxy: &Proxy, program: &[Op], action: &TcpAction) -> Option<Inspect> {
    let written = format!("{program:?}{action:?}");
    let peeks = |text: &str| text.matches("Peeked(").count() > text.matches("Peeked(Answer").count();
    let through_maps = || context.around.maps.sources().iter().any(|source| peeks(&format!("{source:?}")));
    let own = peeks(&written) || written.contains("User(") && through_maps();
    let by_cookie = |one: &Proxy| {
        one.settings.balance.as_ref().is_some_and(|line| line.text(1).starts_with("rdp-cookie"))
    };
    if !own && !context.draft.proxies.iter().any(by_cookie) {
        return None;
    }
    if own && proxy.settings.inspect.is_none() {
        context.findings.ignored(
            proxy.name.span,
            format!(
                "rules of `{}` look at what clients send, and nothing has arrived yet when they run; write \
                 `tcp-request inspect-delay 5s`",
                proxy.name.text
            ),
        );
    }
    let time = proxy.settings.inspect?;
    // Twice the longest hello: each of its bytes may lie in a record of its own, and rules do with what there is.
    let most = 32 << 10;
    Some(Inspect {
        time,
        most,
        least: context.around.maps.bytes_needed(&Peeked::Bytes).min(most),
        strict: false,
    })
}

/// How bytes are carried from a frontend to a backend.
fn carry<'a>(context: &mut Context<'a>, proxy: &Proxy, backend: &'a Proxy) -> TcpProxy {
    let answers = answers(context, backend);
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
        // `tune.bufsize` is no bound here: a buffer is there only while bytes pass, and a small one costs a call more
        // for every piece that would have fitted a large one.
        buffer: 64 << 10,
        retry: retry(backend),
        send_proxy: None,
        tls: None,
        bind: local_address(backend),
        transparent: false,
        limit_rate: (None, None),
        socket_keepalive: settings.flag("srvtcpka") || settings.flag("tcpka"),
        half_close: true,
        datagrams: Datagrams::default(),
        answers,
    }
}

/// `tcp-response content` rules: what they look at, and for how long it is waited for.
fn answers<'a>(context: &mut Context<'a>, backend: &'a Proxy) -> Option<Box<TcpAnswers>> {
    let scope = context.scope(backend);
    let acls = Acls::build(&scope, &mut Findings::default());
    let program = closing(context, backend, &acls, |rule| rule.list == RuleList::TcpAnswer);
    let wait = backend.settings.inspect_answer.unwrap_or_default();
    let most = 16 << 10;
    let least = context.around.maps.bytes_needed(&Peeked::AnswerBytes).clamp(1, most);
    (!program.is_empty()).then(|| Box::new(TcpAnswers { wait, least, most, program }))
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

/// What is done with connections: the one backend, or the first whose condition holds. `None` after an error.
fn action<'a>(context: &mut Context<'a>, proxy: &'a Proxy, acls: &Acls) -> Option<TcpAction> {
    let mut cases = Vec::new();
    let mut failed = false;
    let uses: Vec<_> = proxy.settings.rules.iter().filter(|rule| rule.list == RuleList::UseBackend).collect();
    for rule in uses {
        let Some((name, tail)) = rule.line.from(rule.from).split_first() else { continue };
        let scope = context.scope(proxy);
        let Some(condition) = reader(context, scope, acls, &mut 0).condition(tail) else {
            failed = true;
            continue;
        };
        match name.text.contains('%') {
            true => failed |= computed(context, proxy, name, condition.as_ref(), &mut cases).is_none(),
            false => match case(context, proxy, name, condition) {
                Some(case) => cases.push(case),
                None => failed = true,
            },
        }
    }
    if let Some(name) = &proxy.settings.default_backend {
        match case(context, proxy, name, None) {
            Some(case) => cases.push(case),
            None => failed = true,
        }
    } else if proxy.kind.is_backend() || cases.is_empty() {
        let action = to_pool(context, proxy, proxy, cases.is_empty());
        cases.push(TcpCase { condition: None, program: Vec::new(), action });
    }
    if failed {
        return None;
    }
    // What stands after a case that always holds is never reached.
    if let Some(always) = cases.iter().position(|case| case.condition.is_none()) {
        cases.truncate(always + 1);
    }
    match cases.as_slice() {
        [only] if only.condition.is_none() && only.program.is_empty() => cases.pop().map(|case| case.action),
        _ => Some(TcpAction::Choose(cases)),
    }
}

/// One `use_backend`.
fn case<'a>(
    context: &mut Context<'a>,
    proxy: &'a Proxy,
    name: &Word,
    condition: Option<Condition>,
) -> Option<TcpCase> {
    let backend = context.backend(name)?;
    if mode(backend) != Mode::Tcp {
        let title =
            format!("`{}` is an HTTP backend and `{}` a TCP frontend", backend.name.text, proxy.name.text);
        let found = Diagnostic::error("haproxy::other-mode", title).at(name.span);
        context.findings.push(found.also(backend.name.span, "the backend").help("write `mode tcp` in both"));
        return None;
    }
    let scope = context.scope(backend);
    let acls = Acls::build(&scope, context.findings);
    let program = match std::ptr::eq(backend, proxy) {
        true => Vec::new(),
        false => content_rules(context, backend, &acls),
    };
    let action = to_pool(context, proxy, backend, condition.is_none());
    Some(TcpCase { condition, program, action })
}

/// `use_backend %[…]`: each backend's name is compared.
fn computed<'a>(
    context: &mut Context<'a>,
    proxy: &'a Proxy,
    name: &Word,
    condition: Option<&Condition>,
    cases: &mut Vec<TcpCase>,
) -> Option<()> {
    let scope = context.scope(proxy);
    let mut formatter =
        Formatter { scope, log: None, groups: false, span: name.span, findings: context.findings };
    let value = formatter.template(name.as_str())?;
    let draft = context.draft;
    for backend in draft.proxies.iter().filter(|one| one.kind.is_backend() && mode(one) == Mode::Tcp) {
        let any_of = vec![Template::literal(backend.name.text.clone())];
        let test = Test::Equals(Words { any_of, ignore_case: false });
        let named = Condition::Test { subject: Subject::Value(value.clone()), test };
        let all = condition.cloned().into_iter().chain([named]).collect();
        let word = Word { text: backend.name.text.clone(), span: name.span };
        cases.push(case(context, proxy, &word, Some(Condition::All(all)))?);
    }
    Some(())
}

/// Carrying to a backend's servers. `only`: connections have nowhere else to go.
fn to_pool<'a>(context: &mut Context<'a>, proxy: &Proxy, backend: &'a Proxy, only: bool) -> TcpAction {
    if context.pools.contains(&backend.name.text) {
        return TcpAction::Proxy(carry(context, proxy, backend));
    }
    if only {
        let title =
            format!("TCP {} `{}` has no server to send connections to", proxy.kind.name(), proxy.name.text);
        let found = Diagnostic::warning("haproxy::no-server", title).at(proxy.name.span);
        context.findings.push(found.help("connections to it are closed"));
    }
    TcpAction::Nobody
}

fn reader<'r>(
    context: &'r mut Context<'_>,
    scope: Scope<'r>,
    acls: &'r Acls,
    captures: &'r mut u16,
) -> Reader<'r, 'r> {
    Reader { scope, acls, tarpit: 0, captures, findings: context.findings }
}

/// `tcp-request content` rules: they may only accept or close.
fn content_rules<'a>(context: &mut Context<'a>, proxy: &'a Proxy, acls: &Acls) -> Vec<Op> {
    closing(context, proxy, acls, |rule| rule.list == RuleList::TcpContent)
}

/// `tcp-request session` rules, which know the client that a PROXY header names.
fn session_rules<'a>(context: &mut Context<'a>, proxy: &'a Proxy, acls: &Acls) -> Vec<Op> {
    closing(context, proxy, acls, is_session)
}

/// `tcp-request connection` rules of a proxy of either mode: what a listener does before anything is read.
pub(crate) fn gate<'a>(context: &mut Context<'a>, proxy: &'a Proxy) -> Vec<Op> {
    let quiet = &mut Findings::default();
    // Mistakes in ACLs are reported where the proxy's other rules are read.
    let scope = context.scope(proxy);
    let acls = Acls::build(&scope, quiet);
    let before = |rule: &Rule| rule.list == RuleList::TcpConnection && !is_session(rule);
    let mut ops = closing(context, proxy, &acls, before);
    ops.extend(stick_rules::count_session(proxy.settings.rules.iter().filter(|rule| before(rule))));
    ops
}

/// `tcp-request session …`.
pub(crate) fn is_session(rule: &Rule) -> bool {
    rule.list == RuleList::TcpConnection && rule.line.text(1) == "session"
}

/// Rules as a program that only closes.
fn closing<'a>(
    context: &mut Context<'a>,
    proxy: &'a Proxy,
    acls: &Acls,
    wanted: impl Fn(&Rule) -> bool,
) -> Vec<Op> {
    // Rules that only accept change nothing, whatever they wait for: the list ends in acceptance.
    let rules = proxy.settings.rules.iter().filter(|rule| wanted(rule));
    if rules.clone().all(|rule| rule.line.text(rule.from) == "accept") {
        return Vec::new();
    }
    let scope = context.scope(proxy);
    let read: Vec<Read> = {
        let mut captures = 0;
        let mut reader = reader(context, scope, acls, &mut captures);
        let read = |rule: &Rule| {
            reader.scope.response = rule.list == RuleList::TcpAnswer;
            reader.rule(rule)
        };
        rules.filter_map(read).collect()
    };
    let (good, bad): (Vec<Read>, Vec<Read>) = read.into_iter().partition(|rule| match &rule.deed {
        Deed::Allow => true,
        Deed::Ops(ops) => ops.iter().all(is_of_connections),
        Deed::Service(_) => false,
    });
    if !bad.is_empty() {
        context.findings.not_built(
            proxy.name.span,
            "this `tcp-request` or `tcp-response` action in mode tcp",
            "it decides what happens to connections",
        );
    }
    program(good, &mut |_| Op::Close(None), context.findings, proxy.name.span)
}

/// Whether a session can carry an instruction.
fn is_of_connections(op: &Op) -> bool {
    match op {
        Op::Close(_) | Op::Set { .. } | Op::SetFound { .. } | Op::Unset(_) | Op::Keep { .. } => true,
        Op::SetAddress { .. } | Op::Stick(_) | Op::ExpectProxy | Op::SkipLog => true,
        Op::Resolve { .. } | Op::SetRetries(_) | Op::SetQueueClass(_) | Op::SetQueueOffset(_) => true,
        Op::When { then, otherwise, .. } => then.iter().chain(otherwise).all(is_of_connections),
        _ => false,
    }
}
