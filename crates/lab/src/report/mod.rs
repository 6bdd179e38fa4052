//! What a run of the lab says: medians with intervals, ratios, knees, findings.
//!
//! Owns: the figures of the report, worked out from records alone, and the four files that tell them.
//! Never: measures; rounds before it prints; leaves out a failure.
//! Driven by: `weir lab report`; `merge` and `size` read the same figures.
//! Why: JSON, CSV, Markdown and HTML are written from one value, so they cannot disagree.

mod chapter;
mod findings;
pub mod guide;
mod html;
pub mod knee;
mod plot;
mod plots;
pub mod published;
mod tables;
pub mod verdict;

pub use html::date;

use crate::machine::Environment;
use crate::prices::Prices;
use crate::results::{Results, Settings, write};
use crate::scenario::Point;
use crate::stats::Estimate;
use crate::who::{Driver, Who};
use anyhow::Result;
use published::{Curve, Published, Quantity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use weir_loadgen::report::Work;

/// The whole report: what `report.json` holds. Within one [`Report::schema`], members are only added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The form of results and report.
    pub schema: String,
    /// Whether runs were the quick ones.
    pub quick: bool,
    /// Whether Weir was built without optimisation.
    #[serde(default)]
    pub debug_build: bool,
    /// How Weir's sockets were driven, if it was told.
    #[serde(default)]
    pub driver: Option<Driver>,
    /// When the first and the last run began, seconds since 1970-01-01 UTC; nothing without runs.
    #[serde(default)]
    pub measured: Option<(f64, f64)>,
    /// The machine and its programs.
    pub environment: Environment,
    /// One after the other.
    pub scenarios: Vec<Chapter>,
}

/// One scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chapter {
    /// Its short name.
    pub id: String,
    /// A line.
    pub title: String,
    /// What was published, how it is repeated, where that departs.
    pub about: String,
    /// Runs of each contender at each point, as wanted.
    pub runs: u32,
    /// Measured seconds of each.
    pub seconds: f64,
    /// Points that have names: ratios to the best rival, and whether they meet their targets.
    #[serde(default)]
    pub verdict: Option<verdict::Verdict>,
    /// Why this machine could not run it.
    #[serde(default)]
    pub skipped: Option<String>,
    /// Whether all shared one CPU on purpose: CPU time a request counts then, and requests a second do not.
    #[serde(default)]
    pub packed: bool,
    /// What the figures say, worked out from them.
    pub findings: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Where latency begins to run away, of each contender on each curve of latency against rate.
    #[serde(default)]
    pub knees: Vec<KneeOf>,
    /// What has no figures, and why.
    pub missing: Vec<Missing>,
    /// What was published of the same.
    #[serde(default)]
    pub published: Option<Published>,
    /// Published curves that the scenario brings itself.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// One contender at one point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Where.
    pub point: Point,
    /// The page, bytes.
    pub bytes: u64,
    /// Who.
    pub contender: Who,
    /// What a unit of work was: what this report calls a request.
    #[serde(default)]
    pub work: Work,
    /// Requests a second that were wanted; nothing where they came as fast as connections allowed.
    #[serde(default)]
    pub rate_wanted: Option<f64>,
    /// TLS as it was agreed on.
    #[serde(default)]
    pub tls: Option<String>,
    /// Runs that the figures are medians of.
    pub runs: u32,
    /// Requests in all of them.
    pub requests: u64,
    /// Requests a second.
    pub rate: Estimate,
    /// Received, gigabits a second.
    pub gbit_s: f64,
    /// The same with its interval.
    #[serde(default)]
    pub gbit: Estimate,
    /// Mean response time, microseconds.
    pub mean_us: Estimate,
    /// What half of the requests did not exceed.
    pub p50_us: Estimate,
    /// What 95 of a hundred did not exceed.
    pub p95_us: Estimate,
    /// What 99 of a hundred did not exceed.
    pub p99_us: Estimate,
    /// CPU time of the server, microseconds a request.
    pub cpu_us: Estimate,
    /// CPUs that the server kept busy.
    #[serde(default)]
    pub cpus: Estimate,
    /// Context switches of the server, a request.
    pub switches: f64,
    /// Memory of the server at its most, bytes.
    pub memory_peak: u64,
    /// How it began.
    #[serde(default)]
    pub start: Option<Beginning>,
    /// What waiting connections cost it, where that was measured.
    #[serde(default)]
    pub idle: Option<Waiting>,
    /// Sites, and locations of each, where there were many.
    #[serde(default)]
    pub sites: Option<[u32; 2]>,
    /// Failures that the generator counted, of all kinds, in all runs.
    pub errors: u64,
    /// Answers with a status of 400 or more, in all runs.
    pub bad_status: u64,
    /// What speaks against the figures: the generator's warnings by their names, in how many runs.
    pub doubts: BTreeMap<String, u32>,
    /// Whether the generator had the server's CPUs too.
    pub shared_cpus: bool,
    /// Instructions of the server, a request; nothing where the machine does not count them.
    #[serde(default)]
    pub instructions: Option<Estimate>,
    /// Requests a second of Weir in the same rounds, over this contender's. Nothing for Weir itself.
    pub weir_over_this: Option<Estimate>,
    /// CPU time a request of Weir in the same rounds, over this contender's.
    pub weir_cpu_over_this: Option<Estimate>,
    /// The runs one by one.
    #[serde(default)]
    pub each: Vec<Each>,
    /// Response times of all runs: microseconds, and the share of requests that did not exceed them.
    pub distribution: Vec<(f64, f64)>,
}

