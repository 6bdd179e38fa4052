//! The page as HTML.
//!
//! Owns: layout, numbers and durations for people, links to the other forms.
//! Never: trusts a name: all text is escaped.
//! Why: the same tables as HAProxy's page (queue, session rate, sessions, bytes, denied, errors, warnings, server) in
//! the order that its users know, and latency beside them, which averages hide.

use std::fmt::Write as _;

use weir_control::snapshot::{
    Back, Classes, Endpoint, EndpointState, Front, Latency, Pool, Process, Snapshot,
};

use super::form::ACTIONS;
use super::rows::{Proxy, is_up, proxies, status, weight};
use super::view::{Options, View};

const STYLE: &str = include_str!("page.css");

/// Groups of columns, each with the columns under it.
const GROUPS: &[(&str, &[&str])] = &[
    ("", &[""]),
    ("Queue", &["Cur", "Max", "Limit"]),
    ("Session rate", &["Cur", "Max", "Limit"]),
    ("Sessions", &["Cur", "Max", "Limit", "Total", "LbTot", "Last"]),
    ("Bytes", &["In", "Out"]),
    ("Denied", &["Req", "Resp"]),
    ("Errors", &["Req", "Conn", "Resp"]),
    ("Warnings", &["Retr", "Redis"]),
    ("Latency", &["p50", "p95", "p99"]),
    ("Server", &["Status", "LastChk", "Wght", "Act", "Bck", "Chk", "Dwn", "Dwntme", "Thrtle"]),
];

/// The page.
pub(super) fn render(snapshot: &Snapshot, options: &Options, view: &View) -> String {
    let mut page = Html::default();
    let title = match &options.node {
        Some(node) => format!("Statistics of {node}"),
        None => "Statistics".to_owned(),
    };
    page.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    page.text(&title);
    page.raw("</title>\n<meta name=\"viewport\" content=\"width=device-width\"><style>\n");
    page.raw(STYLE);
    page.raw("</style></head><body>\n");
    head(&mut page, &snapshot.process, options, &title);
    links(&mut page, options, view);
    if let Some(outcome) = view.outcome {
        let kind = if outcome.is_good() { "good" } else { "bad" };
        let _ = writeln!(page.0, "<p class=\"outcome {kind}\" role=\"status\">{}</p>", outcome.sentence());
    }
    for proxy in proxies(snapshot) {
        table(&mut page, &proxy, &snapshot.process, options);
    }
    page.raw("</body></html>\n");
    page.0
}

/// Text in the making.
#[derive(Default)]
struct Html(String);

impl Html {
    fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
    }

    fn cell(&mut self, text: impl AsRef<str>) {
        self.raw("<td>");
        self.text(text.as_ref());
        self.raw("</td>");
    }

    fn word(&mut self, text: &str) {
        self.raw("<td class=\"word\">");
        self.text(text);
        self.raw("</td>");
    }

    /// A cell that tells more when pointed at.
    fn told(&mut self, text: impl AsRef<str>, more: &str) {
        self.raw("<td title=\"");
        self.text(more);
        self.raw("\">");
        self.text(text.as_ref());
        self.raw("</td>");
    }

    fn cells<const N: usize>(&mut self, cells: [String; N]) {
        cells.into_iter().for_each(|cell| self.cell(cell));
    }
}

fn head(page: &mut Html, process: &Process, options: &Options, title: &str) {
    page.raw("<header><h1>");
    page.text(title);
    page.raw("</h1>\n");
    if let Some(description) = &options.description {
        page.raw("<p>");
        page.text(description);
        page.raw("</p>\n");
    }
    let connections = &process.connections;
    let bound = |bound: u64| if bound == 0 { "no limit".to_owned() } else { number(bound) };
    let mut facts = Vec::new();
    if !options.hide_version {
        facts.push(("version", format!("Weir {}", process.version)));
    }
    facts.extend([
        ("process", format!("pid {}, {} workers, {}", process.pid, process.workers, process.driver)),
        ("uptime", duration(process.uptime_ms / 1000)),
        (
            "connections",
            format!(
                "{} now, {} at most, limit {}, {}/s",
                number(connections.active),
                number(connections.peak),
                bound(process.max_connections),
                number(process.rates.connections)
            ),
        ),
        ("requests", format!("{} in all, {}/s", number(process.requests), number(process.rates.requests))),
        (
            "resources",
            format!(
                "{} MB of memory, {} of {} descriptors",
                number(process.resident_bytes >> 20),
                number(process.descriptors),
                number(process.descriptor_limit)
            ),
        ),
        (
            "configuration",
            format!("number {}, {} changes refused", process.plan, number(process.reloads_failed)),
        ),
    ]);
    if process.stopping {
        facts.push(("state", "draining before the end".to_owned()));
    }
    page.raw("<dl>");
    for (label, value) in facts {
        let _ = write!(page.0, "<dt>{label}</dt><dd>");
        page.text(&value);
        page.raw("</dd>");
    }
    page.raw("</dl>\n");
    page.raw(
        "<p class=\"legend\"><span style=\"background:var(--up)\">up</span><span style=\"background:var(--soon)\">up, \
         going down</span><span style=\"background:var(--rise)\">down, going up</span><span style=\"background:var(--down)\">down</span><span style=\"background:var(--off)\">\
         maintenance or drained</span><span style=\"background:var(--none)\">not checked</span></p></header>\n",
    );
}

