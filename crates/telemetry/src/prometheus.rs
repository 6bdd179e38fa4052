//! The Prometheus text of a snapshot.
//!
//! Owns: metric names, labels, the exposition format 0.0.4.
//! Never: counts anything; it is a function of the snapshot.
//! Driven by: `admin`, at `/metrics`.
//! Why: written by hand because every number is already summed: a metrics library would keep a second set.

use std::fmt::Write;

use crate::protobuf::Families;
use weir_control::snapshot::{Back, Classes, Endpoint, EndpointState, Front, Latency, Pool, Snapshot};

/// The content type to answer with.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page in the making.
#[derive(Debug)]
enum Text {
    Text(String),
    Protobuf(Families),
}

/// A value: counts are written to the last digit.
#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// Begins a metric. Its samples must follow at once.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        match self {
            Self::Text(text) => drop(write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n")),
            Self::Protobuf(families) => families.begin(name, kind, help),
        }
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Into<Value>) {
        match self {
            Self::Text(text) => sample(text, name, labels, None, value.into()),
            Self::Protobuf(families) => families.sample(
                labels,
                match value.into() {
                    Value::Whole(value) => value as f64,
                    Value::Real(value) => value,
                },
            ),
        }
    }

    fn histogram(&mut self, name: &str, labels: Labels<'_>, latency: &Latency) {
        let text = match self {
            Self::Text(text) => text,
            Self::Protobuf(families) => return families.histogram(labels, latency),
        };
        let bucket = format!("{name}_bucket");
        for &(bound_us, count) in &latency.buckets {
            sample(text, &bucket, labels, Some(&(bound_us as f64 / 1e6).to_string()), count.into());
        }
        sample(text, &bucket, labels, Some("+Inf"), latency.count.into());
        sample(text, &format!("{name}_sum"), labels, None, (latency.sum_us as f64 / 1e6).into());
        sample(text, &format!("{name}_count"), labels, None, latency.count.into());
    }
}

/// A line of the text; `bound` is a bucket's.
fn sample(text: &mut String, name: &str, labels: Labels<'_>, bound: Option<&str>, value: Value) {
    text.push_str(name);
    let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
    let mut separator = '{';
    for (name, value) in all {
        text.push(separator);
        separator = ',';
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{name}=\"");
        escape_into(text, value);
        text.push('"');
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn escape_into(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

fn classes(classes: &Classes) -> [(&'static str, u64); 6] {
    [
        ("1xx", classes.informational),
        ("2xx", classes.success),
        ("3xx", classes.redirect),
        ("4xx", classes.client_error),
        ("5xx", classes.server_error),
        ("other", classes.other),
    ]
}

/// The text of a snapshot.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Text::Text(String::new());
    fill(&mut text, snapshot);
    match text {
        Text::Text(text) => text,
        Text::Protobuf(_) => String::new(),
    }
}

/// A snapshot in protocol buffers, its histograms native as well if their steps are in it.
pub fn render_protobuf(snapshot: &Snapshot) -> Vec<u8> {
    let mut text = Text::Protobuf(Families::default());
    fill(&mut text, snapshot);
    match text {
        Text::Protobuf(families) => families.finish(),
        Text::Text(text) => text.into_bytes(),
    }
}

fn fill(text: &mut Text, snapshot: &Snapshot) {
    process(text, snapshot);
    let listeners: Vec<_> =
        snapshot.listeners.iter().map(|l| (vec![("listener", l.name.as_str())], &l.front)).collect();
    let sites: Vec<_> = snapshot.sites.iter().map(|s| (vec![("site", s.name.as_str())], &s.front)).collect();
    fronts(text, "listener", &listeners);
    fronts(text, "site", &sites);
    let pools: Vec<_> = snapshot.pools.iter().map(|p| (vec![("pool", p.name.as_str())], &p.back)).collect();
    let each = snapshot.pools.iter().flat_map(|p| p.endpoints.iter().map(move |e| (p, e)));
    let endpoints: Vec<_> = each.map(|(p, e)| (endpoint_labels(p, e).to_vec(), &e.back)).collect();
    backs(text, "pool", &pools);
    backs(text, "endpoint", &endpoints);
    states(text, snapshot);
    issued(text, snapshot);
}

/// Whether an Accept field asks for protocol buffers rather than for text, as Prometheus' own does where it takes native
/// histograms.
pub fn wants_protobuf(accept: &[u8]) -> bool {
    let accept = String::from_utf8_lossy(accept);
    let weight = |wanted: &dyn Fn(&str, &[&str]) -> bool| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next()?;
            let parameters: Vec<&str> = parts.collect();
            let quality = parameters.iter().find_map(|one| one.strip_prefix("q=")?.parse::<f32>().ok());
            wanted(kind, &parameters).then_some(quality.unwrap_or(1.0))
        });
        ranges.fold(0.0, f32::max)
    };
    let protobuf = weight(&|kind, parameters| {
        kind == "application/vnd.google.protobuf"
            && parameters.contains(&"proto=io.prometheus.client.MetricFamily")
            && parameters.contains(&"encoding=delimited")
    });
    protobuf > 0.0 && protobuf >= weight(&|kind, _| matches!(kind, "text/plain" | "text/*" | "*/*"))
}