/// How a server began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    /// From its start to its listening, seconds.
    pub seconds: Estimate,
    /// Its memory by then, bytes.
    pub memory: Estimate,
}

/// Connections that were used once and waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many.
    pub connections: u32,
    /// What each cost, bytes.
    pub bytes_each: Estimate,
}

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Each {
    /// Which, from 0. Runs of one number were made in one round.
    pub run: u32,
    /// Requests a second.
    pub rate: f64,
    /// Mean response time, microseconds.
    pub mean_us: f64,
    /// 95th percentile of response times, microseconds.
    pub p95_us: f64,
    /// CPU time of the server, microseconds a request.
    pub cpu_us: f64,
    /// Share of the machine's CPU time that its host took away.
    pub steal: f64,
    /// On a burstable machine: credits that were left.
    #[serde(default)]
    pub credits: Option<f64>,
    /// On a burstable machine: the share of the time in which it was held to the baseline.
    #[serde(default)]
    pub limited: Option<f64>,
    /// What each waiting connection cost, bytes.
    #[serde(default)]
    pub idle_bytes: Option<f64>,
}

/// The knee of one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeOf {
    /// The curve: its point of the lowest rate.
    pub point: Point,
    /// Whose.
    pub contender: Who,
    /// Where.
    pub knee: knee::Knee,
}

/// What has no figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Where.
    pub point: Point,
    /// Who; nothing for everybody.
    pub contender: Option<Who>,
    /// Why.
    pub why: String,
    /// Whether something failed; else it does no such work, was left out, or is still to be measured.
    #[serde(default)]
    pub failed: bool,
}

/// Reads the results in `dir` and writes `report.json`, `report.csv`, `report.md` and `report.html` there.
///
/// # Errors
/// There are no results, or files cannot be read or written.
pub fn make(dir: &Path, prices: &Prices) -> Result<Report> {
    let report = read(dir)?;
    write(&dir.join("report.json"), &serde_json::to_string_pretty(&report)?)?;
    write(&dir.join("report.csv"), &tables::csv(&report))?;
    write(&dir.join("report.md"), &tables::markdown(&report, prices))?;
    write(&dir.join("report.html"), &html::page(&report, prices))?;
    Ok(report)
}

/// The report of the results in `dir`; writes nothing.
///
/// # Errors
/// There are no results, or they cannot be read.
pub fn read(dir: &Path) -> Result<Report> {
    let (results, settings) = Results::read(dir)?;
    let mut span = None;
    let chapters = results
        .scenarios(settings.quick)?
        .iter()
        .map(|scenario| chapter::of(&results, scenario, &settings, &mut span))
        .collect::<Result<_>>()?;
    let Settings { schema, quick, debug_build, driver, environment, .. } = settings;
    Ok(Report { schema, quick, debug_build, driver, measured: span, environment, scenarios: chapters })
}