fn links(page: &mut Html, options: &Options, view: &View) {
    let scope = if view.scope.is_empty() { String::new() } else { format!("?scope={}", view.scope) };
    let down = if view.hide_down { "" } else { ";up" };
    let refresh = if view.no_refresh { "" } else { ";norefresh" };
    let all = [
        ("Refresh now", String::new()),
        (if view.hide_down { "Show all servers" } else { "Hide servers that are down" }, down.to_owned()),
        (if view.no_refresh { "Refresh by itself" } else { "Do not refresh" }, refresh.to_owned()),
        ("CSV", ";csv;norefresh".to_owned()),
        ("JSON", ";json;norefresh".to_owned()),
    ];
    page.raw("<nav>");
    for (label, words) in all {
        page.raw("<a href=\"");
        page.text(&format!("{}{words}{scope}", options.uri));
        page.raw("\">");
        page.text(label);
        page.raw("</a>");
    }
    page.raw("<form action=\"");
    page.text(&options.uri);
    page.raw("\"><label>Scope <input name=\"scope\" value=\"");
    page.text(&view.scope);
    page.raw("\"></label></form></nav>\n");
}

fn table(page: &mut Html, proxy: &Proxy<'_>, process: &Process, options: &Options) {
    let (name, mode) = match (proxy.site, proxy.pool) {
        (Some(site), _) => (&site.name, &site.mode),
        (None, Some(pool)) => (&pool.name, &pool.mode),
        (None, None) => return,
    };
    page.raw("<h2 id=\"");
    page.text(name);
    page.raw("\">");
    page.text(name);
    page.raw(" <small>");
    page.text(mode);
    if let Some(pool) = proxy.pool {
        page.text(&format!(", {}", pool.balance));
    }
    page.raw("</small></h2>\n");
    let form = proxy.pool.filter(|pool| options.admin && !pool.endpoints.is_empty());
    if form.is_some() {
        page.raw("<form method=\"post\" action=\"");
        page.text(&options.uri);
        page.raw("\">");
    }
    page.raw("<div class=\"wide\"><table><thead><tr>");
    for (group, columns) in GROUPS {
        let _ = write!(page.0, "<th colspan=\"{}\">{group}</th>", columns.len());
    }
    page.raw("</tr><tr>");
    for column in GROUPS.iter().flat_map(|(_, columns)| *columns) {
        let _ = write!(page.0, "<th>{column}</th>");
    }
    page.raw("</tr></thead><tbody>\n");
    if let Some(site) = proxy.site {
        front_row(page, &site.front);
    }
    if let Some(pool) = proxy.pool {
        let rows = Rows { process, options };
        for endpoint in &pool.endpoints {
            rows.endpoint(page, endpoint);
        }
        rows.pool(page, pool);
    }
    page.raw("</tbody></table></div>\n");
    if let Some(pool) = form {
        choices(page, pool);
    }
}

/// The end of a form: what can be done to the servers that are chosen above.
fn choices(page: &mut Html, pool: &Pool) {
    page.raw("<p class=\"act\"><label>Choose the action to perform on the checked servers: <select name=\"action\"><option value=\"\"></option>");
    for (word, label, _) in ACTIONS {
        let _ = write!(page.0, "<option value=\"{word}\">{label}</option>");
    }
    let _ = writeln!(
        page.0,
        "</select></label><input type=\"hidden\" name=\"b\" value=\"#{}\"><button>Apply</button></p></form>",
        pool.number
    );
}

fn front_row(page: &mut Html, front: &Front) {
    page.raw("<tr class=\"front\"><td class=\"word\">Frontend</td>");
    page.cells([String::new(), String::new(), String::new()]);
    page.told(
        number(front.rates.sessions),
        &format!("connections {}/s, requests {}/s", front.rates.connections, front.rates.requests),
    );
    page.told(number(front.rates.sessions_max), &format!("requests {}/s at most", front.rates.requests_max));
    page.cells([bound(Some(front.rate_limit).filter(|&limit| limit > 0))]);
    page.cells([number(front.current), number(front.peak), bound(front.limit)]);
    page.told(number(front.total), &totals(front.requests, &front.responses, Some(front.intercepted)));
    page.cells([String::new(), String::new()]);
    page.cells([bytes(front.bytes_in)]);
    page.told(bytes(front.bytes_out), &compressed(front.compression));
    page.cells([number(front.denied_requests), number(front.denied_responses)]);
    page.cells([number(front.request_errors), String::new(), String::new(), String::new(), String::new()]);
    latency(page, &front.latency);
    page.word("OPEN");
    page.cells([const { String::new() }; 8]);
    page.raw("</tr>\n");
}

