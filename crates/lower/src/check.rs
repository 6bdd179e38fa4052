//! Pass "check": findings that need no compiled form.
//!
//! Owns: one function a subject. Each reports at the node's origin and goes on.

use ahash::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::settings::{BodySettings, ClientSettings, UpstreamSettings};
use weir_model::{
    Action, Listener, Model, Op, Pool, RealIpSource, Respond, Route, RouteId, RouteMatch, Service, Site,
    TcpAction, Workers,
};

use crate::context::Cx;

/// Below this a zone holds so few keys that strangers push one another out.
const SMALL_ZONE: u64 = 32 << 10;
/// Memory a single request may take for its body before it looks like a slip of the unit.
const HUGE_BODY_MEMORY: u64 = 256 << 20;

pub(crate) fn all(cx: &mut Cx<'_>) {
    process(cx);
    listeners(cx);
    pools(cx);
    zones(cx);
    sites(cx);
    routes(cx);
    tcp(cx);
}

fn process(cx: &mut Cx<'_>) {
    let process = &cx.model.process;
    let untold = process.spans.as_ref().is_none_or(|spans| spans.endpoint.is_empty());
    let sampled = |route: &&Route| route.tracing.as_ref().is_some_and(|tracing| tracing.when.is_some());
    if let Some(route) = cx.model.routes.iter().find(sampled).filter(|_| untold) {
        let title =
            format!("requests of `{}` are traced, and nobody is named whom spans are told to", route.name);
        let finding = Diagnostic::error("tracing::no-exporter", title)
            .help("in an nginx.conf `otel_exporter { endpoint host:4317; }`, in weir.yaml `process.spans`");
        cx.at(route.origin, |cx| cx.report(finding));
    }
    let (Some(files), Some(connections)) = (process.open_files, process.connections_per_worker) else {
        return;
    };
    let workers = if let Workers::Count(count) = process.workers { u64::from(count.max(1)) } else { 1 };
    if connections.saturating_mul(workers) > files {
        let title = format!(
            "{connections} connections for each of {workers} workers are more than the {files} files that may be open"
        );
        let finding = Diagnostic::warning("process::too-few-files", title);
        let origin = process.open_files_origin;
        cx.at(origin, |cx| cx.report(finding.help("connections beyond the limit wait until others end")));
    }
}

fn listeners(cx: &mut Cx<'_>) {
    let model = cx.model;
    let mut first: HashMap<_, &Listener> = HashMap::default();
    for listener in &model.listeners {
        if let Some(before) = first.get(&(&listener.address, listener.share)) {
            let mut finding =
                Diagnostic::error("listener::duplicate", format!("`{}` is listened on twice", listener.name));
            if let Some(span) = before.origin {
                finding = finding.also(span, "first here");
            }
            cx.at(listener.origin, |cx| cx.report(finding));
            continue;
        }
        first.insert((&listener.address, listener.share), listener);
        proxy_header(cx, listener);
    }
}

/// Sites that take addresses from a PROXY header that the listener does not read.
fn proxy_header(cx: &mut Cx<'_>, listener: &Listener) {
    let Service::Http { sites, .. } = &listener.service else { return };
    if listener.proxy_protocol {
        return;
    }
    let model = cx.model;
    let wants = |route: &Route| {
        route.real_ip.as_ref().is_some_and(|rules| rules.source == RealIpSource::ProxyProtocol)
    };
    for site in sites.iter().filter_map(|id| model.sites.get(id.0 as usize)) {
        let fallback = model.routes.get(site.fallback.0 as usize);
        if fallback.is_some_and(wants) {
            let title =
                format!("client addresses come from the PROXY header, but `{}` reads none", listener.name);
            let finding = Diagnostic::warning("listener::no-proxy-header", title);
            let finding =
                finding.help("let the listener expect the header, or take the address from a field");
            cx.at(site.origin, |cx| cx.report_once(&format!("{} {}", site.name, listener.name), finding));
        }
    }
}

fn pools(cx: &mut Cx<'_>) {
    for pool in &cx.model.pools {
        cx.at(pool.origin, |cx| check_pool(cx, pool));
    }
}

