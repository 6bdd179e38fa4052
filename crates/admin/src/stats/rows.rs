//! Rows of the page: a frontend, an endpoint or a backend each.
//!
//! Owns: which figure stands in which column, and the words for states.
//! Driven by: the CSV and JSON forms. The HTML form shows figures that they have no column for, and reads the snapshot.

use weir_control::snapshot::{Back, Classes, Endpoint, EndpointState, Front, Pool, Process, Site, Snapshot};

use super::columns::{COLUMNS, at};
use super::view::Options;

/// One value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// Does not apply.
    #[default]
    None,
    /// A number that goes up and down.
    Number(u64),
    /// A number that only grows.
    Total(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Words.
    Text(String),
}

/// What a row is about, numbered as in the column `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Frontend = 0,
    Backend = 1,
    Server = 2,
}

impl Kind {
    /// Its word in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
        }
    }
}

/// One row.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) proxy: u32,
    pub(super) id: u32,
    values: Box<[Value; COLUMNS.len()]>,
}

impl Row {
    fn new(kind: Kind, proxy: u32, id: u32) -> Self {
        Self { kind, proxy, id, values: Box::new(std::array::from_fn(|_| Value::None)) }
    }

    pub(super) fn values(&self) -> &[Value] {
        &*self.values
    }
}

/// Sets columns whose places are found when this is compiled.
macro_rules! set {
    ($row:expr; $($name:literal: $value:expr,)*) => {$(
        $row.values[const { at($name) }] = $value;
    )*};
}

/// All rows: a proxy's frontend, endpoints and backend stand together where they have one name (`listen`).
pub(super) fn all(snapshot: &Snapshot, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for proxy in proxies(snapshot) {
        if let Some(site) = proxy.site {
            rows.push(frontend(site));
        }
        let Some(pool) = proxy.pool else { continue };
        let cx = Context { process: &snapshot.process, legends: options.show_legends };
        rows.extend(pool.endpoints.iter().map(|endpoint| server(&cx, pool, endpoint)));
        rows.push(backend(&cx, pool));
    }
    rows
}

/// A proxy: a site, a pool, or both under one name.
pub(super) struct Proxy<'s> {
    pub(super) site: Option<&'s Site>,
    pub(super) pool: Option<&'s Pool>,
}

/// Proxies in order: each site with the pool of its number, and the other pools.
pub(super) fn proxies(snapshot: &Snapshot) -> Vec<Proxy<'_>> {
    let mut proxies: Vec<Proxy<'_>> = snapshot
        .sites
        .iter()
        .map(|site| Proxy {
            site: Some(site),
            pool: snapshot.pools.iter().find(|pool| pool.number == site.number),
        })
        .collect();
    let alone = |pool: &&Pool| !snapshot.sites.iter().any(|site| site.number == pool.number);
    proxies.extend(snapshot.pools.iter().filter(alone).map(|pool| Proxy { site: None, pool: Some(pool) }));
    proxies.sort_by_key(|proxy| proxy.site.map(|site| site.place).or(proxy.pool.map(|pool| pool.place)));
    proxies
}

struct Context<'s> {
    process: &'s Process,
    legends: bool,
}

impl Context<'_> {
    /// Seconds since the last exchange; -1: there was none.
    fn since(&self, last_unix: u64) -> i64 {
        let now = self.process.started_unix + self.process.uptime_ms / 1000;
        if last_unix == 0 { -1 } else { now.saturating_sub(last_unix) as i64 }
    }
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn optional(value: Option<u64>) -> Value {
    value.map_or(Value::None, Value::Number)
}

fn seconds(millis: u64) -> Value {
    Value::Number(millis / 1000)
}

fn responses(row: &mut Row, classes: &Classes) {
    set!(row;
        "hrsp_1xx": Value::Total(classes.informational),
        "hrsp_2xx": Value::Total(classes.success),
        "hrsp_3xx": Value::Total(classes.redirect),
        "hrsp_4xx": Value::Total(classes.client_error),
        "hrsp_5xx": Value::Total(classes.server_error),
        "hrsp_other": Value::Total(classes.other),
    );
}

