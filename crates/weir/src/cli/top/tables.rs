//! Tables of what happened between two documents.
//!
//! Owns: rates, shares and quantiles of the last seconds; which columns a table has, how figures are written.
//! Never: draws.
//! Driven by: `draw`, for a screen or as text.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::document::{Classes, Document, Endpoint, Finished, Pool, Steps};

/// The last documents.
pub(super) struct History {
    documents: VecDeque<Box<Document>>,
    window: Duration,
}

impl History {
    /// None yet; what happened is told of the last `window`.
    pub(super) fn new(window: Duration) -> Self {
        Self { documents: VecDeque::new(), window }
    }

    /// Takes the next one.
    pub(super) fn take(&mut self, document: Box<Document>) {
        let of = |one: &Document| (one.process.pid, one.process.started_unix);
        // Another process counts anew.
        if self.documents.back().is_some_and(|last| of(last) != of(&document)) {
            self.documents.clear();
        }
        self.documents.push_back(document);
        let window = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        while self.documents.len() > 2 && self.age(1) >= window {
            self.documents.pop_front();
        }
    }

    /// How much older one is than the last, in milliseconds.
    fn age(&self, at: usize) -> u64 {
        let time = |at: Option<&Box<Document>>| at.map_or(0, |one| one.now_unix_ms);
        time(self.documents.back()).saturating_sub(time(self.documents.get(at)))
    }

    /// The last one, the one that it is compared with, and the seconds between them.
    pub(super) fn ends(&self) -> Option<(&Document, &Document, f64)> {
        Some((self.documents.back()?, self.documents.front()?, self.age(0) as f64 / 1000.0))
    }
}

/// A way to order rows: text, or a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Text(String),
    Figure(f64),
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) key: Key,
    pub(super) mood: Mood,
}

/// What a figure means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Of its cells; what grows has none.
    pub(super) width: Option<u16>,
    pub(super) right: bool,
}

/// A row.
pub(super) struct Row {
    /// What it is about: a pool's name leads into it.
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
}

/// A table.
pub(super) struct View {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// What is said where there are no rows.
    pub(super) empty: &'static str,
}

/// What a table is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Pools,
    Pool(String),
    Sites,
    Routes,
    InFlight,
    Slowest,
    Failed,
}

fn text(text: &str) -> Cell {
    Cell { text: text.to_owned(), key: Key::Text(text.to_lowercase()), mood: Mood::Plain }
}

fn figure(value: f64, write: impl Fn(f64) -> String) -> Cell {
    Cell { text: write(value), key: Key::Figure(value), mood: Mood::Plain }
}

fn bad_if_any(cell: Cell) -> Cell {
    let any = matches!(cell.key, Key::Figure(value) if value > 0.0);
    Cell { mood: if any { Mood::Bad } else { Mood::Plain }, ..cell }
}

/// A quantile of steps, in microseconds: the middle of its step.
pub(super) fn quantile(steps: &[(u64, u64)], of_a_thousand: u64) -> Option<f64> {
    let all: u64 = steps.iter().map(|(_, count)| count).sum();
    let rank = (all * of_a_thousand).div_ceil(1000).max(1);
    let mut seen = 0;
    let found = steps.iter().find(|(_, count)| {
        seen += count;
        seen >= rank
    })?;
    // A step is at most a sixteenth as wide as what is in it.
    Some(if found.0 < 32 { found.0 as f64 } else { found.0 as f64 * (1.0 - 1.0 / 48.0) })
}

/// What of `now` came after `before`.
pub(super) fn since(now: &Steps, before: Option<&Steps>) -> Steps {
    let before: HashMap<u64, u64> = before.into_iter().flatten().copied().collect();
    let left = now.iter().map(|&(bound, count)| {
        let was = before.get(&bound).copied().unwrap_or(0);
        (bound, if count < was { count } else { count - was })
    });
    left.filter(|(_, count)| *count > 0).collect()
}

fn latency(now: &Steps, before: Option<&Steps>, of_a_thousand: u64) -> Cell {
    match quantile(&since(now, before), of_a_thousand) {
        Some(micros) => figure(micros, duration),
        None => Cell { text: "-".into(), key: Key::Figure(-1.0), mood: Mood::Plain },
    }
}

/// A counter's growth.
fn grown(now: u64, before: Option<u64>) -> f64 {
    let before = before.unwrap_or(0);
    (if now < before { now } else { now - before }) as f64
}

fn per_second(now: u64, before: Option<u64>, seconds: f64) -> f64 {
    if seconds > 0.0 { grown(now, before) / seconds } else { 0.0 }
}

fn all(classes: &Classes) -> u64 {
    classes.values().sum()
}

fn class(classes: &Classes, name: &str) -> u64 {
    classes.get(name).copied().unwrap_or(0)
}