fn process(text: &mut Text, snapshot: &Snapshot) {
    let process = &snapshot.process;
    text.family("weir_info", "gauge", "Version and I/O driver.");
    text.sample("weir_info", &[("version", &process.version), ("driver", &process.driver)], 1_u64);
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        text.family(name, kind, help);
        text.sample(name, &[], value);
    };
    if let Some(pays) = process.sendfile_pays {
        let help = "1: files of 60 to 128 KB go out by sendfile; 0: by copies, which are cheaper here.";
        one("weir_sendfile_pays", "gauge", help, u64::from(pays));
    }
    one("weir_start_time_seconds", "gauge", "Start, in seconds since 1970.", process.started_unix);
    one("weir_workers", "gauge", "Workers running.", u64::from(process.workers));
    one("weir_plan_version", "gauge", "Number of the configuration that runs.", process.plan);
    one("weir_stopping", "gauge", "1 while draining before the end.", u64::from(process.stopping));
    one("weir_last_reload_timestamp_seconds", "gauge", "Last change accepted.", process.last_reload_unix);
    let connections = &process.connections;
    one("weir_connections_accepted_total", "counter", "Client connections accepted.", connections.accepted);
    one("weir_connections_handled_total", "counter", "Of those, not dropped at once.", connections.handled);
    one("weir_connections_max", "gauge", "Bound on client connections; 0: none.", process.max_connections);
    one("weir_requests_total", "counter", "Requests begun.", process.requests);
    one(
        "weir_plans",
        "gauge",
        "Configurations in memory: what runs, and what older requests need.",
        process.plans,
    );
    one("weir_panics_total", "counter", "Panics that cost a connection.", process.panics);
    one(
        "weir_worker_deaths_total",
        "counter",
        "Panics that cost a worker its connections.",
        process.worker_deaths,
    );
    one("weir_memory_in_use_bytes", "gauge", "Memory that counts against the budget.", process.memory_in_use);
    one("weir_memory_budget_bytes", "gauge", "Bound on memory in use; 0: none.", process.memory_budget);
    one("weir_requests_shed_total", "counter", "Requests turned away for want of memory.", process.shed);
    let spans = [process.spans_exported, process.spans_dropped, process.spans_failed];
    if spans.iter().any(|count| *count > 0) {
        one("weir_spans_exported_total", "counter", "Spans that a collector took.", spans[0]);
        one("weir_spans_dropped_total", "counter", "Spans that were dropped, too many waiting.", spans[1]);
        one("weir_spans_failed_total", "counter", "Spans that the collector did not take.", spans[2]);
    }
    one("weir_log_lines_dropped_total", "counter", "Log lines that no sink took.", process.dropped_logs);
    one("weir_resident_memory_bytes", "gauge", "Resident memory.", process.resident_bytes);
    one("weir_open_fds", "gauge", "Descriptors open.", process.descriptors);
    one("weir_max_fds", "gauge", "Bound on descriptors.", process.descriptor_limit);
    one("weir_tls_connections", "gauge", "TLS connections with clients open.", process.tls.current);
    let mut several = |name: &str, kind: &str, help: &str, label: &str, values: &[(&str, u64)]| {
        text.family(name, kind, help);
        for (value, count) in values {
            text.sample(name, &[(label, value)], *count);
        }
    };
    several(
        "weir_connections",
        "gauge",
        "Client connections open, by what they do.",
        "state",
        &[
            ("active", connections.active),
            ("reading", connections.reading),
            ("writing", connections.writing),
            ("waiting", connections.waiting),
        ],
    );
    several(
        "weir_reloads_total",
        "counter",
        "Configuration changes.",
        "result",
        &[("accepted", process.reloads), ("refused", process.reloads_failed)],
    );
    several(
        "weir_bytes_total",
        "counter",
        "Bytes on the wire, TLS excluded.",
        "direction",
        &[
            ("client_in", process.bytes.client_in),
            ("client_out", process.bytes.client_out),
            ("upstream_in", process.bytes.upstream_in),
            ("upstream_out", process.bytes.upstream_out),
        ],
    );
    several(
        "weir_tls_handshakes_total",
        "counter",
        "TLS handshakes with clients.",
        "result",
        &[("full", process.tls.full), ("resumed", process.tls.resumed), ("failed", process.tls.failed)],
    );
}

