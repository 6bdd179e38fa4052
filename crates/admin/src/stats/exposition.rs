//! HAProxy's metrics: what its `prometheus-exporter` calls the figures of the statistics page.
//!
//! Owns: names, labels, and the parameters of a request for them: `scope`, `metrics`, `no-maint`.
//! Never: shows a figure that Weir does not have: of the process those about tasks, pools of memory and pipes are left out.
//! Driven by: the binary, where a configuration asks for HAProxy's exposition.
//! Why: dashboards and alerts know these names. The figures are those of the CSV form, so that the two cannot disagree;
//! Weir's own metrics follow, which tell more.

use std::fmt::Write as _;

use weir_control::snapshot::{Process, Snapshot};
use weir_telemetry::prometheus;

use super::columns::at;
use super::rows::{self, Kind, Row, Value};
use super::view::Options;
use crate::Page;

/// One family of metrics that is a column of the statistics.
struct Family {
    name: &'static str,
    column: usize,
    /// Whose rows have it.
    of: u8,
    counter: bool,
    /// The column is in milliseconds, the metric in seconds.
    millis: bool,
}

const F: u8 = 1 << Kind::Frontend as u8;
const B: u8 = 1 << Kind::Backend as u8;
const S: u8 = 1 << Kind::Server as u8;

const fn gauge(name: &'static str, column: usize, of: u8) -> Family {
    Family { name, column, of, counter: false, millis: false }
}

const fn total(name: &'static str, column: usize, of: u8) -> Family {
    Family { name, column, of, counter: true, millis: false }
}

const fn millis(name: &'static str, column: usize, of: u8) -> Family {
    Family { name, column, of, counter: false, millis: true }
}

/// All of them, with the names that HAProxy 2.6 and later give them.
const FAMILIES: &[Family] = &[
    gauge("current_sessions", at("scur"), F | B | S),
    gauge("max_sessions", at("smax"), F | B | S),
    gauge("limit_sessions", at("slim"), F | B | S),
    total("sessions_total", at("stot"), F | B | S),
    total("bytes_in_total", at("bin"), F | B | S),
    total("bytes_out_total", at("bout"), F | B | S),
    total("requests_denied_total", at("dreq"), F | B),
    total("responses_denied_total", at("dresp"), F | B | S),
    total("request_errors_total", at("ereq"), F),
    gauge("limit_session_rate", at("rate_lim"), F),
    gauge("max_session_rate", at("rate_max"), F | B | S),
    gauge("http_requests_rate_max", at("req_rate_max"), F),
    total("http_requests_total", at("req_tot"), F | B),
    total("http_comp_bytes_in_total", at("comp_in"), F | B),
    total("http_comp_bytes_out_total", at("comp_out"), F | B),
    total("http_comp_bytes_bypassed_total", at("comp_byp"), F | B),
    total("http_comp_responses_total", at("comp_rsp"), F | B),
    gauge("connections_rate_max", at("conn_rate_max"), F),
    total("connections_total", at("conn_tot"), F),
    total("intercepted_requests_total", at("intercepted"), F),
    total("denied_connections_total", at("dcon"), F),
    total("denied_sessions_total", at("dses"), F),
    total("failed_header_rewriting_total", at("wrew"), F | B | S),
    total("http_cache_lookups_total", at("cache_lookups"), F | B),
    total("http_cache_hits_total", at("cache_hits"), F | B),
    total("internal_errors_total", at("eint"), F | B | S),
    gauge("current_queue", at("qcur"), B | S),
    gauge("max_queue", at("qmax"), B | S),
    total("connection_errors_total", at("econ"), B | S),
    total("response_errors_total", at("eresp"), B | S),
    total("retry_warnings_total", at("wretr"), B | S),
    total("redispatch_warnings_total", at("wredis"), B | S),
    gauge("weight", at("weight"), B | S),
    gauge("active_servers", at("act"), B),
    gauge("backup_servers", at("bck"), B),
    total("check_up_down_total", at("chkdown"), B | S),
    gauge("check_last_change_seconds", at("lastchg"), B | S),
    total("downtime_seconds_total", at("downtime"), B | S),
    total("loadbalanced_total", at("lbtot"), B | S),
    total("client_aborts_total", at("cli_abrt"), B | S),
    total("server_aborts_total", at("srv_abrt"), B | S),
    gauge("last_session_seconds", at("lastsess"), B | S),
    millis("queue_time_average_seconds", at("qtime"), B | S),
    millis("connect_time_average_seconds", at("ctime"), B | S),
    millis("response_time_average_seconds", at("rtime"), B | S),
    millis("total_time_average_seconds", at("ttime"), B | S),
    total("connection_attempts_total", at("connect"), B | S),
    total("connection_reuses_total", at("reuse"), B | S),
    millis("max_queue_time_seconds", at("qtime_max"), B | S),
    millis("max_connect_time_seconds", at("ctime_max"), B | S),
    millis("max_response_time_seconds", at("rtime_max"), B | S),
    millis("max_total_time_seconds", at("ttime_max"), B | S),
    gauge("uweight", at("uweight"), B | S),
    total("check_failures_total", at("chkfail"), S),
    gauge("queue_limit", at("qlimit"), S),
    gauge("current_throttle", at("throttle"), S),
    gauge("check_code", at("check_code"), S),
    millis("check_duration_seconds", at("check_duration"), S),
    gauge("idle_connections_current", at("srv_icur"), S),
    gauge("idle_connections_limit", at("src_ilim"), S),
    gauge("unsafe_idle_connections_current", at("idle_conn_cur"), S),
    gauge("safe_idle_connections_current", at("safe_conn_cur"), S),
    gauge("used_connections_current", at("used_conn_cur"), S),
    gauge("need_connections_current", at("need_conn_est"), S),
];