/// Figures of the process, of the last seconds.
pub(super) struct Summary {
    pub(super) requests: f64,
    pub(super) failed: f64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) sent: f64,
}

impl Summary {
    pub(super) fn of(history: &History) -> Option<Self> {
        let (now, before, seconds) = history.ends()?;
        let old: HashMap<&str, _> = before.sites.iter().map(|site| (site.name.as_str(), site)).collect();
        let mut joined: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        let mut sum = Self { requests: 0.0, failed: 0.0, p50: None, p99: None, sent: 0.0 };
        for site in &now.sites {
            let was = old.get(site.name.as_str());
            let rate = |now: u64, before: Option<u64>| per_second(now, before, seconds);
            sum.requests += rate(all(&site.responses), was.map(|was| all(&was.responses)));
            sum.failed += rate(class(&site.responses, "5xx"), was.map(|was| class(&was.responses, "5xx")));
            sum.sent += rate(site.bytes_out, was.map(|was| was.bytes_out));
            for (bound, count) in since(&site.latency.total.steps, was.map(|was| &was.latency.total.steps)) {
                *joined.entry(bound).or_default() += count;
            }
        }
        let steps: Steps = joined.into_iter().collect();
        (sum.p50, sum.p99) = (quantile(&steps, 500), quantile(&steps, 990));
        Some(sum)
    }
}

const fn column(title: &'static str, width: u16) -> Column {
    Column { title, width: Some(width), right: true }
}

const fn words(title: &'static str, width: u16) -> Column {
    Column { title, width: Some(width), right: false }
}

const fn growing(title: &'static str) -> Column {
    Column { title, width: None, right: false }
}

impl View {
    /// The table of this moment, its rows in the document's order.
    pub(super) fn of(history: &History, shown: &Shown) -> Self {
        let Some((now, before, seconds)) = history.ends() else {
            return Self {
                title: String::new(),
                columns: vec![growing("")],
                rows: Vec::new(),
                empty: "no answer yet",
            };
        };
        match shown {
            Shown::Pools => pools(now, before, seconds),
            Shown::Pool(name) => endpoints(now, before, seconds, name),
            Shown::Sites => sites(now, before, seconds),
            Shown::Routes => routes(now, before, seconds),
            Shown::InFlight => in_flight(now),
            Shown::Slowest => finished(now, &now.requests.slowest, false),
            Shown::Failed => finished(now, &now.requests.failed, true),
        }
    }
}

fn pools(now: &Document, before: &Document, seconds: f64) -> View {
    let old: HashMap<&str, &Pool> = before.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let row = |pool: &Pool| {
        let was = old.get(pool.name.as_str());
        let rate = |now: u64, before: Option<u64>| figure(per_second(now, before, seconds), rate);
        let errors = |pool: &Pool| pool.connect_errors + pool.response_errors + class(&pool.responses, "5xx");
        let up = format!("{}/{}", pool.active + pool.backups, pool.endpoint_count);
        let mood = match pool.active + pool.backups {
            0 => Mood::Bad,
            up if up < pool.endpoint_count => Mood::Warn,
            _ => Mood::Good,
        };
        let head = |pool: &Pool| pool.latency.first_byte.steps.clone();
        let before_head = was.map(|was| head(was));
        Row {
            name: pool.name.clone(),
            cells: vec![
                text(&pool.name),
                Cell { mood, key: Key::Figure((pool.active + pool.backups) as f64), ..text(&up) },
                rate(all(&pool.responses), was.map(|was| all(&was.responses))),
                bad_if_any(rate(errors(pool), was.map(|was| errors(was)))),
                latency(&head(pool), before_head.as_ref(), 500),
                latency(&head(pool), before_head.as_ref(), 950),
                latency(&head(pool), before_head.as_ref(), 990),
                figure(pool.in_flight as f64, number),
                figure(pool.queued as f64, number),
            ],
        }
    };
    View {
        title: "Pools".into(),
        columns: vec![
            growing("Pool"),
            column("Up", 7),
            column("Req/s", 8),
            column("Err/s", 7),
            column("p50", 8),
            column("p95", 8),
            column("p99", 8),
            column("Flying", 7),
            column("Queued", 7),
        ],
        rows: now.pools.iter().map(row).collect(),
        empty: "this configuration has no pools",
    }
}

