//! HTTP frontends as sites, and pairs of frontend and backend as routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_expr::settings::{BodySettings, Cause, ClientSettings, KeepAliveMode};
use weir_model::settings::Conduct;
use weir_model::{
    AccessLog, Action, Condition, EditKind, ErrorLog, HeaderEdit, Op, Proxy as ProxyAction, ProxyTarget,
    Respond, RespondBody, Route, RouteId, RouteMatch, Site, SiteId, StatsPage, Subject, Template, Test,
    UpstreamUri, Var, Words,
};

use super::application;
use super::condition::{Acls, clause};
use super::context::{Context, mode};
use super::format::{Formatter, LogScope};
use super::identifier;
use super::logs::{access_logs, log_scope};
use super::rules::{
    Deed, Read, Reader, Service, capture_kind, capture_length, deny, program, standard, target_begins,
    target_is,
};
use super::settings::{
    UNSET, body_settings, client_settings, compression, error_pages, local_address, no_files,
    upstream_settings,
};
use super::stick_rules;
use super::tcp::is_session;
use crate::draft::{AddressHeader, Connection, Mode, Proxy, RuleList};
use crate::read::Word;
use crate::values::network::network;

/// What is made for one frontend and shared by its routes.
struct Front<'a> {
    proxy: &'a Proxy,
    acls: Acls,
    client: Arc<ClientSettings>,
    body: Arc<BodySettings>,
    log: LogScope,
    logs: Arc<Vec<AccessLog>>,
    captures: u16,
    /// Clients may send early data.
    early: bool,
    services: Vec<(Service, RouteId)>,
    /// Routes already made for backends by name.
    routes: BTreeMap<&'a str, RouteId>,
    /// What runs before a backend's application is asked, and where that tells its errors.
    applications: BTreeMap<&'a str, Prepared>,
}

/// What runs before an application is asked, and where it tells its errors.
type Prepared = (Vec<Op>, Option<Arc<Vec<ErrorLog>>>);

/// Builds the site of a frontend or listen in mode http.
pub(crate) fn site<'a>(context: &mut Context<'a>, proxy: &'a Proxy, tls: &[bool], early: bool) -> SiteId {
    let scope = context.scope(proxy);
    let log = log_scope(proxy, tls);
    let logs = Arc::new(access_logs(&scope, &log, context.findings));
    let acls = Acls::build(&scope, context.findings);
    let client = Arc::new(client_settings(proxy));
    let body = Arc::new(body_settings(proxy));
    let declared = proxy.captures.iter().filter(|line| capture_kind(line) == "request").count();
    let captures = u16::try_from(declared).unwrap_or(u16::MAX);
    let mut front = Front {
        proxy,
        acls,
        client: client.clone(),
        body,
        log,
        logs,
        captures,
        early,
        services: Vec::new(),
        routes: BTreeMap::new(),
        applications: BTreeMap::new(),
    };
    let fallback =
        context.model.add_route(front.route(proxy.name.text.clone(), proxy, Action::Respond(no_pool())));
    let site_program = front.site_program(context);
    let program = front.switching(context);
    let own = proxy.kind.is_backend().then(|| front.action(context, proxy)).flatten();
    front.finish_fallback(context, fallback, program, own);
    let site = Site {
        name: proxy.name.text.clone(),
        origin: Some(proxy.name.span),
        names: Vec::new(),
        client,
        program: site_program,
        routes: Vec::new(),
        fallback,
        keepalive_mode: match proxy.settings.connection {
            None | Some(Connection::Keep) => KeepAliveMode::Keep,
            Some(Connection::ServerClose) => KeepAliveMode::ServerClose,
            Some(Connection::Close) => KeepAliveMode::Close,
        },
        conduct: Conduct {
            body_first: proxy.settings.flag("http-buffer-request"),
            ..super::settings::CONDUCT
        },
        server_header: None,
        max_connections: proxy.settings.maxconn,
        session_rate: proxy.settings.session_rate,
        server_name_in_redirect: false,
        port_in_redirect: false,
        absolute_redirect: false,
        log_empty_connections: !proxy.settings.flag("dontlognull"),
        answer_silence: !proxy.settings.flag("http-ignore-probes"),
        zone: None,
    };
    context.model.add_site(site)
}