fn compression(row: &mut Row, [taken, given, passed, answers]: [u64; 4], [lookups, hits]: [u64; 2]) {
    set!(row;
        "comp_in": Value::Total(taken),
        "comp_out": Value::Total(given),
        "comp_byp": Value::Total(passed),
        "comp_rsp": Value::Total(answers),
        "cache_lookups": Value::Total(lookups),
        "cache_hits": Value::Total(hits),
    );
}

fn frontend(site: &Site) -> Row {
    let front: &Front = &site.front;
    let mut row = Row::new(Kind::Frontend, site.number, 0);
    let http = site.mode == "http";
    set!(row;
        "pxname": text(&site.name),
        "svname": text("FRONTEND"),
        "scur": Value::Number(front.current),
        "smax": Value::Number(front.peak),
        "slim": optional(front.limit),
        "stot": Value::Total(front.total),
        "bin": Value::Total(front.bytes_in),
        "bout": Value::Total(front.bytes_out),
        "dreq": Value::Total(front.denied_requests),
        "dresp": Value::Total(front.denied_responses),
        "ereq": Value::Total(front.request_errors),
        "status": text(if site.paused { "PAUSED" } else { "OPEN" }),
        "pid": Value::Number(1),
        "iid": Value::Number(u64::from(site.number)),
        "sid": Value::Number(0),
        "type": Value::Number(Kind::Frontend as u64),
        "rate": Value::Number(front.rates.sessions),
        "rate_lim": Value::Number(front.rate_limit),
        "rate_max": Value::Number(front.rates.sessions_max),
        "mode": text(&site.mode),
        "conn_rate": Value::Number(front.rates.connections),
        "conn_rate_max": Value::Number(front.rates.connections_max),
        "conn_tot": Value::Total(front.total),
        "dcon": Value::Total(front.denied_connections),
        "dses": Value::Total(front.denied_sessions),
        "wrew": Value::Total(front.failed_rewrites),
        "eint": Value::Total(front.internal_errors),
        "reqbin": Value::Total(front.bytes_in),
        "reqbout": Value::Total(front.passed_on),
        "resbin": Value::Total(front.passed_back),
        "resbout": Value::Total(front.bytes_out),
        "-": text("-"),
    );
    let [h1, h2, h3] = front.connections_by_version;
    let known = h1 + h2 + h3;
    set!(row;
        "sess_other": Value::Total(front.total.saturating_sub(known)),
        "h1sess": Value::Total(h1),
        "h2sess": Value::Total(h2),
        "h3sess": Value::Total(h3),
    );
    if http {
        let [h1, h2, h3] = front.requests_by_version;
        set!(row;
            "req_rate": Value::Number(front.rates.requests),
            "req_rate_max": Value::Number(front.rates.requests_max),
            "req_tot": Value::Total(front.requests),
            "intercepted": Value::Total(front.intercepted),
            "req_other": Value::Total(front.requests.saturating_sub(h1 + h2 + h3)),
            "h1req": Value::Total(h1),
            "h2req": Value::Total(h2),
            "h3req": Value::Total(h3),
        );
        responses(&mut row, &front.responses);
        compression(&mut row, front.compression, front.cache);
    }
    row
}

/// What servers and backends have in common.
fn common(cx: &Context<'_>, row: &mut Row, pool: &Pool, back: &Back) {
    let rounded = |millis: f64| Value::Number(millis.round() as u64);
    let [queue, connect, response, total] = back.times.max.map(Value::Number);
    set!(row;
        "pxname": text(&pool.name),
        "qcur": Value::Number(back.queued),
        "qmax": Value::Number(back.queued_peak),
        "scur": Value::Number(back.current),
        "smax": Value::Number(back.peak),
        "slim": optional(back.limit),
        "stot": Value::Total(back.total),
        "bin": Value::Total(back.bytes_in),
        "bout": Value::Total(back.bytes_out),
        "dresp": Value::Total(back.denied_responses),
        "econ": Value::Total(back.connect_errors),
        "eresp": Value::Total(back.response_errors),
        "wretr": Value::Total(back.retries),
        "wredis": Value::Total(back.redispatches),
        "pid": Value::Number(1),
        "iid": Value::Number(u64::from(pool.number)),
        "sid": Value::Number(u64::from(row.id)),
        "lbtot": Value::Total(back.balanced),
        "type": Value::Number(row.kind as u64),
        "rate": Value::Number(back.rates.sessions),
        "rate_max": Value::Number(back.rates.sessions_max),
        "cli_abrt": Value::Total(back.client_aborts),
        "srv_abrt": Value::Total(back.server_aborts),
        "lastsess": Value::Signed(cx.since(back.last_unix)),
        "qtime": rounded(back.times.queue),
        "ctime": rounded(back.times.connect),
        "rtime": rounded(back.times.response),
        "ttime": rounded(back.times.total),
        "mode": text(&pool.mode),
        "wrew": Value::Total(back.failed_rewrites),
        "connect": Value::Total(back.connects),
        "reuse": Value::Total(back.reuses),
        "qtime_max": queue,
        "ctime_max": connect,
        "rtime_max": response,
        "ttime_max": total,
        "eint": Value::Total(back.internal_errors),
        "reqbin": Value::Total(back.taken),
        "reqbout": Value::Total(back.bytes_in),
        "resbin": Value::Total(back.bytes_out),
        "resbout": Value::Total(back.given),
        "-": text("-"),
    );
    if pool.mode == "http" {
        set!(row; "req_tot": Value::Total(back.requests),);
        responses(row, &back.responses);
    }
}

