//! Figures as Prometheus has them.
//!
//! Owns: the metrics and their names; the text file that node_exporter's textfile collector reads.
//! Never: leaves half of a file behind; stops a run when a file cannot be written.
//! Driven by: `run`, through [`Watch`], once a second; `remote_write` takes the same metrics.
//!
//! Counters count from the beginning of the run, warm-ups left out. Quantiles and rates are those of the last second while
//! the run goes on, and of the whole run in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::report::{Causes, Figures, Report};
use crate::run::{Interval, Watch};

/// One metric with one set of labels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

/// Name, type and meaning of each.
const METRICS: [(&str, &str, &str); 9] = [
    ("weir_load_requests_total", "counter", "Units of work completed, whatever their status."),
    ("weir_load_responses_total", "counter", "Answers by status code."),
    ("weir_load_errors_total", "counter", "Errors by cause."),
    ("weir_load_received_bytes_total", "counter", "Bytes received."),
    ("weir_load_sent_bytes_total", "counter", "Bytes sent."),
    ("weir_load_connections_opened_total", "counter", "Connections opened while measuring."),
    ("weir_load_rate", "gauge", "Completed units a second."),
    ("weir_load_rate_wanted", "gauge", "The rate asked for."),
    ("weir_load_latency_seconds", "summary", "Latency by quantile."),
];

/// Quantiles that are told.
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The counters of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    requests: u64,
    codes: BTreeMap<u16, u64>,
    causes: Causes,
    received: u64,
    sent: u64,
    opened: u64,
}

impl Counts {
    /// Adds a second; what there is to tell after it. Nothing of a warm-up.
    pub(crate) fn take(&mut self, interval: &Interval<'_>) -> Option<Vec<Sample>> {
        interval.step.0?;
        self.requests += interval.requests;
        for (&code, &n) in &interval.status.codes {
            *self.codes.entry(code).or_default() += n;
        }
        self.causes.merge(&interval.errors.causes);
        self.received += interval.received;
        self.sent += interval.sent;
        self.opened += interval.connections.opened;
        let quantile =
            |q| (!interval.latency.is_empty()).then(|| interval.latency.value_at_quantile(q) as f64 / 1e9);
        Some(self.samples(
            interval.requests as f64 / interval.length_s.max(1e-9),
            interval.rate_wanted,
            quantile,
        ))
    }

    /// What there is to tell in the end.
    pub(crate) fn of(report: &Report) -> Vec<Sample> {
        let Figures { requests, status, errors, bytes, connections, latency, .. } = &report.total;
        let counts = Self {
            requests: *requests,
            codes: status.codes.clone(),
            causes: errors.causes,
            received: bytes.received,
            sent: bytes.sent,
            opened: connections.opened,
        };
        let all = latency.decode().ok().filter(|all| !all.is_empty());
        let quantile = |q| all.as_ref().map(|all| all.value_at_quantile(q) as f64 / 1e9);
        counts.samples(report.total.rate, report.total.rate_wanted, quantile)
    }

    fn samples(&self, rate: f64, wanted: Option<f64>, quantile: impl Fn(f64) -> Option<f64>) -> Vec<Sample> {
        let one = |name, value| Sample { name, labels: Vec::new(), value };
        let with = |name, label, text: String, value| Sample { name, labels: vec![(label, text)], value };
        let mut all = vec![one("weir_load_requests_total", self.requests as f64)];
        for (code, n) in &self.codes {
            all.push(with("weir_load_responses_total", "code", code.to_string(), *n as f64));
        }
        // Zeros too: what never was cannot rise.
        for (cause, n) in self.causes.named() {
            all.push(with("weir_load_errors_total", "cause", cause.to_owned(), n as f64));
        }
        all.push(one("weir_load_received_bytes_total", self.received as f64));
        all.push(one("weir_load_sent_bytes_total", self.sent as f64));
        all.push(one("weir_load_connections_opened_total", self.opened as f64));
        all.push(one("weir_load_rate", rate));
        all.extend(wanted.map(|wanted| one("weir_load_rate_wanted", wanted)));
        for q in QUANTILES {
            let value = quantile(q);
            all.extend(
                value.map(|value| with("weir_load_latency_seconds", "quantile", q.to_string(), value)),
            );
        }
        all
    }
}