impl Chapter {
    /// The row of a contender at a point.
    fn row(&self, point: &Point, who: Who) -> Option<&Row> {
        self.rows.iter().find(|r| &r.point == point && r.contender == who)
    }

    /// Published curves of a quantity: those of the original, or those that the scenario brings.
    fn published_curves(&self) -> &[Curve] {
        self.published.as_ref().map_or(&self.curves, |p| &p.curves)
    }
}

impl Row {
    /// What its rate is a rate of.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.work {
            Work::Handshakes => Quantity::Tps,
            Work::NewConnections => Quantity::Cps,
            Work::Requests | Work::Echo => Quantity::Rps,
        }
    }

    /// Errors of both kinds.
    fn failures(&self) -> u64 {
        self.errors + self.bad_status
    }
}

/// What a rate is counted in.
fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Rps => "requests/s",
        Quantity::Cps => "connections/s",
        Quantity::Tps => "TLS handshakes/s",
        Quantity::Gbit => "Gbit/s",
        Quantity::MeanMs | Quantity::P95Ms => "ms",
    }
}

/// What is the same for points that differ in `without` alone.
fn facet(point: &Point, without: &[&str]) -> String {
    let mut value = serde_json::to_value(point).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        without.iter().for_each(|name| {
            members.remove(*name);
        });
    }
    value.to_string()
}

/// A point in words, without what is told elsewhere.
fn words(row: &Row, without: &[&str]) -> String {
    let point = &row.point;
    let mut words = vec![point.mode.title().to_owned()];
    match row.work {
        Work::NewConnections => words.push("a connection a request".into()),
        Work::Requests | Work::Echo | Work::Handshakes => {}
    }
    if row.work != Work::Handshakes && !point.mode.is_idle() && !without.contains(&"size") {
        words.push(format!("{}B", size(&point.size)));
    }
    if let Some([sites, _]) = row.sites {
        words.push(counted(sites, "site"));
    }
    if let Some(idle) = &row.idle {
        words.push(format!("{} B each of {}", number(idle.bytes_each.median), whole(idle.connections)));
    }
    if point.workers > 1 && !without.contains(&"workers") {
        words.push(format!("{} workers", point.workers));
    }
    if let Some(rate) = row.rate_wanted.filter(|_| !without.contains(&"rate")) {
        words.push(format!("{}/s", number(rate)));
    }
    words.join(", ")
}

/// So many of something.
fn counted(n: u32, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", whole(n)) }
}

/// A whole number for people.
fn whole(n: u32) -> String {
    if n < 1000 { n.to_string() } else { number(f64::from(n)) }
}

/// A size for people, less its B: `1 K`, `128 `.
fn size(name: &str) -> String {
    match name.split_at_checked(name.len().saturating_sub(1)) {
        Some((digits, unit @ ("k" | "m"))) => format!("{digits} {}", unit.to_uppercase()),
        _ => format!("{name} "),
    }
}

/// Each once, in the order of its first appearance.
fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut all, value| {
        if !all.contains(&value) {
            all.push(value);
        }
        all
    })
}

/// A number for people: three digits that count, and no more than needed.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (sign, plain) = text.strip_prefix('-').map_or(("", text.as_str()), |p| ("-", p));
    let (whole, rest) = plain.split_once('.').map_or((plain, None), |(w, r)| (w, Some(r)));
    // Thousands apart, as in 12,345.
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{sign}{grouped}.{rest}"),
        None => format!("{sign}{grouped}"),
    }
}

/// A median with its interval, for people.
pub(crate) fn with_interval(estimate: &Estimate, scale: f64) -> String {
    let [median, low, high] = [estimate.median, estimate.low, estimate.high].map(|v| number(v * scale));
    format!("{median} ({low}–{high})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        let told = [0.0, 0.1234, 3.456, 42.42, 123.6, 1_234_567.0, -1_500.0].map(number);
        assert_eq!(told, ["0", "0.123", "3.46", "42.4", "124", "1,234,567", "-1,500"]);
        assert_eq!(["10k", "1m", "128", "0"].map(size), ["10 K", "1 M", "128 ", "0 "]);
    }
}