fn check_pool(cx: &mut Cx<'_>, pool: &Pool) {
    let name = &pool.name;
    if pool.endpoints.is_empty() {
        let title = format!("pool `{name}` has no endpoint");
        let finding = if pool.may_be_empty {
            let help = format!("its requests are answered {}", pool.unavailable.none_live);
            Diagnostic::warning("pool::empty", title).help(help)
        } else {
            Diagnostic::error("pool::empty", title).help("name at least one server")
        };
        return cx.report(finding);
    }
    if pool.endpoints.iter().all(|endpoint| endpoint.down) {
        let finding =
            Diagnostic::warning("pool::all-down", format!("all endpoints of pool `{name}` are down"));
        cx.report(finding.help("its requests fail until one is enabled"));
    } else if pool.endpoints.iter().all(|endpoint| endpoint.weight == 0) {
        let finding =
            Diagnostic::warning("pool::no-weight", format!("all endpoints of pool `{name}` have weight 0"));
        cx.report(finding.help("none takes new requests until a weight is raised"));
    }
    let limited =
        pool.endpoints.iter().find(|endpoint| endpoint.max_connections.is_some_and(|most| most > 0));
    if let (false, Some(endpoint)) = (pool.shared, limited) {
        let title = format!("the limit of connections to `{}` holds for each worker", endpoint.name);
        let finding = Diagnostic::note("pool::limit-per-worker", title);
        let finding = finding.help("with a shared zone for the pool it holds for the whole process");
        cx.at(endpoint.origin, |cx| cx.report(finding));
    }
    if let Some(queue) = pool.queue
        && queue.timeout.is_zero()
    {
        let title = format!("requests that wait for pool `{name}` would time out at once");
        cx.report(Diagnostic::warning("time::zero", title));
    }
}

fn zones(cx: &mut Cx<'_>) {
    let model = cx.model;
    for zone in &model.limit_req_zones {
        zone_size(cx, &zone.name, zone.size);
        if zone.rate_milli == 0 {
            let title = format!("zone `{}` allows no request at all: its rate is 0", zone.name);
            cx.report(Diagnostic::error("zone::no-rate", title));
        }
    }
    for zone in &model.limit_conn_zones {
        zone_size(cx, &zone.name, zone.size);
    }
}

fn zone_size(cx: &mut Cx<'_>, name: &str, size: u64) {
    if size < SMALL_ZONE {
        let title = format!("zone `{name}` has {size} bytes, room for about {} keys", size / 128);
        cx.report(Diagnostic::warning("zone::small", title).help("1m holds about 8,000 keys"));
    }
}

fn sites(cx: &mut Cx<'_>) {
    let model = cx.model;
    let mut seen = HashSet::default();
    for site in &model.sites {
        cx.at(site.origin, |cx| {
            once(&mut seen, &site.client, |settings| client(cx, settings));
            duplicates(cx, model, site);
        });
    }
}

/// Routes of one level that match the same text.
fn duplicates(cx: &mut Cx<'_>, model: &Model, site: &Site) {
    level(cx, model, &site.routes);
}

fn level(cx: &mut Cx<'_>, model: &Model, routes: &[RouteId]) {
    let mut first: HashMap<&RouteMatch, &Route> = HashMap::default();
    let mut texts: HashMap<(bool, &str), &Route> = HashMap::default();
    for route in routes.iter().filter_map(|id| model.routes.get(id.0 as usize)) {
        // Prefixes with and without `^~` are one text; patterns may be written twice, the first wins.
        let before = match &route.matching {
            RouteMatch::Exact(path) => texts.insert((true, path), route),
            RouteMatch::Prefix { path, .. } => texts.insert((false, path), route),
            RouteMatch::Named(_) => first.insert(&route.matching, route),
            RouteMatch::Regex(_) | RouteMatch::Referred => None,
        };
        let Some(before) = before else { continue };
        let title = format!("route `{}` is defined twice", route.name);
        let mut finding = Diagnostic::error("route::duplicate", title);
        if let Some(span) = before.origin {
            finding = finding.also(span, "first defined here");
        }
        cx.at(route.origin, |cx| cx.report(finding));
    }
}

fn routes(cx: &mut Cx<'_>) {
    let model = cx.model;
    let mut seen = HashSet::default();
    for route in &model.routes {
        cx.at(route.origin, |cx| {
            if !route.children.is_empty() {
                level(cx, model, &route.children);
            }
            once(&mut seen, &route.client, |settings| client(cx, settings));
            once(&mut seen, &route.body, |settings| body(cx, settings));
            match &route.action {
                Action::Proxy(proxy) => once(&mut seen, &proxy.settings, |settings| upstream(cx, settings)),
                Action::FastCgi(proxy) => once(&mut seen, &proxy.settings, |settings| upstream(cx, settings)),
                Action::Respond(answer) => respond(cx, answer),
                _ => {}
            }
            once(&mut seen, &route.limit_conn, |limits| limit_conn(cx, limits));
            once(&mut seen, &route.error_pages, |pages| {
                for status in pages.iter().flat_map(|page| &page.statuses) {
                    if !(300..=599).contains(status) {
                        let title = format!("an error page for status {status} is never used");
                        cx.report(
                            Diagnostic::warning("error-page::status", title)
                                .help("error pages are for 300 to 599"),
                        );
                    }
                }
            });
            program(cx, &route.program);
        });
    }
    for site in &model.sites {
        cx.at(site.origin, |cx| program(cx, &site.program));
    }
}

/// Looks at a shared group once, at the first route that has it.
fn once<T>(seen: &mut HashSet<usize>, group: &Arc<T>, check: impl FnOnce(&T)) {
    if seen.insert(Arc::as_ptr(group).cast::<()>() as usize) {
        check(group);
    }
}