struct Rows<'p> {
    process: &'p Process,
    options: &'p Options,
}

impl Rows<'_> {
    fn endpoint(&self, page: &mut Html, endpoint: &Endpoint) {
        let _ = write!(page.0, "<tr class=\"{}\">", class(endpoint));
        if self.options.admin {
            page.raw("<td class=\"word\"><label><input type=\"checkbox\" name=\"s\" value=\"");
            page.text(&endpoint.name);
            page.raw("\"> ");
            page.text(&endpoint.name);
            page.raw("</label></td>");
        } else if self.options.show_legends {
            let cookie =
                endpoint.cookie.as_ref().map(|cookie| format!(", cookie {cookie}")).unwrap_or_default();
            page.told(&endpoint.name, &format!("{}, number {}{cookie}", endpoint.address, endpoint.number));
        } else {
            page.word(&endpoint.name);
        }
        self.back(page, &endpoint.back, endpoint.queue_limit, None);
        page.word(&format!("{} {}", since(endpoint.last_change_ms), status(endpoint)));
        match &endpoint.health {
            Some(health) if !health.last_status.is_empty() => page.told(
                format!("{} in {} ms", health.last_status, health.last_duration_ms),
                &format!("{}; rise {}, fall {}", health.last_text, health.rise, health.fall),
            ),
            _ => page.cell(""),
        }
        let tier = |this: bool| if this { "Y".to_owned() } else { "-".to_owned() };
        page.cells([number(u64::from(endpoint.weight)), tier(!endpoint.backup), tier(endpoint.backup)]);
        match &endpoint.health {
            Some(health) => page.cells([
                number(health.failed),
                number(health.went_down),
                duration(endpoint.downtime_ms / 1000),
            ]),
            None => page.cells([const { String::new() }; 3]),
        }
        page.cell(endpoint.throttle.map_or_else(|| "-".to_owned(), |share| format!("{share}%")));
        page.raw("</tr>\n");
    }

    fn pool(&self, page: &mut Html, pool: &Pool) {
        page.raw("<tr class=\"back\"><td class=\"word\">Backend</td>");
        self.back(page, &pool.back, None, Some(pool.back.denied_requests));
        page.word(&format!("{} {}", since(pool.last_change_ms), if is_up(pool) { "UP" } else { "DOWN" }));
        page.cell("");
        page.cells([number(weight(pool)), number(pool.active() as u64), number(pool.backups() as u64)]);
        page.cells([String::new(), number(pool.went_down), duration(pool.downtime_ms / 1000), String::new()]);
        page.raw("</tr>\n");
    }

    /// The columns from the queue to latency.
    fn back(&self, page: &mut Html, back: &Back, queue_limit: Option<u64>, denied: Option<u64>) {
        page.cells([number(back.queued), number(back.queued_peak), bound(queue_limit)]);
        page.cells([number(back.rates.sessions), number(back.rates.sessions_max), String::new()]);
        page.cells([number(back.current), number(back.peak), bound(back.limit)]);
        page.told(
            number(back.total),
            &format!(
                "{}; {} connections opened, {} used again; averages: queue {:.0} ms, connect {:.0} ms, response {:.0} \
                 ms, total {:.0} ms",
                totals(back.requests, &back.responses, None),
                back.connects,
                back.reuses,
                back.times.queue,
                back.times.connect,
                back.times.response,
                back.times.total
            ),
        );
        page.cell(number(back.balanced));
        let now = self.process.started_unix + self.process.uptime_ms / 1000;
        page.cell(match back.last_unix {
            0 => "?".to_owned(),
            last => duration(now.saturating_sub(last)),
        });
        page.cells([bytes(back.bytes_in), bytes(back.bytes_out)]);
        page.cells([denied.map_or_else(String::new, number), number(back.denied_responses)]);
        page.cells([String::new(), number(back.connect_errors)]);
        page.told(
            number(back.response_errors),
            &format!("transfers cut by clients {}, by servers {}", back.client_aborts, back.server_aborts),
        );
        page.cells([number(back.retries), number(back.redispatches)]);
        latency(page, &back.latency);
    }
}

fn class(endpoint: &Endpoint) -> &'static str {
    match (endpoint.state, &endpoint.health) {
        (EndpointState::Maintenance | EndpointState::Draining, _) => "off",
        (EndpointState::Down, Some(health)) if health.state.contains('/') => "rise",
        (EndpointState::Down, _) => "down",
        (EndpointState::Up, None) => "none",
        (EndpointState::Up, Some(health)) if health.state.contains('/') => "soon",
        (EndpointState::Up, Some(_)) => "up",
    }
}