/// Columns of answers by class, and the label of each.
const CLASSES: [(&str, usize); 6] = [
    ("1xx", at("hrsp_1xx")),
    ("2xx", at("hrsp_2xx")),
    ("3xx", at("hrsp_3xx")),
    ("4xx", at("hrsp_4xx")),
    ("5xx", at("hrsp_5xx")),
    ("other", at("hrsp_other")),
];

/// States of a server; a frontend and a backend have the first two.
const STATES: [&str; 5] = ["DOWN", "UP", "MAINT", "DRAIN", "NOLB"];

/// What a check may have come to.
const CHECKS: [&str; 16] = [
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK",
    "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];

/// What a request asks for.
struct Wanted {
    global: bool,
    /// Kinds of rows, as in [`Family::of`].
    rows: u8,
    /// Weir's own metrics as well.
    own: bool,
    /// Names of families: these only, and not those.
    only: Vec<String>,
    not: Vec<String>,
    /// No servers under maintenance.
    live: bool,
}

impl Wanted {
    /// Reads the parameters of a target. `None`: a scope that does not exist.
    fn of(target: &[u8]) -> Option<Self> {
        let mut wanted =
            Self { global: true, rows: F | B | S, own: true, only: Vec::new(), not: Vec::new(), live: false };
        let mut scoped = false;
        for (name, value) in pairs(target) {
            match &*name {
                "scope" => {
                    if !std::mem::replace(&mut scoped, true) {
                        wanted.show(false);
                    }
                    match &*value {
                        "" => wanted.show(false),
                        "*" => wanted.show(true),
                        "global" => wanted.global = true,
                        "frontend" => wanted.rows |= F,
                        "backend" => wanted.rows |= B,
                        "server" => wanted.rows |= S,
                        // Kinds of objects that there are none of.
                        "listener" | "sticktable" => {}
                        _ => return None,
                    }
                }
                "metrics" => {
                    for name in value.split(',').filter(|name| !name.is_empty()) {
                        match name.strip_prefix('-') {
                            Some(name) => wanted.not.push(name.to_owned()),
                            None => wanted.only.push(name.to_owned()),
                        }
                    }
                }
                "no-maint" => wanted.live = true,
                _ => {}
            }
        }
        Some(wanted)
    }

    /// Everything, or nothing.
    fn show(&mut self, everything: bool) {
        (self.global, self.own) = (everything, everything);
        self.rows = if everything { F | B | S } else { 0 };
    }

    fn has(&self, name: &str) -> bool {
        let is = |other: &String| other == name;
        (self.only.is_empty() || self.only.iter().any(is)) && !self.not.iter().any(is)
    }
}

/// The page for a target.
pub fn page(snapshot: &Snapshot, target: &[u8]) -> Page {
    let Some(wanted) = Wanted::of(target) else {
        let mut page = Page::new("text/plain", "unknown scope\n".to_owned());
        page.status = 400;
        return page;
    };
    let mut text = Text { out: String::with_capacity(64 << 10), wanted: &wanted };
    if wanted.global {
        process(&mut text, snapshot);
    }
    let rows = rows::all(snapshot, &Options::default());
    let live = |row: &&Row| !(wanted.live && row.kind == Kind::Server && state(row) == "MAINT");
    let rows: Vec<&Row> = rows.iter().filter(live).collect();
    for kind in [Kind::Frontend, Kind::Backend, Kind::Server] {
        if wanted.rows & (1 << kind as u8) != 0 {
            let of_kind: Vec<&Row> = rows.iter().copied().filter(|row| row.kind == kind).collect();
            families(&mut text, kind, &of_kind, &rows);
        }
    }
    if wanted.own {
        text.own(&prometheus::render(snapshot));
    }
    Page::new("text/plain; version=0.0.4", text.out)
}

/// Names and values of the query of a target, decoded.
fn pairs(target: &[u8]) -> impl Iterator<Item = (String, String)> + '_ {
    let query = target.splitn(2, |&byte| byte == b'?').nth(1).unwrap_or_default();
    query.split(|&byte| byte == b'&').map(|pair| {
        let mut parts = pair.splitn(2, |&byte| byte == b'=').map(decoded);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    })
}

