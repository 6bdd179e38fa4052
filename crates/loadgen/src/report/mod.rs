//! The figures of a run: what `weir load --json` prints.
//!
//! Owns: the types of that JSON, for those who write it and those who read it.
//! Never: measures; `run` fills these in. Knows how text is laid out.
//! Driven by: the end of a run, `--json`, the merging of agents' reports, `weir lab`.
//!
//! # Versions
//!
//! [`Report::schema`] is [`SCHEMA`], `weir-load/1`. Within one number members are only ever added: a reader must ignore
//! what it does not know, and these types do. A member that is removed, or that comes to mean something else, raises the
//! number; [`Report::from_json`] refuses other numbers than its own. Members that can be absent are `null` or left out,
//! and read as `None` or empty.
//!
//! # Units
//!
//! Times end in `_us` (microseconds) or `_s` (seconds), rates are per second, sizes are bytes. Encoded histograms hold
//! whole nanoseconds (see [`Latency::histogram`]).

mod errors;
mod latency;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use errors::{Cause, Causes, Errors};
pub use latency::{BadHistogram, HIGHEST_NS, LOWEST_NS, Latency, Percentile, empty_histogram};

/// The name and number of this form of report.
pub const SCHEMA: &str = "weir-load/1";

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program that ran.
    pub version: String,
    /// When load began, seconds since 1970-01-01 UTC.
    pub started_unix_s: f64,
    /// What was asked for.
    pub settings: Settings,
    /// Time taken by opening connections before load began.
    pub setup_s: f64,
    /// Whether the run was stopped before its end; steps that had not begun are left out.
    #[serde(default)]
    pub interrupted: bool,
    /// All measured time: the only step, or the sum of [`Report::steps`].
    pub total: Figures,
    /// With `--rates`, each rate; else empty.
    #[serde(default)]
    pub steps: Vec<Figures>,
    /// Completed units a second and thread, sampled every tenth of a second.
    #[serde(default)]
    pub thread_rate: Spread,
    /// What the generator itself took.
    pub generator: Generator,
    /// Why the figures should be doubted; empty when nothing speaks against them.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// The run second by second, warm-ups included; of long runs fewer and longer stretches, 3,600 at most. Empty with
    /// `--agents`: each agent's report has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Moment>,
    /// With `--agents`: the machines, in the order of the command line. `total` and `steps` are then their sums.
    #[serde(default)]
    pub agents: Vec<Agent>,
}

/// How far samples lie apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The largest.
    pub max: f64,
    /// Samples within one standard deviation of the mean, of a hundred.
    pub within_stdev_pct: f64,
}

impl Spread {
    /// Of these samples.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let stdev = (samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let within = samples.iter().filter(|x| (**x - mean).abs() <= stdev).count();
        let max = samples.iter().fold(f64::MIN, |a, b| a.max(*b));
        Self { mean, stdev, max, within_stdev_pct: within as f64 / n * 100.0 }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The addresses asked, with their weights; of `--targets` the first hundred.
    pub urls: Vec<Url>,
    /// How many there are.
    #[serde(default)]
    pub targets: u64,
    /// How many requests were asked for, where that ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// What a unit of work is.
    pub work: Work,
    /// Whether requests come at a rate, or as fast as connections allow.
    pub model: Model,
    /// Worker threads.
    pub threads: u32,
    /// Connections in all (for `new-connections` and handshakes: how many are under way at once).
    pub connections: u32,
    /// Measured time; of each step, if there are steps.
    pub duration_s: f64,
    /// Time left out before it; of each step, if there are steps.
    pub warmup_s: f64,
    /// The rates of the steps in turn (one for `-R`), requests a second over all connections; empty in the closed model.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// What a request may take before it counts as timed out (it is still waited for).
    pub timeout_s: f64,
    /// The method of requests.
    pub method: String,
    /// Bytes of a request's body.
    pub body_bytes: u64,
    /// Encryption, if any of the URLs wants it.
    pub tls: Option<Tls>,
    /// The Lua script.
    pub script: Option<String>,
    /// Addresses that connections come from.
    #[serde(default)]
    pub sources: Vec<String>,
    /// How sockets were driven: `io_uring (…)` or `epoll`.
    pub io: String,
    /// Streams at a time on each connection, where HTTP/2 was spoken.
    #[serde(default)]
    pub h2_streams: Option<u32>,
}