/// A label of the command line: `name=value`.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is no label such as `stage=canary`"))?;
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let letters = name.bytes().all(|b| first(b) || b.is_ascii_digit());
    if !name.bytes().next().is_some_and(first) || !letters || name.starts_with("__") {
        return Err(format!("`{name}` is no name of a label: letters, digits and _ are"));
    }
    if ["code", "cause", "quantile"].contains(&name) {
        return Err(format!("`{name}` is a label of the figures themselves"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The text format, version 0.0.4.
pub(crate) fn text(samples: &[Sample], more: &[(String, String)]) -> String {
    let mut out = String::new();
    for (name, kind, help) in METRICS {
        let mut of_name = samples.iter().filter(|sample| sample.name == name).peekable();
        if of_name.peek().is_some() {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        for sample in of_name {
            let own = sample.labels.iter().map(|(name, value)| (*name, value));
            let labels = own.chain(more.iter().map(|(name, value)| (name.as_str(), value)));
            let labels: Vec<String> =
                labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(out, "{name}{labels} {}", sample.value);
        }
    }
    out
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The file of `--prometheus`.
pub struct PromFile {
    path: PathBuf,
    labels: Vec<(String, String)>,
    counts: Counts,
    failure: Option<String>,
}

impl PromFile {
    /// Writes the file for the first time, so that one that cannot be written is told of before the run.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn create(path: &Path, labels: Vec<(String, String)>) -> Result<Self, String> {
        let mut file = Self { path: path.to_owned(), labels, counts: Counts::default(), failure: None };
        file.write(&[]);
        file.finish().map(|()| file)
    }

    /// Whether all could be written.
    ///
    /// # Errors
    /// The first failure: a sentence that names the file.
    pub fn finish(&mut self) -> Result<(), String> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, samples: &[Sample]) {
        // Whoever reads it finds the old text or the new one. The collector reads names that end in `.prom` alone.
        let part = self.path.with_extension("prom.part");
        let written =
            fs::write(&part, text(samples, &self.labels)).and_then(|()| fs::rename(&part, &self.path));
        if let Err(error) = written {
            let path = self.path.display();
            self.failure.get_or_insert_with(|| format!("cannot write {path}: {error}"));
        }
    }
}

impl Watch for PromFile {
    fn interval(&mut self, interval: &Interval<'_>) {
        if let Some(samples) = self.counts.take(interval) {
            self.write(&samples);
        }
    }

    fn finished(&mut self, report: &Report) {
        self.write(&Counts::of(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Errors, Latency, Status, empty_histogram};

    fn report() -> Report {
        let mut histogram = empty_histogram();
        histogram.saturating_record(2_000_000);
        let mut status = Status::default();
        status.add(200, 3);
        let errors = Errors { causes: Causes { refused: 4, ..Causes::default() }, ..Errors::default() };
        let total = Figures {
            requests: 3,
            rate: 1.5,
            rate_wanted: Some(2.0),
            status,
            errors,
            latency: Latency::of(&histogram),
            ..Figures::default()
        };
        Report { total, ..Report::default() }
    }

    #[test]
    fn the_text_is_the_format_s() {
        let text = text(&Counts::of(&report()), &[("stage".into(), "a \"b\"\\".into())]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE weir_load_requests_total counter");
        assert_eq!(lines[2], "weir_load_requests_total{stage=\"a \\\"b\\\"\\\\\"} 3");
        assert!(
            lines.contains(&"weir_load_responses_total{code=\"200\",stage=\"a \\\"b\\\"\\\\\"} 3"),
            "{text}"
        );
        assert!(text.contains("weir_load_errors_total{cause=\"refused\""), "{text}");
        assert!(text.contains("weir_load_rate_wanted"), "{text}");
        let p99 = lines.iter().find(|line| line.contains("quantile=\"0.99\"")).unwrap();
        let value: f64 = p99.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((value - 0.002).abs() < 1e-5, "{p99}");
        // Every line of a metric is below its one TYPE.
        assert!(
            METRICS.iter().all(|(name, ..)| text.matches(&format!("# TYPE {name} ")).count() == 1),
            "{text}"
        );
    }

    #[test]
    fn labels_are_names_and_values() {
        assert_eq!(label("a_1=x=y"), Ok(("a_1".into(), "x=y".into())));
        for bad in ["a", "=x", "1a=x", "a-b=x", "__name__=x", "code=1"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_is_whole_or_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.prom");
        let mut file = PromFile::create(&path, Vec::new()).unwrap();
        file.finished(&report());
        assert!(fs::read_to_string(&path).unwrap().contains("weir_load_requests_total 3\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let nowhere = PromFile::create(&dir.path().join("none/run.prom"), Vec::new()).err().unwrap();
        assert!(nowhere.contains("none/run.prom"), "{nowhere}");
    }
}
