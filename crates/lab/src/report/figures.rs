//! The report as data: what `report.json` holds.
//!
//! Owns: its form; within one [`Report::schema`], members are only added.
//! Never: works a figure out, or writes one for people.
//! Driven by: `chapter` and `verdict`, which fill it; all forms of the report, which read it.

use super::knee::Knee;
use super::limit::Limit;
use super::published::{Curve, Published, Quantity};
use crate::changes::Changes;
use crate::contender::{Contender, Driver, Kind};
use crate::machine::Environment;
use crate::scenario::{Point, Targets};
use crate::stats::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    pub verdict: Option<Verdict>,
    /// Why this machine could not run it.
    #[serde(default)]
    pub skipped: Option<String>,
    /// Whether all shared one CPU on purpose: CPU time a request counts then, and requests a second do not.
    #[serde(default)]
    pub packed: bool,
    /// Whether one server lived through all of it: runs are then ramps of rates, one after the other.
    #[serde(default)]
    pub soak: bool,
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
    pub contender: Contender,
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
    /// What came of changes of the configuration in all runs, where there were any; processes are the most.
    #[serde(default)]
    pub changes: Option<Changes>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Memory of the server in the first second, bytes; nothing where that was not seen.
    #[serde(default)]
    pub memory_first: Option<u64>,
    /// The same at the end.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The run over time; nothing of runs of less than three seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Stretch>,
}

/// A stretch of a run: a second, or of long runs several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its end, seconds since load began.
    pub at_s: f64,
    /// Requests a second.
    pub rate: f64,
    /// The median of response times, microseconds; of several seconds the mean of these.
    pub p50_us: Option<f64>,
    /// Their 99th percentile; of several seconds the longest.
    pub p99_us: Option<f64>,
    /// Errors of both kinds, a second.
    pub errors: f64,
    /// CPUs that the server kept busy; nothing where that was not seen.
    pub cpus: Option<f64>,
}

/// The knee of one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeOf {
    /// The curve: its point of the lowest rate.
    pub point: Point,
    /// Whose.
    pub contender: Contender,
    /// Where.
    pub knee: Knee,
    /// What held it there; nothing where it kept up with every rate, or its CPU time was not seen.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// What has no figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Where.
    pub point: Point,
    /// Who; nothing for everybody.
    pub contender: Option<Contender>,
    /// Why.
    pub why: String,
    /// Whether something failed; else it does no such work, was left out, or is still to be measured.
    #[serde(default)]
    pub failed: bool,
}

/// The verdict on a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The points that have names, in their order.
    pub rows: Vec<Judged>,
    /// The geometric mean of the CPU ratios to the best rival, and what it is held to.
    pub mean: Option<Mean>,
    /// Short names of the rows that have a target and do not meet it.
    pub short: Vec<String>,
}

/// Rows together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The geometric mean of the rows' medians.
    pub value: f64,
    /// How many rows.
    pub rows: usize,
    /// How many the scenario has.
    pub of: usize,
    /// What is demanded.
    pub targets: Targets,
    /// Whether the mean is at or below its target.
    pub met: Option<bool>,
    /// Short names of the rows whose interval begins above the ceiling.
    pub above: Vec<String>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The point's short name.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// Where.
    pub point: Point,
    /// Whose it is.
    pub by: Contender,
    /// What its cost is counted in.
    pub unit: Unit,
    /// What it costs; nothing if it has no figures.
    pub cost: Option<Estimate>,
    /// Requests a second; nothing where none are made.
    pub rate: Option<f64>,
    /// Who is the measure: the best rival, or whom the scenario names.
    pub best: Option<Contender>,
    /// Its cost ÷ the measure's, in the same rounds.
    pub ratio: Option<Estimate>,
    /// All the others at this point.
    pub others: Vec<Against>,
    /// What the ratio is held to.
    pub target: Option<f64>,
    /// What would be better still.
    pub stretch: Option<f64>,
    /// Whether it meets its target; nothing without one.
    pub met: Option<bool>,
    /// Whether it meets its stretch; nothing without one.
    pub stretched: Option<bool>,
    /// Why it has no verdict.
    pub why: Option<String>,
    /// Whether it is one of those that have a mean and a ceiling.
    pub counts: bool,
}

/// What a cost is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Microseconds of CPU a request.
    CpuUs,
    /// Bytes a connection.
    Bytes,
}

/// The same work of somebody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Who.
    pub contender: Contender,
    /// What kind of program, if that is known.
    pub kind: Option<Kind>,
    /// What it costs.
    pub cost: Estimate,
    /// Requests a second; nothing where none are made.
    pub rate: Option<f64>,
    /// The row's cost ÷ this one's: median over the rounds, and its interval.
    pub ratio: Estimate,
    /// The least of these ratios.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The ratios, round by round.
    pub each: Vec<f64>,
}

impl Chapter {
    /// The row of a contender at a point.
    pub(super) fn row(&self, point: &Point, who: Contender) -> Option<&Row> {
        self.rows.iter().find(|r| &r.point == point && r.contender == who)
    }

    /// Rows at a rate that was given.
    pub(super) fn paced(&self) -> Vec<&Row> {
        self.rows.iter().filter(|r| r.rate_wanted.is_some()).collect()
    }

    /// Published curves of a quantity: those of the original, or those that the scenario brings.
    pub(super) fn published_curves(&self) -> &[Curve] {
        self.published.as_ref().map_or(&self.curves, |p| &p.curves)
    }
}

impl Row {
    /// What its rate is a rate of.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.work {
            Work::Handshakes => Quantity::Handshakes,
            Work::NewConnections if self.point.mode.encrypted() => Quantity::Tps,
            Work::NewConnections => Quantity::Cps,
            Work::Requests | Work::Echo | Work::Messages => Quantity::Rps,
        }
    }

    /// Errors of both kinds.
    pub(super) fn failures(&self) -> u64 {
        self.errors + self.bad_status
    }
}