/// Certificates that authorities issue.
fn issued(text: &mut Text, snapshot: &Snapshot) {
    if snapshot.issued.is_empty() {
        return;
    }
    let name = "weir_issued_certificate_expiry_timestamp_seconds";
    text.family(name, "gauge", "When the certificate that is shown is over, in seconds since 1970.");
    for one in &snapshot.issued {
        if let Some(expires) = one.expires {
            text.sample(name, &[("certificate", &one.name)], u64::try_from(expires).unwrap_or(0));
        }
    }
    let name = "weir_issued_certificate_placeholder";
    text.family(name, "gauge", "1 while none was issued yet.");
    for one in &snapshot.issued {
        text.sample(name, &[("certificate", &one.name)], u64::from(one.placeholder));
    }
    let name = "weir_certificate_orders_total";
    text.family(name, "counter", "Orders of certificates that ended.");
    for one in &snapshot.issued {
        for (outcome, count) in [("issued", one.issued), ("failed", one.failed)] {
            text.sample(name, &[("certificate", &one.name), ("outcome", outcome)], count);
        }
    }
}

fn endpoint_labels<'a>(pool: &'a Pool, endpoint: &'a Endpoint) -> [(&'static str, &'a str); 3] {
    [("pool", &pool.name), ("endpoint", &endpoint.name), ("address", &endpoint.address)]
}

type Row<'a, T> = (Vec<(&'a str, &'a str)>, &'a T);