fn latency(page: &mut Html, latency: &Latency) {
    for micros in [latency.p50_us, latency.p95_us, latency.p99_us] {
        page.cell(if latency.count == 0 { "-".to_owned() } else { short_time(micros) });
    }
}

fn totals(requests: u64, classes: &Classes, intercepted: Option<u64>) -> String {
    let mut text = format!(
        "requests {requests}; 1xx {}, 2xx {}, 3xx {}, 4xx {}, 5xx {}, other {}",
        classes.informational,
        classes.success,
        classes.redirect,
        classes.client_error,
        classes.server_error,
        classes.other
    );
    if let Some(intercepted) = intercepted {
        let _ = write!(text, "; answered here {intercepted}");
    }
    text
}

fn compressed([taken, given, _, answers]: [u64; 4]) -> String {
    format!("compressed: {answers} answers, {} to {}", bytes(taken), bytes(given))
}

fn bound(limit: Option<u64>) -> String {
    limit.map_or_else(|| "-".to_owned(), number)
}

/// A number in groups of three digits.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if value < 10_000 {
        return number(value);
    }
    let mut scaled = value as f64;
    let mut unit = "";
    for name in UNITS {
        if scaled < 1000.0 {
            break;
        }
        scaled /= 1000.0;
        unit = name;
    }
    format!("{scaled:.1} {unit}")
}

/// Two units of a duration in seconds: `3d2h`, `5m04s`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours}h"),
    }
}

fn since(millis: u64) -> String {
    duration(millis / 1000)
}

fn short_time(micros: u64) -> String {
    match micros {
        0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn names_are_escaped() {
        let site = fixtures::site("<script>'\"&", 2);
        let page = render(
            &Snapshot { sites: vec![site], ..Snapshot::default() },
            &Options { uri: "/st".into(), ..Options::default() },
            &View { scope: "\"><b>".into(), ..View::default() },
        );
        assert!(!page.contains("<script>") && !page.contains("\"><b>"), "{page}");
        assert!(page.contains("&lt;script&gt;&#39;&quot;&amp;"));
    }

    #[test]
    fn every_row_has_a_cell_under_every_column() {
        let columns: usize = GROUPS.iter().map(|(_, columns)| columns.len()).sum();
        let mut page = Html::default();
        front_row(&mut page, &Front::default());
        assert_eq!(page.0.matches("<td").count(), columns);
        let (process, options) = (Process::default(), Options::default());
        let rows = Rows { process: &process, options: &options };
        let mut page = Html::default();
        rows.endpoint(&mut page, &fixtures::endpoint("a"));
        assert_eq!(page.0.matches("<td").count(), columns);
    }

    #[test]
    fn a_backend_weighs_what_it_uses() {
        let endpoint = |name: &str, state: EndpointState, weight: u32, backup: bool| Endpoint {
            state,
            weight,
            backup,
            ..fixtures::endpoint(name)
        };
        let endpoints = vec![
            endpoint("up", EndpointState::Up, 10, false),
            endpoint("down", EndpointState::Down, 5, false),
            endpoint("spare", EndpointState::Up, 3, true),
        ];
        let mut pool = fixtures::pool("app", 2, endpoints);
        assert_eq!(weight(&pool), 10);
        let (process, options) = (Process::default(), Options::default());
        let mut page = Html::default();
        Rows { process: &process, options: &options }.pool(&mut page, &pool);
        assert!(page.0.contains("<td>10</td><td>1</td><td>1</td>"), "{}", page.0);
        pool.endpoints[0].state = EndpointState::Down;
        assert_eq!(weight(&pool), 3);
    }

    #[test]
    fn servers_on_their_way_are_told_from_those_that_are_down() {
        let mut endpoint = fixtures::endpoint("a");
        endpoint.state = EndpointState::Down;
        let mut health = endpoint.health.take().unwrap_or_default();
        health.state = "DOWN".into();
        endpoint.health = Some(health.clone());
        assert_eq!(class(&endpoint), "down");
        health.state = "DOWN 1/2".into();
        endpoint.health = Some(health);
        assert_eq!(class(&endpoint), "rise");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((bytes(9_999), bytes(1_500_000)), ("9\u{202f}999".to_owned(), "1.5 MB".to_owned()));
        assert_eq!(
            [59, 61, 3_660, 90_000].map(duration),
            ["59s", "1m01s", "1h01m", "1d1h"].map(str::to_owned)
        );
        assert_eq!(
            [999, 1_500, 2_000_000].map(short_time),
            ["999 µs", "1.5 ms", "2.00 s"].map(str::to_owned)
        );
    }
}