fn decoded(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The text as it grows.
struct Text<'w> {
    out: String,
    wanted: &'w Wanted,
}

impl Text<'_> {
    /// Begins a family; false if nobody wants it.
    fn begin(&mut self, name: &str, help: &str, counter: bool) -> bool {
        if !self.wanted.has(name) {
            return false;
        }
        let kind = if counter { "counter" } else { "gauge" };
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        true
    }

    /// A metric without labels.
    fn one(&mut self, name: &str, help: &str, counter: bool, value: f64) {
        let name = format!("haproxy_process_{name}");
        if self.begin(&name, help, counter) {
            let _ = writeln!(self.out, "{name} {value}");
        }
    }

    /// A metric of a row.
    fn of_row(&mut self, name: &str, row: &Row, label: Option<(&str, &str)>, value: &str) {
        let _ = write!(self.out, "{name}{{proxy=\"{}\"", escaped(words(row, at("pxname"))));
        if row.kind == Kind::Server {
            let _ = write!(self.out, ",server=\"{}\"", escaped(words(row, at("svname"))));
        }
        if let Some((label, of)) = label {
            let _ = write!(self.out, ",{label}=\"{of}\"");
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    /// Weir's own metrics, of the families that are wanted.
    fn own(&mut self, text: &str) {
        for line in text.lines() {
            let words = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
            let name = words.split([' ', '{']).next().unwrap_or_default();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            if self.wanted.has(name) || family.is_some_and(|family| self.wanted.has(family)) {
                self.out.push_str(line);
                self.out.push('\n');
            }
        }
    }
}

fn process(text: &mut Text<'_>, snapshot: &Snapshot) {
    let process: &Process = &snapshot.process;
    let (connections, rates, tls) = (&process.connections, &process.rates, &process.tls);
    let compressed =
        |part: usize| snapshot.sites.iter().map(|site| site.front.compression[part]).sum::<u64>();
    let handshakes = tls.full + tls.resumed;
    let reused = (tls.resumed * 100).checked_div(handshakes).unwrap_or(0);
    let listeners = snapshot.listeners.len() as u64;
    let gauges: &[(&str, &str, u64)] = &[
        ("nbthread", "Workers", u64::from(process.workers)),
        ("nbproc", "Data planes: one", 1),
        ("relative_process_id", "Number of the data plane: one", 1),
        ("uptime_seconds", "Time since the start", process.uptime_ms / 1000),
        ("start_time_seconds", "Start, in seconds since 1970", process.started_unix),
        ("max_fds", "Bound on descriptors", process.descriptor_limit),
        ("max_sockets", "Bound on descriptors", process.descriptor_limit),
        ("max_connections", "Bound on client connections", process.max_connections),
        ("hard_max_connections", "Bound on client connections", process.max_connections),
        ("current_connections", "Client connections open", connections.active),
        ("current_ssl_connections", "Client connections open over TLS", tls.current),
        ("current_connection_rate", "Connections in the last second", rates.connections),
        ("max_connection_rate", "The most connections in a second", rates.connections_max),
        ("current_session_rate", "Sessions in the last second", rates.sessions),
        ("max_session_rate", "The most sessions in a second", rates.sessions_max),
        ("frontend_ssl_reuse", "Handshakes that resumed a session, in a hundred", reused),
        ("stopping", "Whether the process drains before its end", u64::from(process.stopping)),
        ("jobs", "Client connections and listeners", connections.active + listeners),
        ("listeners", "Listeners", listeners),
        ("max_memory_bytes", "Bound on memory in use", process.memory_budget),
    ];
    for (name, help, value) in gauges {
        text.one(name, help, false, *value as f64);
    }
    let totals: &[(&str, &str, u64)] = &[
        ("connections_total", "Client connections accepted", connections.accepted),
        ("requests_total", "Requests", process.requests),
        ("ssl_connections_total", "Handshakes with clients", handshakes),
        ("http_comp_bytes_in_total", "Bytes given to compression", compressed(0)),
        ("http_comp_bytes_out_total", "Bytes that compression made of them", compressed(1)),
        ("dropped_logs_total", "Log lines dropped", process.dropped_logs),
        ("bytes_out_total", "Bytes sent to clients", process.bytes.client_out),
    ];
    for (name, help, value) in totals {
        text.one(name, help, true, *value as f64);
    }
    if text.begin("haproxy_process_build_info", "The version", false) {
        let _ = writeln!(
            text.out,
            "haproxy_process_build_info{{version=\"weir {}\"}} 1",
            escaped(&process.version)
        );
    }
}

/// The families of one kind of row. `all` are the rows of every kind.
fn families(text: &mut Text<'_>, kind: Kind, of_kind: &[&Row], all: &[&Row]) {
    let prefix = match kind {
        Kind::Frontend => "haproxy_frontend_",
        Kind::Backend => "haproxy_backend_",
        Kind::Server => "haproxy_server_",
    };
    for family in FAMILIES.iter().filter(|family| family.of & (1 << kind as u8) != 0) {
        let name = format!("{prefix}{}", family.name);
        let help = format!("`{}` of the statistics page", super::columns::COLUMNS[family.column].name);
        // A proxy in mode tcp has no figures of HTTP; a server may have no bound.
        // Nor has one without checks their outcome.
        let optional = ["http_", "intercepted", "check_code", "check_duration"];
        let optional = optional.iter().any(|part| family.name.contains(part));
        let has = |row: &&&Row| !(optional && row.values()[family.column] == Value::None);
        if of_kind.iter().any(|row| has(&row)) && text.begin(&name, &help, family.counter) {
            for row in of_kind.iter().filter(has) {
                text.of_row(&name, row, None, &number(&row.values()[family.column], family.millis));
            }
        }
    }
    let name = format!("{prefix}http_responses_total");
    let has = |row: &&&Row| row.values()[CLASSES[0].1] != Value::None;
    if of_kind.iter().any(|row| has(&row))
        && text.begin(&name, "Responses by the class of their status", true)
    {
        for (class, column) in CLASSES {
            for row in of_kind.iter().filter(has) {
                text.of_row(&name, row, Some(("code", class)), &number(&row.values()[column], false));
            }
        }
    }
    states(text, prefix, kind, of_kind);
    match kind {
        Kind::Frontend => {}
        Kind::Backend => aggregates(text, of_kind, all),
        Kind::Server => checks(text, of_kind),
    }
}

/// One metric a state, of which one is 1.
fn states(text: &mut Text<'_>, prefix: &str, kind: Kind, of_kind: &[&Row]) {
    let name = format!("{prefix}status");
    if !text.begin(&name, "Whether it is in the state", false) {
        return;
    }
    let known = if kind == Kind::Server { &STATES[..] } else { &STATES[..2] };
    for row in of_kind {
        for &one in known {
            text.of_row(&name, row, Some(("state", one)), if state(row) == one { "1" } else { "0" });
        }
    }
}

/// Servers of a backend by state, and by what their last check came to.
fn aggregates(text: &mut Text<'_>, backends: &[&Row], all: &[&Row]) {
    let servers = |backend: &Row| {
        let proxy = backend.proxy;
        all.iter().filter(move |row| row.kind == Kind::Server && row.proxy == proxy)
    };
    for name in ["haproxy_backend_agg_server_status", "haproxy_backend_agg_server_check_status"] {
        if text.begin(name, "Servers in the state", false) {
            for backend in backends {
                for one in STATES {
                    let count = servers(backend).filter(|row| state(row) == one).count();
                    text.of_row(name, backend, Some(("state", one)), &count.to_string());
                }
            }
        }
    }
    let name = "haproxy_backend_agg_check_status";
    if text.begin(name, "Servers whose last check came to this", false) {
        for backend in backends {
            for one in CHECKS {
                let count = servers(backend).filter(|row| words(row, at("check_status")) == one).count();
                text.of_row(name, backend, Some(("state", one)), &count.to_string());
            }
        }
    }
}

/// What the last check of each server that has checks came to.
fn checks(text: &mut Text<'_>, servers: &[&Row]) {
    let name = "haproxy_server_check_status";
    let has = |row: &&&Row| row.values()[at("check_status")] != Value::None;
    if !servers.iter().any(|row| has(&row)) || !text.begin(name, "Whether the last check came to this", false)
    {
        return;
    }
    for row in servers.iter().filter(has) {
        for one in CHECKS {
            let is = words(row, at("check_status")) == one;
            text.of_row(name, row, Some(("state", one)), if is { "1" } else { "0" });
        }
    }
}

/// The state of a row as these metrics know it: `UP 1/3` is up, `no check` as well.
fn state(row: &Row) -> &'static str {
    let status = words(row, at("status"));
    match status.split(' ').next().unwrap_or_default() {
        "DOWN" => "DOWN",
        "MAINT" => "MAINT",
        "DRAIN" => "DRAIN",
        "NOLB" => "NOLB",
        _ => "UP",
    }
}