fn endpoints(now: &Document, before: &Document, seconds: f64, name: &str) -> View {
    let of = |document: &'_ Document| document.pools.iter().position(|pool| pool.name == name);
    let here: &[Endpoint] = of(now).map_or(&[], |at| &now.pools[at].endpoints);
    let there: &[Endpoint] = of(before).map_or(&[], |at| &before.pools[at].endpoints);
    let key = |one: &Endpoint| (one.name.clone(), one.address.clone());
    let old: HashMap<_, &Endpoint> = there.iter().map(|one| (key(one), one)).collect();
    let given = |one: &Endpoint| grown(one.attempts, old.get(&key(one)).map(|was| was.attempts));
    let sum: f64 = here.iter().map(given).sum();
    let row = |one: &Endpoint| {
        let was = old.get(&key(one));
        let errors = |one: &Endpoint| one.connect_errors + one.response_errors + class(&one.responses, "5xx");
        let mood = match one.state.as_str() {
            "up" => Mood::Good,
            "down" => Mood::Bad,
            "draining" => Mood::Warn,
            _ => Mood::Plain,
        };
        let check = match &one.check {
            None => "-".to_owned(),
            Some(check) => match check.last_code {
                Some(code) => format!("{} {code}", check.last_status),
                None => check.last_status.clone(),
            },
        };
        let head = &one.latency.first_byte.steps;
        let before_head = was.map(|was| &was.latency.first_byte.steps);
        let share = if sum > 0.0 { given(one) / sum } else { 0.0 };
        Row {
            name: one.name.clone(),
            cells: vec![
                text(&one.name),
                Cell { mood, ..text(if one.state == "maintenance" { "disabled" } else { &one.state }) },
                text(&check),
                figure(one.weight as f64, number),
                figure(share, percent),
                figure(per_second(one.attempts, was.map(|was| was.attempts), seconds), rate),
                bad_if_any(figure(per_second(errors(one), was.map(|was| errors(was)), seconds), rate)),
                latency(head, before_head, 500),
                latency(head, before_head, 990),
                figure(one.in_flight as f64, number),
            ],
        }
    };
    View {
        title: format!("Endpoints of {name}"),
        columns: vec![
            growing("Endpoint"),
            words("State", 8),
            words("Check", 8),
            column("Wght", 4),
            column("Share", 5),
            column("Req/s", 6),
            column("Err/s", 5),
            column("p50", 7),
            column("p99", 7),
            column("Fly", 4),
        ],
        rows: here.iter().map(row).collect(),
        empty: "no endpoints are told of this pool",
    }
}

fn sites(now: &Document, before: &Document, seconds: f64) -> View {
    let old: HashMap<&str, _> = before.sites.iter().map(|site| (site.name.as_str(), site)).collect();
    let row = |site: &super::document::Site| {
        let was = old.get(site.name.as_str());
        let mut cells = vec![text(if site.name.is_empty() { "(without a name)" } else { &site.name })];
        let of = was.map(|was| (&was.responses, &was.latency, was.bytes_out));
        cells.extend(front(&site.responses, &site.latency, site.bytes_out, of, seconds));
        cells.push(figure(site.connections as f64, number));
        Row { name: site.name.clone(), cells }
    };
    let mut columns = vec![growing("Site")];
    columns.extend(FRONT);
    columns.push(column("Conns", 6));
    View {
        title: "Sites".into(),
        columns,
        rows: now.sites.iter().map(row).collect(),
        empty: "this configuration has no sites",
    }
}

fn routes(now: &Document, before: &Document, seconds: f64) -> View {
    let name = |route: &super::document::Route| format!("{} {}", route.site, route.name).trim().to_owned();
    let old: HashMap<String, _> = before.routes.iter().map(|route| (name(route), route)).collect();
    let row = |route: &super::document::Route| {
        let name = name(route);
        let was = old.get(&name).map(|was| (&was.responses, &was.latency, was.bytes_out));
        let mut cells = vec![text(&name)];
        cells.extend(front(&route.responses, &route.latency, route.bytes_out, was, seconds));
        Row { name, cells }
    };
    let mut columns = vec![growing("Site and route")];
    columns.extend(FRONT);
    View {
        title: "Routes".into(),
        columns,
        rows: now.routes.iter().map(row).collect(),
        empty: "no route has had a request yet",
    }
}

const FRONT: [Column; 7] = [
    column("Req/s", 8),
    column("4xx/s", 7),
    column("5xx/s", 7),
    column("p50", 8),
    column("p95", 8),
    column("p99", 8),
    column("Sent/s", 8),
];

fn front(
    responses: &Classes,
    latencies: &super::document::Latency,
    sent: u64,
    was: Option<(&Classes, &super::document::Latency, u64)>,
    seconds: f64,
) -> [Cell; 7] {
    let growth = |now: u64, before: Option<u64>| figure(per_second(now, before, seconds), rate);
    let of = |name: &str| growth(class(responses, name), was.map(|was| class(was.0, name)));
    let total = &latencies.total.steps;
    let before = was.map(|was| &was.1.total.steps);
    [
        growth(all(responses), was.map(|was| all(was.0))),
        of("4xx"),
        bad_if_any(of("5xx")),
        latency(total, before, 500),
        latency(total, before, 950),
        latency(total, before, 990),
        figure(per_second(sent, was.map(|was| was.2), seconds), bytes),
    ]
}