impl<'a> Front<'a> {
    fn reader<'f>(
        acls: &'f Acls,
        captures: &'f mut u16,
        context: &'f mut Context<'a>,
        proxy: &'a Proxy,
    ) -> Reader<'f, 'f>
    where
        'a: 'f,
    {
        let settings = &proxy.settings;
        let tarpit = settings.timeout("tarpit").or_else(|| settings.timeout("connect")).unwrap_or(UNSET);
        let tarpit = u64::try_from(tarpit.as_millis()).unwrap_or(u64::MAX);
        Reader { scope: context.scope(proxy), acls, tarpit, captures, findings: context.findings }
    }

    /// One list of a proxy's rules as instructions.
    fn list(
        &mut self,
        context: &mut Context<'a>,
        proxy: &'a Proxy,
        acls: Option<&Acls>,
        list: RuleList,
    ) -> Vec<Op> {
        let response =
            matches!(list, RuleList::HttpResponse | RuleList::HttpAfterResponse | RuleList::TcpAnswer);
        let acls = acls.unwrap_or(&self.acls);
        let read = Self::reader(acls, &mut self.captures, context, proxy).list(list, response);
        self.program(context, proxy, read)
    }

    fn program(&mut self, context: &mut Context<'a>, proxy: &'a Proxy, read: Vec<Read>) -> Vec<Op> {
        for rule in &read {
            if let Deed::Service(service) = rule.deed
                && !self.services.iter().any(|(known, _)| *known == service)
            {
                let (action, name) = service.action();
                let route = self.route(format!("{}: {name}", self.proxy.name.text), self.proxy, action);
                self.services.push((service, context.model.add_route(route)));
            }
        }
        let services = &self.services;
        let mut enter = |service: Service| {
            let known = services.iter().find(|(known, _)| *known == service);
            // Without a route no rule asks for one.
            known.map_or_else(|| deny(503), |&(_, route)| Op::Enter(route))
        };
        program(read, &mut enter, context.findings, proxy.name.span)
    }

    /// `tcp-request session` rules; those on connections run as they are accepted.
    fn session_rules(&mut self, context: &mut Context<'a>, proxy: &'a Proxy) -> Vec<Op> {
        let rules: Vec<_> = proxy.settings.rules.iter().filter(|rule| is_session(rule)).collect();
        let mut reader = Self::reader(&self.acls, &mut self.captures, context, proxy);
        let read = rules.iter().filter_map(|rule| reader.rule(rule)).collect();
        let mut ops = self.program(context, proxy, read);
        ops.extend(stick_rules::count_session(rules.into_iter()));
        stick_rules::once(ops)
    }

    /// What runs before `use_backend`.
    fn site_program(&mut self, context: &mut Context<'a>) -> Vec<Op> {
        let proxy = self.proxy;
        // Rules that answer end the program, so what runs on responses is noted first.
        let mut ops = self.after_response(context, proxy, None);
        ops.extend(identifier::given(&context.scope(proxy), &self.log, context.findings));
        ops.extend(capture_ops(proxy));
        ops.extend(self.cookie_capture(false));
        ops.extend(self.session_rules(context, proxy));
        ops.extend(self.list(context, proxy, None, RuleList::TcpContent));
        ops.extend(stick_rules::count_request(proxy));
        ops.extend(self.monitor(context));
        ops.extend(self.list(context, proxy, None, RuleList::Block));
        ops.extend(self.list(context, proxy, None, RuleList::HttpRequest));
        ops
    }

    /// `http-after-response` rules of a proxy.
    fn after_response(
        &mut self,
        context: &mut Context<'a>,
        proxy: &'a Proxy,
        acls: Option<&Acls>,
    ) -> Vec<Op> {
        let ops = self.list(context, proxy, acls, RuleList::HttpAfterResponse);
        if ops.is_empty() { ops } else { vec![Op::AfterResponse(ops)] }
    }

    /// `capture cookie NAME len N`: the cookie of the request or the response, in the place after all captures.
    fn cookie_capture(&self, response: bool) -> Vec<Op> {
        let Some(line) = self.proxy.captures.iter().find(|line| capture_kind(line) == "cookie") else {
            return Vec::new();
        };
        let (name, length) = (line.text(2).to_owned(), capture_length(line));
        let slot = if response { self.log.response_captures } else { self.log.request_captures };
        let mut value = Template::literal(format!("{name}="));
        let var = if response { Var::UpstreamCookie(name) } else { Var::Cookie(name) };
        value.push_var(var.clone());
        let present = Condition::Not(Box::new(Condition::Test {
            subject: Subject::Value(Template::var(var)),
            test: Test::Equals(Words { any_of: vec![Template::default()], ignore_case: false }),
        }));
        let then = vec![Op::CaptureValue { value, length, slot, response }];
        vec![Op::When { condition: present, then, otherwise: Vec::new() }]
    }

    /// `monitor-uri`: 503 where `monitor fail` says so, else 200.
    fn monitor(&mut self, context: &mut Context<'a>) -> Vec<Op> {
        let proxy = self.proxy;
        let Some(uri) = &proxy.settings.monitor_uri else { return Vec::new() };
        let fails =
            Self::reader(&self.acls, &mut self.captures, context, proxy).list(RuleList::MonitorFail, false);
        let mut then: Vec<Op> = fails
            .into_iter()
            .filter_map(|rule| rule.condition)
            .map(|condition| Op::When { condition, then: vec![deny(503)], otherwise: Vec::new() })
            .collect();
        let page = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";
        then.push(Op::Respond(Respond {
            body: RespondBody::Text(Template::literal(page)),
            content_type: Some(Template::literal("text/html")),
            headers: vec![("Cache-Control".into(), Template::literal("no-cache"))],
            error_pages: false,
            ..standard(200)
        }));
        vec![Op::When { condition: target_is(uri), then, otherwise: Vec::new() }]
    }

    /// Statistics, redirects and `use_backend` of the frontend.
    fn switching(&mut self, context: &mut Context<'a>) -> Vec<Op> {
        let proxy = self.proxy;
        let mut ops = self.stats(context, proxy, None);
        ops.extend(self.list(context, proxy, None, RuleList::Redirect));
        let rules: Vec<_> =
            proxy.settings.rules.iter().filter(|rule| rule.list == RuleList::UseBackend).collect();
        for rule in rules {
            let words = rule.line.from(rule.from);
            let Some((name, tail)) = words.split_first() else { continue };
            let Some(condition) =
                Self::reader(&self.acls, &mut self.captures, context, proxy).condition(tail)
            else {
                continue;
            };
            let then = if name.text.contains('%') {
                self.computed(context, name)
            } else {
                self.enter(context, name)
            };
            match condition {
                None => ops.extend(then),
                Some(condition) => ops.push(Op::When { condition, then, otherwise: Vec::new() }),
            }
        }
        if let Some(name) = &proxy.settings.default_backend {
            ops.extend(self.enter(context, name));
        }
        ops
    }

    fn enter(&mut self, context: &mut Context<'a>, name: &Word) -> Vec<Op> {
        let Some(backend) = context.backend(name) else { return Vec::new() };
        self.pair(context, backend, name).map(Op::Enter).into_iter().collect()
    }

    /// `use_backend %[…]`: each backend's name is compared; where none is, the next rule follows.
    fn computed(&mut self, context: &mut Context<'a>, name: &Word) -> Vec<Op> {
        let scope = context.scope(self.proxy);
        let mut formatter =
            Formatter { scope, log: None, groups: false, span: name.span, findings: context.findings };
        let Some(value) = formatter.template(name.as_str()) else { return Vec::new() };
        let backends =
            context.draft.proxies.iter().filter(|proxy| proxy.kind.is_backend() && mode(proxy) == Mode::Http);
        let mut ops = Vec::new();
        for backend in backends {
            let Some(route) = self.pair(context, backend, name) else { continue };
            let any_of = vec![Template::literal(backend.name.text.clone())];
            let test = Test::Equals(Words { any_of, ignore_case: false });
            let condition = Condition::Test { subject: Subject::Value(value.clone()), test };
            ops.push(Op::When { condition, then: vec![Op::Enter(route)], otherwise: Vec::new() });
        }
        ops
    }

    /// The route of this frontend and a backend.
    fn pair(&mut self, context: &mut Context<'a>, backend: &'a Proxy, word: &Word) -> Option<RouteId> {
        if let Some(id) = self.routes.get(backend.name.as_str()) {
            return Some(*id);
        }
        if mode(backend) != Mode::Http {
            let title = format!(
                "`{}` is a TCP backend and `{}` an HTTP frontend",
                backend.name.text, self.proxy.name.text
            );
            let found = weir_diag::Diagnostic::error("haproxy::other-mode", title).at(word.span);
            context
                .findings
                .push(found.also(backend.name.span, "the backend").help("write `mode http` in both"));
            return None;
        }
        let action = self.action(context, backend);
        let route = self.route(
            backend.name.text.clone(),
            backend,
            action.unwrap_or_else(|| Action::Respond(no_pool())),
        );
        let id = context.model.add_route(route);
        self.routes.insert(backend.name.as_str(), id);
        let scope = context.scope(backend);
        let acls = Acls::build(&scope, context.findings);
        let mut ops = self.after_response(context, backend, Some(&acls));
        ops.extend(self.list(context, backend, Some(&acls), RuleList::Block));
        ops.extend(self.list(context, backend, Some(&acls), RuleList::TcpContent));
        ops.extend(self.list(context, backend, Some(&acls), RuleList::HttpRequest));
        ops.extend(self.stats(context, backend, Some(&acls)));
        ops.extend(self.list(context, backend, Some(&acls), RuleList::Redirect));
        ops.extend(self.added_fields(context, backend));
        let mut answers = self.cookie_capture(true);
        answers.extend(self.list(context, backend, Some(&acls), RuleList::TcpAnswer));
        answers.extend(self.list(context, backend, Some(&acls), RuleList::HttpResponse));
        answers.extend(self.list(context, self.proxy, None, RuleList::HttpResponse));
        if let Some(route) = context.model.routes.get_mut(id.0 as usize) {
            route.program = ops;
            route.response_program = answers;
            route.error_logs = self.error_logs(backend);
        }
        Some(id)
    }

    /// The frontend's own route once all is known; a listen's proxies to its own servers.
    fn finish_fallback(
        &mut self,
        context: &mut Context<'a>,
        id: RouteId,
        mut program: Vec<Op>,
        own: Option<Action>,
    ) {
        if own.is_some() {
            program.extend(self.added_fields(context, self.proxy));
        }
        let mut answers = self.cookie_capture(true);
        answers.extend(self.list(context, self.proxy, None, RuleList::TcpAnswer));
        answers.extend(self.list(context, self.proxy, None, RuleList::HttpResponse));
        if let Some(route) = context.model.routes.get_mut(id.0 as usize) {
            route.program = program;
            route.response_program = answers;
            if let Some(action) = own {
                route.action = action;
                route.error_logs = self.error_logs(self.proxy);
            }
        }
    }

    /// Statistics of a proxy: a route of their own, entered by path.
    fn stats(&mut self, context: &mut Context<'a>, proxy: &'a Proxy, acls: Option<&Acls>) -> Vec<Op> {
        let stats = &proxy.settings.stats;
        let Some(span) = stats.enabled else { return Vec::new() };
        let global = &context.draft.global;
        let uri = stats.uri.clone().unwrap_or_else(|| "/haproxy?stats".into());
        let node = stats
            .node
            .clone()
            .map(|node| if node.is_empty() { global.node.clone().unwrap_or_default() } else { node });
        let words = |text: &String| {
            if text.is_empty() { global.description.clone().unwrap_or_default() } else { text.clone() }
        };
        let admin = match stats.admin.as_slice() {
            [] => None,
            words => {
                let scope = context.scope(proxy);
                clause(words, acls.unwrap_or(&self.acls), &scope, context.findings)
            }
        };
        let page = StatsPage {
            admin,
            uri: uri.clone(),
            hide_version: stats.hide_version,
            realm: stats.realm.clone().unwrap_or_else(|| "HAProxy Statistics".into()),
            users: stats.users.clone(),
            refresh: stats.refresh,
            show_legends: stats.show_legends,
            description: stats.description.as_ref().map(words),
            node,
            scope: stats.scope.clone(),
            origin: Some(span),
        };
        let mut route =
            self.route(format!("{}: stats", proxy.name.text), proxy, Action::Stats(Arc::new(page)));
        let log = LogScope {
            backend: Some(proxy.name.text.clone()),
            server: Some("<STATS>".into()),
            ..self.log.clone()
        };
        let scope = context.scope(self.proxy);
        // The format was found good when the frontend's own logs were made; only names differ here.
        let mut quiet = crate::findings::Findings::default();
        route.access_logs = Arc::new(access_logs(&scope, &log, &mut quiet));
        route.program = self.list(context, proxy, acls, RuleList::StatsRequest);
        let id = context.model.add_route(route);
        vec![Op::When { condition: target_begins(&uri), then: vec![Op::Enter(id)], otherwise: Vec::new() }]
    }

    /// Fields that options add to requests, of the frontend or the backend.
    fn added_fields(&self, context: &mut Context<'a>, backend: &'a Proxy) -> Vec<Op> {
        let (front, back) = (&self.proxy.settings, &backend.settings);
        let mut ops = Vec::new();
        let add = |name: &str, value: Template| HeaderEdit {
            kind: EditKind::Add,
            name: name.to_owned(),
            value,
            skip_empty: true,
            statuses: Vec::new(),
            condition: None,
        };
        if self.early {
            let is_empty = |var: Var| Condition::Test {
                subject: Subject::Value(Template::var(var)),
                test: Test::Equals(Words { any_of: vec![Template::default()], ignore_case: false }),
            };
            let condition = Condition::Not(Box::new(is_empty(Var::TlsEarlyData)));
            // Who came before says it already.
            let edit = HeaderEdit {
                condition: Some(is_empty(Var::Header("early-data".into()))),
                ..add("Early-Data", Template::literal("1"))
            };
            ops.push(Op::When { condition, then: vec![Op::EditRequest(edit)], otherwise: Vec::new() });
        }
        if let Some(word) = &front.unique_id_header {
            let kind = EditKind::Set;
            ops.push(Op::EditRequest(HeaderEdit {
                kind,
                ..add(word.as_str(), Template::var(context.scope(self.proxy).identifier()))
            }));
        }
        for (header, var) in [
            (back.forwardfor.as_ref().or(front.forwardfor.as_ref()), Var::ClientAddr),
            (back.originalto.as_ref().or(front.originalto.as_ref()), Var::ServerAddr),
        ] {
            let Some(header) = header else { continue };
            let edit = Op::EditRequest(add(&header.name, Template::var(var.clone())));
            match address_condition(header, var, context) {
                None => ops.push(edit),
                Some(condition) => ops.push(Op::When { condition, then: vec![edit], otherwise: Vec::new() }),
            }
        }
        if back.forwarded {
            let mut value = Template::literal("proto=");
            value.push_var(Var::Scheme);
            value.push_literal(";for=");
            value.push_var(Var::ClientAddr);
            ops.push(Op::EditRequest(add("Forwarded", value)));
        }
        ops.extend(self.applications.get(backend.name.as_str()).into_iter().flat_map(|(ops, _)| ops.clone()));
        ops
    }

    fn error_logs(&self, backend: &Proxy) -> Option<Arc<Vec<ErrorLog>>> {
        self.applications.get(backend.name.as_str()).and_then(|(_, logs)| logs.clone())
    }

    /// The proxy action of a backend; `None` if it has no servers.
    fn action(&mut self, context: &mut Context<'a>, backend: &'a Proxy) -> Option<Action> {
        if !context.pools.contains(&backend.name.text) {
            return None;
        }
        if let Some(built) = application::built(context, self.proxy, backend) {
            self.applications.insert(backend.name.as_str(), (built.program, built.error_logs));
            return Some(Action::FastCgi(Arc::new(built.action)));
        }
        Some(Action::Proxy(Arc::new(ProxyAction {
            target: ProxyTarget::Pool(backend.name.text.clone()),
            tls: None,
            host: String::new(),
            uri: UpstreamUri::Pass,
            method: None,
            http_1_1: true,
            http2: speaks_http2(backend),
            grpc: false,
            announce_close: closes(self.proxy)
                || (closes(backend) && !backend.settings.flag("http-pretend-keepalive")),
            request_headers: Arc::new(
                backend
                    .settings
                    .name_header
                    .iter()
                    .map(|name| (name.clone(), Template::var(Var::EndpointName)))
                    .collect(),
            ),
            pass_request_headers: true,
            pass_request_body: true,
            body: None,
            settings: Arc::new(upstream_settings(self.proxy, backend)),
            hide_headers: Arc::default(),
            redirects: Arc::default(),
            cookie_rewrites: Arc::default(),
            ignore_headers: Arc::default(),
            accel: false,
            bind: local_address(backend),
            transparent: false,
            cache: None,
            store: None,
        })))
    }

    /// A route with this frontend's client side and a proxy's own side.
    fn route(&self, name: String, proxy: &Proxy, action: Action) -> Route {
        Route {
            origin: Some(proxy.name.span),
            error_pages: Arc::new(error_pages(self.proxy, proxy)),
            compression: compression(self.proxy, proxy).into_iter().collect(),
            access_logs: self.logs.clone(),
            log_not_found: false,
            body: self.body.clone(),
            client: self.client.clone(),
            ..Route::new(name, RouteMatch::Referred, Arc::new(no_files()), action)
        }
    }
}