fn words(row: &Row, column: usize) -> &str {
    match &row.values()[column] {
        Value::Text(text) => text,
        _ => "",
    }
}

/// A figure; what does not apply is `NaN`, as there.
fn number(value: &Value, millis: bool) -> String {
    match value {
        Value::Number(n) | Value::Total(n) if millis => format!("{}", *n as f64 / 1000.0),
        Value::Number(n) | Value::Total(n) => n.to_string(),
        Value::Signed(n) => n.to_string(),
        Value::None | Value::Text(_) => "NaN".to_owned(),
    }
}

/// A label's value: names come from configurations.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use weir_control::snapshot::{EndpointState, HealthReport};

    use super::super::fixtures;
    use super::*;

    fn snapshot() -> Snapshot {
        let mut up = fixtures::endpoint("a");
        up.health =
            Some(HealthReport { state: "UP".into(), last_status: "L7OK".into(), ..HealthReport::default() });
        let mut out = fixtures::endpoint("b\"");
        out.state = EndpointState::Maintenance;
        Snapshot {
            sites: vec![fixtures::site("www", 2)],
            pools: vec![fixtures::pool("app", 3, vec![up, out])],
            ..Snapshot::default()
        }
    }

    fn text(target: &str) -> String {
        let page = page(&snapshot(), target.as_bytes());
        assert_eq!(page.status, 200, "{target}");
        String::from_utf8(page.body).unwrap_or_default()
    }

    #[test]
    fn figures_have_haproxys_names_and_labels() {
        let text = text("/metrics");
        for line in [
            "# TYPE haproxy_process_uptime_seconds gauge\n",
            "# TYPE haproxy_frontend_bytes_in_total counter\n",
            "haproxy_frontend_status{proxy=\"www\",state=\"UP\"} 1\n",
            "haproxy_backend_agg_server_status{proxy=\"app\",state=\"MAINT\"} 1\n",
            "haproxy_backend_agg_check_status{proxy=\"app\",state=\"L7OK\"} 1\n",
            "haproxy_server_status{proxy=\"app\",server=\"a\",state=\"UP\"} 1\n",
            "haproxy_server_status{proxy=\"app\",server=\"b\\\"\",state=\"MAINT\"} 1\n",
            "haproxy_server_check_status{proxy=\"app\",server=\"a\",state=\"L7OK\"} 1\n",
            "haproxy_server_http_responses_total{proxy=\"app\",server=\"a\",code=\"2xx\"} ",
            "weir_",
        ] {
            assert!(text.contains(line), "{line}");
        }
        assert!(!text.contains("haproxy_server_check_status{proxy=\"app\",server=\"b"), "it has no checks");
    }

    #[test]
    fn a_request_says_what_it_wants() {
        let server = text("/metrics?scope=server&no-maint");
        assert!(
            server.contains("haproxy_server_") && server.lines().all(|line| line.contains("haproxy_server_"))
        );
        assert!(!server.contains("server=\"b"));
        assert_eq!(text("/metrics?scope=server&scope="), "");
        let two = text("/metrics?scope=frontend&scope=global");
        assert!(
            two.contains("haproxy_frontend_") && two.contains("haproxy_process_") && !two.contains("weir_")
        );
        let one = text("/metrics?metrics=haproxy_process_uptime_seconds,haproxy_server_status");
        assert_eq!(one.matches("# TYPE").count(), 2);
        assert!(!text("/metrics?metrics=-haproxy_server_status").contains("haproxy_server_status"));
        assert_eq!(page(&snapshot(), b"/metrics?scope=nonsense").status, 400);
    }
}