fn client(cx: &mut Cx<'_>, settings: &ClientSettings) {
    if settings.header_timeout.is_zero() {
        zero_time(cx, "the time for a request head");
    }
    if settings.send_timeout.is_zero() {
        zero_time(cx, "the time between two writes to a client");
    }
    for (what, bytes) in
        [("request line", settings.max_request_line), ("field line", settings.max_header_line)]
    {
        if bytes < 64 {
            let title = format!("a {what} may have {bytes} bytes: hardly any request fits");
            cx.report(Diagnostic::warning("size::small", title));
        }
    }
    if settings.max_headers < settings.max_header_line {
        let title = format!(
            "one field line may have {} bytes, but all together only {}",
            settings.max_header_line, settings.max_headers
        );
        cx.report(Diagnostic::warning("size::conflict", title).help("the smaller limit holds"));
    }
    if settings.keepalive_requests == Some(0) {
        let title = "connections are kept for 0 requests, so each is closed after its first";
        cx.report(Diagnostic::note("keepalive::no-requests", title));
    }
}

fn body(cx: &mut Cx<'_>, settings: &BodySettings) {
    if settings.memory > HUGE_BODY_MEMORY {
        let title = format!("each request may hold {} MiB of body in memory", settings.memory >> 20);
        cx.report(
            Diagnostic::warning("size::large", title)
                .help("larger bodies go to a file; a few hundred KiB suffice"),
        );
    }
    if settings.timeout.is_zero() {
        zero_time(cx, "the time between two reads of a request body");
    }
}

fn upstream(cx: &mut Cx<'_>, settings: &UpstreamSettings) {
    let times = [
        ("the time to connect to an endpoint", settings.connect_timeout),
        ("the time between two writes to an endpoint", settings.send_timeout),
        ("the time between two reads from an endpoint", settings.read_timeout),
    ];
    for (what, time) in times {
        if time.is_zero() {
            zero_time(cx, what);
        }
    }
    if settings.max_response_head < 128 {
        let title =
            format!("a response head may have {} bytes: hardly any answer fits", settings.max_response_head);
        cx.report(Diagnostic::warning("size::small", title));
    }
    if settings.buffering && settings.buffer_bytes < settings.max_response_head {
        let title = format!(
            "answers are buffered in {} bytes, less than the {} of a response head",
            settings.buffer_bytes, settings.max_response_head
        );
        cx.report(Diagnostic::warning("size::conflict", title));
    }
}

fn zero_time(cx: &mut Cx<'_>, what: &str) {
    cx.report(Diagnostic::warning("time::zero", format!("{what} is 0: everything would time out at once")));
}

fn limit_conn(cx: &mut Cx<'_>, limits: &[weir_model::LimitConn]) {
    let most = cx.model.process.max_connections;
    for limit in limits {
        if let Some(most) = most
            && u64::from(limit.limit) > most
        {
            let title =
                format!("{} at once can never be reached: the process takes {most} connections", limit.limit);
            cx.report(Diagnostic::note("limit::unreachable", title));
        }
    }
}

fn program(cx: &mut Cx<'_>, ops: &[Op]) {
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::When { then, otherwise, .. } => {
                program(cx, then);
                program(cx, otherwise);
            }
            Op::Respond(answer) => respond(cx, answer),
            Op::Tarpit { respond: answer, .. } => respond(cx, answer),
            _ => {}
        }
        let ends = matches!(op, Op::Respond(_) | Op::Close(_) | Op::Tarpit { .. } | Op::Enter(_) | Op::Stop);
        if ends && at + 1 < ops.len() {
            let title = format!("{} more rules stand behind one that always ends", ops.len() - at - 1);
            cx.report(Diagnostic::warning("program::unreachable", title).help("they never run"));
            return;
        }
    }
}

fn respond(cx: &mut Cx<'_>, answer: &Respond) {
    if !(100..=999).contains(&answer.status) {
        let title = format!("{} is no status code", answer.status);
        cx.report(Diagnostic::error("respond::status", title).help("status codes have three digits"));
    } else if answer.status < 200 {
        let title = format!("status {} announces an answer but is none", answer.status);
        cx.report(Diagnostic::error("respond::status", title).help("final answers begin at 200"));
    }
}

fn tcp(cx: &mut Cx<'_>) {
    for service in &cx.model.tcp {
        let TcpAction::Proxy(proxy) = &service.action else { continue };
        cx.at(service.origin, |cx| {
            let times = [
                ("the time to connect to an endpoint", Some(proxy.connect_timeout)),
                ("the idle time of a connection", Some(proxy.idle_timeout)),
                ("the client's idle time", proxy.client_timeout),
                ("the endpoint's idle time", proxy.server_timeout),
            ];
            for (what, time) in times {
                if time == Some(Duration::ZERO) {
                    zero_time(cx, what);
                }
            }
            if proxy.buffer < 512 {
                let title = format!("connections are carried through buffers of {} bytes", proxy.buffer);
                cx.report(Diagnostic::warning("size::small", title).help("64k is a good size"));
            }
        });
    }
}