/// One metric over all rows.
fn column<T>(
    text: &mut Text,
    rows: &[Row<'_, T>],
    (name, kind, help): (&str, &str, &str),
    value: impl Fn(&T) -> u64,
) {
    text.family(name, kind, help);
    for (labels, row) in rows {
        text.sample(name, labels, value(row));
    }
}

/// One metric with a class label over all rows.
fn class_column<T>(
    text: &mut Text,
    rows: &[Row<'_, T>],
    name: &str,
    help: &str,
    value: impl Fn(&T) -> [(&'static str, u64); 6],
) {
    text.family(name, "counter", help);
    for (labels, row) in rows {
        for (class, count) in value(row) {
            let labels: Vec<_> = labels.iter().copied().chain([("class", class)]).collect();
            text.sample(name, &labels, count);
        }
    }
}

fn latency_column<T>(
    text: &mut Text,
    rows: &[Row<'_, T>],
    name: &str,
    help: &str,
    value: impl Fn(&T) -> &Latency,
) {
    text.family(name, "histogram", help);
    for (labels, row) in rows.iter().filter(|(_, row)| value(row).count > 0) {
        text.histogram(name, labels, value(row));
    }
}

fn fronts(text: &mut Text, what: &str, rows: &[Row<'_, Front>]) {
    if rows.is_empty() {
        return;
    }
    let name = |metric: &str| format!("weir_{what}_{metric}");
    let c = "counter";
    column(text, rows, (&name("connections"), "gauge", "Connections open."), |f| f.current);
    column(text, rows, (&name("connections_total"), c, "Connections."), |f| f.total);
    column(text, rows, (&name("requests_received_total"), c, "Requests begun."), |f| f.requests);
    class_column(text, rows, &name("requests_total"), "Requests answered, by class of status.", |f| {
        classes(&f.responses)
    });
    column(text, rows, (&name("received_bytes_total"), c, "Bytes from clients."), |f| f.bytes_in);
    column(text, rows, (&name("sent_bytes_total"), c, "Bytes to clients."), |f| f.bytes_out);
    column(text, rows, (&name("request_errors_total"), c, "Bad or aborted requests."), |f| f.request_errors);
    column(text, rows, (&name("denied_requests_total"), c, "Requests denied."), |f| f.denied_requests);
    latency_column(text, rows, &name("request_duration_seconds"), "Duration of exchanges.", |f| &f.latency);
    if what == "listener" {
        return;
    }
    let help = "From a request's first byte to the head of the response.";
    latency_column(text, rows, &name("first_byte_duration_seconds"), help, |f| &f.first_byte);
    let help = "From the head of the response to its end.";
    latency_column(text, rows, &name("transfer_duration_seconds"), help, |f| &f.transfer);
}

fn backs(text: &mut Text, what: &str, rows: &[Row<'_, Back>]) {
    if rows.is_empty() {
        return;
    }
    let name = |metric: &str| format!("weir_{what}_{metric}");
    let c = "counter";
    column(text, rows, (&name("in_flight"), "gauge", "Exchanges in flight."), |b| b.current);
    column(text, rows, (&name("queued"), "gauge", "Exchanges waiting for a slot."), |b| b.queued);
    column(text, rows, (&name("attempts_total"), c, "Attempts."), |b| b.total);
    class_column(text, rows, &name("requests_total"), "Requests answered, by class of status.", |b| {
        classes(&b.responses)
    });
    column(text, rows, (&name("sent_bytes_total"), c, "Bytes to endpoints."), |b| b.bytes_in);
    column(text, rows, (&name("received_bytes_total"), c, "Bytes from endpoints."), |b| b.bytes_out);
    column(text, rows, (&name("connects_total"), c, "Connections opened."), |b| b.connects);
    column(text, rows, (&name("reuses_total"), c, "Kept connections used again."), |b| b.reuses);
    column(text, rows, (&name("connect_errors_total"), c, "Failed connections."), |b| b.connect_errors);
    column(text, rows, (&name("response_errors_total"), c, "Failed answers."), |b| b.response_errors);
    column(text, rows, (&name("retries_total"), c, "Attempts made again."), |b| b.retries);
    column(text, rows, (&name("redispatches_total"), c, "Attempts moved on."), |b| b.redispatches);
    if what == "pool" {
        let help = "Exchanges refused because too many waited for an answer.";
        column(text, rows, (&name("pending_refused_total"), c, help), |b| b.pending_refused);
        let help = "Retries left out for the pool's budget.";
        column(text, rows, (&name("retries_withheld_total"), c, help), |b| b.retries_withheld);
    }
    latency_column(text, rows, &name("response_duration_seconds"), "Time to the answer's head.", |b| {
        &b.latency
    });
    let help = "Time to connect, TLS included, where a connection was opened.";
    latency_column(text, rows, &name("connect_duration_seconds"), help, |b| &b.connect);
    let help = "From the answer's head to its end.";
    latency_column(text, rows, &name("transfer_duration_seconds"), help, |b| &b.transfer);
    latency_column(text, rows, &name("attempt_duration_seconds"), "Attempts as a whole.", |b| &b.whole);
}

fn states(text: &mut Text, snapshot: &Snapshot) {
    if snapshot.pools.is_empty() {
        return;
    }
    let each = |text: &mut Text, name: &str, help: &str, value: &dyn Fn(&Endpoint) -> u64| {
        text.family(name, "gauge", help);
        for (pool, endpoint) in snapshot.pools.iter().flat_map(|p| p.endpoints.iter().map(move |e| (p, e))) {
            text.sample(name, &endpoint_labels(pool, endpoint), value(endpoint));
        }
    };
    each(text, "weir_endpoint_up", "1 if it takes work.", &|e| u64::from(e.state == EndpointState::Up));
    each(text, "weir_endpoint_weight", "Weight now.", &|e| u64::from(e.weight));
    each(text, "weir_endpoint_idle_connections", "Idle connections kept.", &|e| e.idle);
}

#[cfg(test)]
mod tests {
    use weir_control::SiteId;
    use weir_control::snapshot::Site;

    use super::*;

    fn sample() -> Snapshot {
        let latency =
            Latency { count: 3, sum_us: 4_500, buckets: vec![(1_000, 1), (2_500, 3)], ..Latency::default() };
        let front = Front {
            requests: 3,
            responses: Classes { success: 3, ..Classes::default() },
            latency,
            ..Front::default()
        };
        let site = Site {
            id: SiteId(1),
            name: "a\"b\\c\nd".into(),
            number: 1,
            place: 0,
            mode: "http".into(),
            paused: false,
            front,
        };
        Snapshot { sites: vec![site], ..Snapshot::default() }
    }

    #[test]
    fn labels_are_escaped_and_histograms_cumulate() {
        let text = render(&sample());
        for line in [
            r#"weir_site_requests_total{site="a\"b\\c\nd",class="2xx"} 3"#,
            r#"weir_site_request_duration_seconds_bucket{site="a\"b\\c\nd",le="0.001"} 1"#,
            r#"weir_site_request_duration_seconds_bucket{site="a\"b\\c\nd",le="+Inf"} 3"#,
            r#"weir_site_request_duration_seconds_sum{site="a\"b\\c\nd"} 0.0045"#,
            "weir_requests_total 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn protocol_buffers_are_given_to_those_who_prefer_them() {
        let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                          application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert!(wants_protobuf(prometheus.as_bytes()));
        let text_first = prometheus.replace("encoding=delimited", "encoding=delimited;q=0.1");
        for other in [text_first.as_str(), "*/*", "", "text/plain", "application/vnd.google.protobuf"] {
            assert!(!wants_protobuf(other.as_bytes()), "{other}");
        }
        let bytes = render_protobuf(&sample());
        let holds = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
        assert!(holds(b"weir_site_request_duration_seconds") && holds(b"a\"b\\c\nd") && !holds(b"_bucket"));
    }

    /// A page that names a metric which is not there sends its reader searching.
    #[test]
    fn metrics_that_the_documentation_names_exist() {
        let page = include_str!("../../../docs/observing.md");
        let source = include_str!("prometheus.rs");
        let names = |text: &'static str| text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let is_directive = |name: &str| matches!(name, "weir_metrics" | "weir_dashboard");
        let named: Vec<_> =
            names(page).filter(|name| name.starts_with("weir_") && !is_directive(name)).collect();
        assert!(named.len() > 10, "the page names {} metrics", named.len());
        for name in named {
            let quoted = format!("\"{name}\"");
            assert!(source.contains(&quoted), "{name} stands in docs/observing.md and is no metric");
        }
    }

    /// The rules of the format: each metric named once by HELP and TYPE, its samples in one block after them.
    #[test]
    fn every_sample_follows_its_type() {
        let text = render(&sample());
        let mut seen = std::collections::HashSet::new();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap().to_owned();
                assert!(seen.insert(family.clone()), "{family} twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                assert!(name == family || base == Some(&family), "{name} in the block of {family}");
            }
        }
        assert!(text.ends_with('\n'));
    }
}