/// One address asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Url {
    /// As given.
    pub url: String,
    /// Its share: weight ÷ sum of weights.
    pub weight: u32,
}

/// What a unit of work is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A request on a kept connection.
    #[default]
    Requests,
    /// A connection, and one request on it.
    NewConnections,
    /// A TLS handshake, full unless resumption was asked for, and no request.
    Handshakes,
    /// A message, and its echo, on a kept TCP connection.
    Echo,
    /// A WebSocket message, and the one that answers it.
    Messages,
}

/// How units of work are timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Each is due at a moment that was fixed before the run; its latency begins then.
    Open,
    /// Each begins when the one before it on its connection has ended.
    #[default]
    Closed,
}

/// Encryption as asked for, and as it came to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// The name asked for.
    pub server_name: Option<String>,
    /// Whether sessions are resumed.
    pub resume: bool,
    /// The version agreed on, such as `TLSv1.3`; of the last connection that was opened.
    pub version: Option<String>,
    /// The suite agreed on, by OpenSSL's name.
    pub suite: Option<String>,
    /// The key exchange group.
    pub group: Option<String>,
}

/// What was measured in one stretch of time at one rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Measured time, seconds.
    pub elapsed_s: f64,
    /// Units of work completed, whatever their status.
    pub requests: u64,
    /// The rate asked for; none in the closed model. For a ramp: its mean.
    pub rate_wanted: Option<f64>,
    /// `requests` ÷ `elapsed_s`.
    pub rate: f64,
    /// Completed units with a status below 400, a second.
    pub goodput: f64,
    /// Bytes moved, headers included, TLS and TCP overhead not.
    pub bytes: Bytes,
    /// Received bytes a second × 8 ÷ 10⁹.
    pub gbit_s: f64,
    /// Answers by status.
    pub status: Status,
    /// gRPC calls by code, with `--grpc`; those whose HTTP status was 400 or more are not among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grpc: BTreeMap<u8, u64>,
    /// What went wrong.
    pub errors: Errors,
    /// Connections opened and lost while measuring (those of the set-up are in neither).
    pub connections: Connections,
    /// From the moment a unit was due (open model), or was begun (closed model), to its end.
    pub latency: Latency,
    /// From the moment it was sent, open model only: what a client sees that is late itself. `-U` prints it.
    pub uncorrected: Option<Latency>,
    /// From the start of connecting to the connection, TLS included; of connections opened while measuring.
    pub connect: Option<Latency>,
    /// Units under way when time was up; they are in no percentile.
    pub unfinished: u64,
    /// Units that were due and not even begun when time was up; they are in no percentile.
    pub unsent: u64,
    /// How long the oldest of both had been due by then, microseconds.
    pub oldest_unfinished_us: f64,
}

/// What was measured in one short stretch of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its end, seconds since load began.
    pub at_s: f64,
    /// Its length.
    pub length_s: f64,
    /// The step that it belongs to, from 0; none in a warm-up.
    pub step: Option<usize>,
    /// The rate wanted at its end; none in the closed model.
    pub rate_wanted: Option<f64>,
    /// Units completed.
    pub requests: u64,
    /// Those with a status of 400 and above, or a gRPC code.
    pub failed: u64,
    /// Errors of all kinds ([`Errors::sum`]).
    pub errors: u64,
    /// Bytes received.
    pub received: u64,
    /// The median of the latencies; none where nothing was completed.
    pub p50_us: Option<f64>,
    /// Their 99th percentile.
    pub p99_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
    /// CPU time of the generator, of one CPU, 0 to the number of threads.
    pub cpus: f64,
}

/// Bytes moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// Answers by status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// By class: `1xx` … `5xx`, `other`. Only those seen.
    pub classes: BTreeMap<String, u64>,
    /// By status code. Only those seen.
    pub codes: BTreeMap<u16, u64>,
}

impl Status {
    /// The name of a code's class.
    #[must_use]
    pub fn class(code: u16) -> &'static str {
        match code {
            100..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500..600 => "5xx",
            _ => "other",
        }
    }

    /// Counts `n` answers of this code.
    pub fn add(&mut self, code: u16, n: u64) {
        if n > 0 {
            *self.classes.entry(Self::class(code).to_owned()).or_default() += n;
            *self.codes.entry(code).or_default() += n;
        }
    }

    /// Answers of 400 and above: what wrk calls "Non-2xx or 3xx responses".
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.codes.range(400..).map(|(_, n)| n).sum()
    }
}