fn request(asked: &super::document::Asked) -> Cell {
    match asked.method.as_str() {
        "" => text("session"),
        method => text(&format!("{method} {}", printable(&asked.target))),
    }
}

/// What a client wrote, without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn in_flight(now: &Document) -> View {
    let row = |one: &super::document::InFlight| Row {
        name: String::new(),
        cells: vec![
            figure(one.age_us as f64, duration),
            text(&one.stage),
            text(&one.asked.client),
            text(&one.asked.endpoint),
            request(&one.asked),
        ],
    };
    View {
        title: format!("In flight: {}", now.requests.total),
        columns: vec![
            column("Age", 8),
            words("Stage", 12),
            words("Client", 21),
            words("Endpoint", 15),
            growing("Request"),
        ],
        rows: now.requests.in_flight.iter().map(row).collect(),
        empty: "nothing is being served at this moment",
    }
}

fn finished(now: &Document, all: &[Finished], failed: bool) -> View {
    let row = |one: &Finished| {
        let ago = now.now_unix_ms.saturating_sub(one.ended_unix_ms) as f64 * 1000.0;
        let status = if one.status == 0 { "-".to_owned() } else { one.status.to_string() };
        let mood = if one.status >= 500 || one.status == 0 { Mood::Bad } else { Mood::Plain };
        Row {
            name: String::new(),
            cells: vec![
                figure(one.took_us as f64, duration),
                figure(ago, duration),
                Cell { mood, ..text(&status) },
                text(&one.ending),
                text(&one.asked.client),
                text(&one.asked.endpoint),
                request(&one.asked),
            ],
        }
    };
    View {
        title: if failed { "Failed".into() } else { "Slowest of five minutes".into() },
        columns: vec![
            column("Took", 8),
            column("Ago", 8),
            column("Code", 4),
            words("End", 3),
            words("Client", 21),
            words("Endpoint", 15),
            growing("Request"),
        ],
        rows: all.iter().map(row).collect(),
        empty: if failed { "no request has failed lately" } else { "no request has ended in five minutes" },
    }
}

/// A count.
pub(super) fn number(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e5 => format!("{:.0}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

/// Events a second.
pub(super) fn rate(value: f64) -> String {
    if value > 0.0 && value < 10.0 { format!("{value:.1}") } else { number(value) }
}

/// A share.
pub(super) fn percent(value: f64) -> String {
    format!("{:.0}%", value * 100.0)
}

/// Bytes.
pub(super) fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1}GB", v / 1e9),
        v if v >= 1e6 => format!("{:.1}MB", v / 1e6),
        v if v >= 1e3 => format!("{:.1}KB", v / 1e3),
        v => format!("{v:.0}B"),
    }
}

/// Microseconds.
pub(super) fn duration(micros: f64) -> String {
    match micros {
        v if v < 1e3 => format!("{v:.0}us"),
        v if v < 1e5 => format!("{:.1}ms", v / 1e3),
        v if v < 1e6 => format!("{:.0}ms", v / 1e3),
        v if v < 6e7 => format!("{:.1}s", v / 1e6),
        v if v < 3.6e9 => format!("{:.0}min", v / 6e7),
        v => format!("{:.1}h", v / 3.6e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_came_between() {
        let now = vec![(100, 10), (200, 30), (1000, 3)];
        let before = vec![(100, 10), (200, 10)];
        assert_eq!(since(&now, Some(&before)), [(200, 20), (1000, 3)]);
        assert_eq!(since(&vec![(100, 2)], Some(&vec![(100, 5)])), [(100, 2)], "it began anew");
        assert!(quantile(&since(&now, Some(&before)), 500).is_some_and(|p50| (190.0..=200.0).contains(&p50)));
        assert!(quantile(&now, 990).is_some_and(|p99| p99 > 900.0));
        assert_eq!(quantile(&[], 500), None);
    }

    #[test]
    fn a_window_slides_and_another_process_begins_anew() {
        let at = |pid, now_unix_ms| {
            let mut one = Document { now_unix_ms, ..Document::default() };
            one.process.pid = pid;
            Box::new(one)
        };
        let mut history = History::new(Duration::from_secs(2));
        for second in 0..10 {
            history.take(at(1, second * 1000));
        }
        assert_eq!(history.ends().map(|ends| ends.2), Some(2.0));
        history.take(at(2, 20_000));
        assert_eq!(history.ends().map(|ends| ends.2), Some(0.0));
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(printable("/a\u{1b}[2Jb\u{9b}"), "/a\u{fffd}[2Jb\u{fffd}");
    }
}