/// `capture request header` and `capture response header`.
fn capture_ops(proxy: &Proxy) -> Vec<Op> {
    let mut slots = (0u16, 0u16);
    let mut ops = Vec::new();
    for line in proxy.captures.iter().filter(|line| capture_kind(line) != "cookie") {
        let (name, length) = (line.text(3).to_ascii_lowercase(), capture_length(line));
        let response = capture_kind(line) == "response";
        if line.text(0) == "declare" {
            // A place that rules fill.
            let slot = if response { &mut slots.1 } else { &mut slots.0 };
            *slot += 1;
        } else if !response {
            ops.push(Op::CaptureRequestHeader { name, length, slot: slots.0 });
            slots.0 += 1;
        } else {
            ops.push(Op::CaptureResponseHeader { name, length, slot: slots.1 });
            slots.1 += 1;
        }
    }
    ops
}

/// Whether requests go to all servers of a backend by HTTP/2.
pub(super) fn speaks_http2(backend: &Proxy) -> bool {
    !backend.servers.is_empty() && backend.servers.iter().all(crate::draft::ServerLine::speaks_http2)
}

/// Nobody is there to answer.
fn no_pool() -> Respond {
    Respond { cause: Cause::NoPool, ..standard(503) }
}

/// Connections to servers end after an answer.
fn closes(proxy: &Proxy) -> bool {
    !matches!(proxy.settings.connection, None | Some(Connection::Keep))
}

/// `except NET` and `if-none`.
fn address_condition(header: &AddressHeader, var: Var, context: &mut Context<'_>) -> Option<Condition> {
    let mut all = Vec::new();
    if let Some(word) = &header.except
        && let Some(net) = context.findings.value(word, network)
    {
        let inside =
            Condition::Test { subject: Subject::Value(Template::var(var)), test: Test::In(vec![net]) };
        all.push(Condition::Not(Box::new(inside)));
    }
    if header.if_none {
        let subject = Subject::RequestHeader { name: header.name.to_ascii_lowercase(), split: false };
        all.push(Condition::Not(Box::new(Condition::Test { subject, test: Test::Present })));
    }
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(Condition::All(all)),
    }
}