/// What became of connections while measuring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Opened.
    pub opened: u64,
    /// Closed by the server between two requests, as it may.
    pub closed_by_server: u64,
    /// Full TLS handshakes.
    pub full_handshakes: u64,
    /// Resumed TLS sessions.
    pub resumed_handshakes: u64,
}

impl Connections {
    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.closed_by_server += other.closed_by_server;
        self.full_handshakes += other.full_handshakes;
        self.resumed_handshakes += other.resumed_handshakes;
    }
}

/// What the generator took of its machine while measuring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of all its threads, seconds.
    pub cpu_s: f64,
    /// The same for each completed unit of work, microseconds.
    pub cpu_us_per_request: f64,
    /// The busiest worker thread's share of its time, 0 to 1.
    pub busiest_thread: f64,
    /// Time that worker threads were ready to run and waited for a CPU, seconds (the scheduler's run delay).
    pub run_delay_s: f64,
    /// Share of the machine's CPU time that its host took away while measuring, 0 to 1.
    pub steal: f64,
    /// Time for which a control group's CPU limit stopped us, seconds.
    pub throttled_s: f64,
    /// Open model: how late the generator sent what it could have sent on time, microseconds, on average.
    pub late_mean_us: f64,
    /// The same, at worst.
    pub late_max_us: f64,
    /// CPUs that it may run on.
    pub cpus: u32,
}

/// Why the figures should be doubted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable name, for programs.
    pub code: WarningCode,
    /// A sentence for people.
    pub text: String,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningCode {
    /// A worker thread was busy (nearly) all of the time: the generator was measured, not the server.
    GeneratorSaturated,
    /// Fewer requests than wanted were completed.
    RateNotReached,
    /// The generator sent late what it could have sent on time.
    GeneratorLate,
    /// The host took CPU time away.
    Steal,
    /// A control group's limit stopped the generator.
    Throttled,
    /// Work was unfinished when time was up, and is in no percentile.
    Unfinished,
    /// Every request failed, or none was answered.
    NothingMeasured,
    /// A machine of several failed or was lost.
    AgentFailed,
    /// The run was stopped before its end: the figures are of a part of it.
    Interrupted,
    /// What a newer version warns about.
    #[serde(other)]
    Other,
}

/// One machine of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Where it was reached.
    pub address: String,
    /// Its own report; none if it failed.
    pub report: Option<Box<Report>>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// A report that cannot be read.
#[derive(Debug)]
pub enum BadReport {
    /// It is no JSON of this form.
    Json(serde_json::Error),
    /// It is of another version.
    Schema(String),
}

impl std::fmt::Display for BadReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a report: {error}"),
            Self::Schema(found) => write!(f, "a report of form `{found}`; this program reads `{SCHEMA}`"),
        }
    }
}

impl std::error::Error for BadReport {}