fn server(cx: &Context<'_>, pool: &Pool, endpoint: &Endpoint) -> Row {
    let mut row = Row::new(Kind::Server, pool.number, endpoint.number);
    common(cx, &mut row, pool, &endpoint.back);
    set!(row;
        "svname": text(&endpoint.name),
        "status": text(status(endpoint)),
        "weight": Value::Number(u64::from(endpoint.weight)),
        "act": Value::Number(u64::from(!endpoint.backup)),
        "bck": Value::Number(u64::from(endpoint.backup)),
        "lastchg": seconds(endpoint.last_change_ms),
        "qlimit": optional(endpoint.queue_limit),
        "throttle": optional(endpoint.throttle.map(u64::from)),
        "srv_icur": Value::Number(endpoint.idle),
        "src_ilim": optional(endpoint.idle_limit),
        "idle_conn_cur": Value::Number(0),
        "safe_conn_cur": Value::Number(endpoint.idle),
        "used_conn_cur": Value::Number(endpoint.used),
        "need_conn_est": Value::Number(endpoint.used),
        "uweight": Value::Number(u64::from(endpoint.user_weight)),
        "srid": Value::Number(0),
    );
    if let Some(health) = &endpoint.health {
        set!(row;
            "chkfail": Value::Total(health.failed),
            "hanafail": optional(health.errors),
            "chkdown": Value::Total(health.went_down),
            "downtime": seconds(endpoint.downtime_ms),
            "check_status": text(&health.last_status),
            "check_code": optional(health.last_code.map(u64::from)),
            "check_duration": Value::Total(health.last_duration_ms),
            "last_chk": text(&health.last_text),
            "check_desc": text(meaning(&health.last_status)),
            "check_rise": Value::Number(u64::from(health.rise)),
            "check_fall": Value::Number(u64::from(health.fall)),
            "check_health": Value::Number(u64::from(health.level)),
        );
    }
    if cx.legends {
        set!(row; "addr": text(&endpoint.address),);
        if let Some(cookie) = &endpoint.cookie {
            set!(row; "cookie": text(cookie),);
        }
    }
    row
}

/// The weight of the servers that a backend uses now: the active ones that are up, or the backups if none is.
pub(super) fn weight(pool: &Pool) -> u64 {
    let usable = |backup: bool| {
        let of_tier = pool.endpoints.iter().filter(move |endpoint| endpoint.backup == backup);
        of_tier
            .filter(|endpoint| endpoint.state == EndpointState::Up)
            .map(|endpoint| u64::from(endpoint.weight))
    };
    if pool.active() > 0 { usable(false).sum() } else { usable(true).sum() }
}