impl Report {
    /// Reads what [`Report::to_json`] wrote, or a later program of the same schema.
    ///
    /// # Errors
    /// It is no report, or one of another schema.
    pub fn from_json(text: &str) -> Result<Self, BadReport> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text).map_err(BadReport::Json)?;
        if head.schema != SCHEMA {
            return Err(BadReport::Schema(head.schema));
        }
        serde_json::from_str(text).map_err(BadReport::Json)
    }

    /// As JSON, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with string keys: nothing in it can fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Figures {
    /// Joins figures of the same stretch of time, measured by another generator: counts, rates and histograms add up.
    ///
    /// # Errors
    /// A histogram of one of them cannot be read.
    pub fn merge(&mut self, other: &Self) -> Result<(), BadHistogram> {
        self.add(other)?;
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.rate_wanted = match (self.rate_wanted, other.rate_wanted) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.rates();
        Ok(())
    }

    /// Joins figures of another stretch of time by the same generator: counts, times and histograms add up.
    ///
    /// # Errors
    /// As [`Figures::merge`].
    pub fn append(&mut self, other: &Self) -> Result<(), BadHistogram> {
        let (mine, its) = (self.elapsed_s, other.elapsed_s);
        self.add(other)?;
        self.elapsed_s = mine + its;
        self.rate_wanted = match (self.rate_wanted, other.rate_wanted) {
            (Some(a), Some(b)) if mine + its > 0.0 => Some((a * mine + b * its) / (mine + its)),
            (a, b) => a.or(b),
        };
        self.rates();
        Ok(())
    }

    fn add(&mut self, other: &Self) -> Result<(), BadHistogram> {
        self.requests += other.requests;
        self.bytes.received += other.bytes.received;
        self.bytes.sent += other.bytes.sent;
        for (&code, &n) in &other.status.codes {
            self.status.add(code, n);
        }
        for (&code, &n) in &other.grpc {
            *self.grpc.entry(code).or_default() += n;
        }
        self.errors.merge(&other.errors);
        self.connections.merge(&other.connections);
        self.latency = self.latency.merged(&other.latency)?;
        self.uncorrected = merged(self.uncorrected.take(), other.uncorrected.as_ref())?;
        self.connect = merged(self.connect.take(), other.connect.as_ref())?;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.oldest_unfinished_us = self.oldest_unfinished_us.max(other.oldest_unfinished_us);
        Ok(())
    }

    /// Units that were answered and have failed: by a status of 400 and above, or by the code of a gRPC call.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.status.failed() + self.grpc.range(1..).map(|(_, n)| n).sum::<u64>()
    }

    /// Works the rates out from counts and time.
    pub fn rates(&mut self) {
        let per_second = |n: u64| if self.elapsed_s > 0.0 { n as f64 / self.elapsed_s } else { 0.0 };
        self.rate = per_second(self.requests);
        self.goodput = per_second(self.requests.saturating_sub(self.failed()));
        self.gbit_s = per_second(self.bytes.received) * 8.0 / 1e9;
    }
}

fn merged(mine: Option<Latency>, its: Option<&Latency>) -> Result<Option<Latency>, BadHistogram> {
    match (mine, its) {
        (Some(mine), Some(its)) => mine.merged(its).map(Some),
        (mine, its) => Ok(mine.or_else(|| its.cloned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[u64], elapsed_s: f64) -> Figures {
        let mut histogram = empty_histogram();
        let mut status = Status::default();
        for &ns in values {
            histogram.saturating_record(ns);
            status.add(200, 1);
        }
        let mut figures = Figures {
            elapsed_s,
            requests: values.len() as u64,
            rate_wanted: Some(100.0),
            status,
            latency: Latency::of(&histogram),
            ..Figures::default()
        };
        figures.rates();
        figures
    }

    #[test]
    fn a_report_survives_its_json() {
        let report = Report {
            schema: SCHEMA.into(),
            total: figures(&[1_000_000, 2_000_000], 2.0),
            warnings: vec![Warning { code: WarningCode::RateNotReached, text: "it was not".into() }],
            ..Report::default()
        };
        let json = report.to_json();
        assert_eq!(Report::from_json(&json).unwrap(), report);
        assert!(json.contains("\"rate-not-reached\""), "{json}");
    }

    #[test]
    fn newer_members_are_ignored_and_newer_schemas_refused() {
        let json = Report { schema: SCHEMA.into(), ..Report::default() }.to_json();
        let newer = json.replacen('{', "{ \"moon_phase\": 0.5,", 1);
        assert!(Report::from_json(&newer).is_ok());
        let other = json.replace(SCHEMA, "weir-load/2");
        let refusal = Report::from_json(&other).unwrap_err().to_string();
        assert!(refusal.contains("weir-load/2"), "{refusal}");
    }

    #[test]
    fn generators_add_up_and_steps_follow_each_other() {
        let (one, two) = (figures(&[1_000_000; 10], 1.0), figures(&[3_000_000; 30], 1.0));
        let mut together = one.clone();
        together.merge(&two).unwrap();
        assert_eq!((together.requests, together.rate, together.rate_wanted), (40, 40.0, Some(200.0)));
        assert_eq!(together.latency.count, 40);
        assert!((together.latency.mean_us - 2500.0).abs() < 5.0, "{}", together.latency.mean_us);
        let mut in_turn = one;
        in_turn.append(&two).unwrap();
        assert_eq!((in_turn.requests, in_turn.rate, in_turn.rate_wanted), (40, 20.0, Some(100.0)));
    }
}