fn backend(cx: &Context<'_>, pool: &Pool) -> Row {
    let mut row = Row::new(Kind::Backend, pool.number, 0);
    common(cx, &mut row, pool, &pool.back);
    let weight = weight(pool);
    set!(row;
        "svname": text("BACKEND"),
        "dreq": Value::Total(pool.back.denied_requests),
        "status": text(if is_up(pool) { "UP" } else { "DOWN" }),
        "weight": Value::Number(weight),
        "act": Value::Number(pool.active() as u64),
        "bck": Value::Number(pool.backups() as u64),
        "chkdown": Value::Total(pool.went_down),
        "lastchg": seconds(pool.last_change_ms),
        "downtime": seconds(pool.downtime_ms),
        "uweight": Value::Number(weight),
        "agg_server_status": Value::Number(0),
        "agg_server_check_status": Value::Number(0),
        "agg_check_status": Value::Number(0),
    );
    if cx.legends {
        set!(row; "algo": text(&pool.balance),);
        if let Some(cookie) = &pool.cookie {
            set!(row; "cookie": text(cookie),);
        }
    }
    if pool.mode == "http" {
        compression(&mut row, pool.back.compression, pool.back.cache);
    }
    row
}

/// Whether a pool takes work. One without endpoints answers by itself and counts as up.
pub(super) fn is_up(pool: &Pool) -> bool {
    pool.endpoints.is_empty() || pool.active() + pool.backups() > 0
}

/// What a word of `check_status` means, as the management guide explains it.
fn meaning(word: &str) -> &'static str {
    match word {
        "INI" => "Initializing",
        "HANA" => "Health analyze",
        "L4OK" => "Layer4 check passed",
        "L4TOUT" => "Layer4 timeout",
        "L4CON" => "Layer4 connection problem",
        "L6OK" => "Layer6 check passed",
        "L6TOUT" => "Layer6 timeout",
        "L6RSP" => "Layer6 invalid response",
        "L7OK" => "Layer7 check passed",
        "L7TOUT" => "Layer7 timeout",
        "L7RSP" => "Layer7 invalid response",
        "L7STS" => "Layer7 wrong status",
        _ => "",
    }
}

/// HAProxy's word for the state of a server.
pub(super) fn status(endpoint: &Endpoint) -> String {
    match (endpoint.state, &endpoint.health) {
        (EndpointState::Maintenance, _) => "MAINT".into(),
        (EndpointState::Draining, Some(health)) if health.state.starts_with("NOLB") => health.state.clone(),
        (EndpointState::Draining, _) => "DRAIN".into(),
        (EndpointState::Down, Some(health)) if !health.state.starts_with("DOWN") => "DOWN (agent)".into(),
        (_, Some(health)) if !health.state.is_empty() => health.state.clone(),
        (EndpointState::Down, _) => "DOWN".into(),
        (EndpointState::Up, Some(_)) => "UP".into(),
        (EndpointState::Up, None) => "no check".into(),
    }
}

#[cfg(test)]
mod tests {
    use weir_control::snapshot::HealthReport;

    use super::super::fixtures;
    use super::*;

    fn endpoint(name: &str, state: EndpointState) -> Endpoint {
        Endpoint { state, ..fixtures::endpoint(name) }
    }

    fn snapshot() -> Snapshot {
        let pool = |name: &str, number| {
            let endpoints = vec![endpoint("a", EndpointState::Up), endpoint("b", EndpointState::Down)];
            fixtures::pool(name, number, endpoints)
        };
        Snapshot {
            sites: vec![fixtures::site("www", 2), fixtures::site("both", 3)],
            pools: vec![pool("both", 3), pool("app", 4), pool("early", 1)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn rows_stand_in_haproxy_s_order() {
        let rows = all(&snapshot(), &Options::default());
        let names: Vec<String> = rows
            .iter()
            .map(|row| match (&row.values[0], &row.values[1]) {
                (Value::Text(proxy), Value::Text(service)) => format!("{proxy}/{service}"),
                _ => String::new(),
            })
            .collect();
        let expected = "early/a early/b early/BACKEND www/FRONTEND both/FRONTEND both/a both/b both/BACKEND app/a app/b app/BACKEND";
        assert_eq!(names.join(" "), expected);
        assert_eq!(rows[7].values[const { at("act") }], Value::Number(1));
        assert_eq!(rows[7].values[const { at("weight") }], Value::Number(2));
    }

    #[test]
    fn states_have_haproxy_s_words() {
        let mut one = endpoint("a", EndpointState::Up);
        assert_eq!(status(&one), "no check");
        one.health = Some(HealthReport { state: "UP 1/3".into(), ..HealthReport::default() });
        assert_eq!(status(&one), "UP 1/3");
        one.state = EndpointState::Maintenance;
        assert_eq!(status(&one), "MAINT");
    }
}
