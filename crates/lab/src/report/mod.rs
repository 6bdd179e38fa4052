//! What a run of the lab says: medians with intervals, ratios, findings.
//!
//! Owns: the figures of the report, worked out from records alone, and the four files that tell them.
//! Never: measures; rounds before it prints; leaves out a failure.
//! Driven by: `weir lab report`.
//! Why: JSON, CSV, Markdown and HTML are written from one value, so they cannot disagree.

mod findings;
mod html;
mod svg;
mod tables;

use crate::machine::{Environment, Seats};
use crate::results::{Record, Results, Settings, write};
use crate::run::takes_part;
use crate::scenario::{Plot, Point, Published, Scenario, Who, bytes};
use crate::stats::{Estimate, estimate, median};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use weir_loadgen::report::Latency;

/// The whole report: what `report.json` holds. Within one [`Report::schema`], members are only added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The form of results and report.
    pub schema: String,
    /// Whether runs were the quick ones.
    pub quick: bool,
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
    /// What the figures say, worked out from them.
    pub findings: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What has no figures, and why.
    pub missing: Vec<Missing>,
    #[serde(skip)]
    plots: Vec<Plot>,
    #[serde(skip)]
    published: Vec<Published>,
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
    /// Runs that the figures are medians of.
    pub runs: u32,
    /// Requests in all of them.
    pub requests: u64,
    /// Requests a second.
    pub rate: Estimate,
    /// Received, gigabits a second.
    pub gbit_s: f64,
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
    /// Context switches of the server, a request.
    pub switches: f64,
    /// Memory of the server at its most, bytes.
    pub memory_peak: u64,
    /// Failures that the generator counted, of all kinds, in all runs.
    pub errors: u64,
    /// Answers with a status of 400 or more, in all runs.
    pub bad_status: u64,
    /// What speaks against the figures: the generator's warnings by their names, in how many runs.
    pub doubts: BTreeMap<String, u32>,
    /// Whether the generator had the server's CPUs too.
    pub shared_cpus: bool,
    /// Requests a second of Weir in the same rounds, over this contender's. Nothing for Weir itself.
    pub weir_over_this: Option<Estimate>,
    /// CPU time a request of Weir in the same rounds, over this contender's.
    pub weir_cpu_over_this: Option<Estimate>,
    /// Response times of all runs: microseconds, and the share of requests that did not exceed them.
    pub distribution: Vec<(f64, f64)>,
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
}

/// Shares of requests for which the distribution tells a time.
const SHARES: usize = 200;

/// Reads the results in `dir` and writes `report.json`, `report.csv`, `report.md` and `report.html` there.
///
/// # Errors
/// There are no results, or files cannot be read or written.
pub fn make(dir: &Path) -> Result<Report> {
    let (results, settings) = Results::read(dir)?;
    let report = read(&results, settings)?;
    write(&dir.join("report.json"), &serde_json::to_string_pretty(&report)?)?;
    write(&dir.join("report.csv"), &tables::csv(&report))?;
    write(&dir.join("report.md"), &tables::markdown(&report))?;
    write(&dir.join("report.html"), &html::page(&report))?;
    Ok(report)
}

fn read(results: &Results, settings: Settings) -> Result<Report> {
    let scenarios = results.scenarios()?;
    let chapters = scenarios.iter().map(|s| chapter(results, s, &settings)).collect::<Result<_>>()?;
    Ok(Report {
        schema: settings.schema,
        quick: settings.quick,
        environment: settings.environment,
        scenarios: chapters,
    })
}

fn chapter(results: &Results, scenario: &Scenario, settings: &Settings) -> Result<Chapter> {
    let effort = scenario.effort(settings.quick);
    let cpus: Vec<usize> = (0..settings.environment.cpus).collect();
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for point in scenario.points(settings.quick) {
        if let Err(why) = Seats::divide(scenario.placement, point.workers, &cpus) {
            missing.push(Missing { point, contender: None, why });
            continue;
        }
        let all: Vec<(Who, Vec<Record>)> = scenario
            .contenders
            .iter()
            .filter(|who| takes_part(**who, point.mode))
            .map(|&who| Ok((who, results.records(scenario, &point, who, effort.runs)?)))
            .collect::<Result<_>>()?;
        let weir: &[Record] = all.iter().find(|(w, _)| *w == Who::Weir).map_or(&[], |(_, r)| r.as_slice());
        for (who, records) in &all {
            let failure = results.failure(scenario, &point, *who);
            if failure.is_some() || (records.len() as u32) < effort.runs {
                let why =
                    failure.unwrap_or_else(|| format!("{} of {} runs done", records.len(), effort.runs));
                missing.push(Missing { point: point.clone(), contender: Some(*who), why });
            }
            if !records.is_empty() {
                rows.push(row(&point, *who, records, weir)?);
            }
        }
    }
    let mut chapter = Chapter {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        about: scenario.about.trim().to_owned(),
        runs: effort.runs,
        seconds: effort.seconds,
        findings: Vec::new(),
        rows,
        missing,
        plots: scenario.plots.clone(),
        published: scenario.published.clone(),
    };
    chapter.findings = findings::of(&chapter);
    Ok(chapter)
}

fn row(point: &Point, who: Who, records: &[Record], weir: &[Record]) -> Result<Row> {
    let values = |of: &dyn Fn(&Record) -> f64| records.iter().map(of).collect::<Vec<f64>>();
    let figure = |of: &dyn Fn(&Record) -> f64| estimate(&values(of));
    let sum = |of: &dyn Fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
    let mut doubts: BTreeMap<String, u32> = BTreeMap::new();
    for warning in records.iter().flat_map(|r| &r.load.warnings) {
        let name = serde_json::to_value(warning.code)?.as_str().unwrap_or("other").to_owned();
        *doubts.entry(name).or_default() += 1;
    }
    let percentile = |p: f64| move |r: &Record| r.load.total.latency.at(p).unwrap_or(0.0);
    // Runs of one round are disturbed alike, so each is compared with its own.
    let over = |of: fn(&Record) -> f64| {
        let ratios: Vec<f64> = records
            .iter()
            .filter_map(|r| {
                let same = weir.iter().find(|w| w.run == r.run)?;
                (of(r) > 0.0).then(|| of(same) / of(r))
            })
            .collect();
        (who != Who::Weir && !ratios.is_empty()).then(|| estimate(&ratios))
    };
    Ok(Row {
        point: point.clone(),
        bytes: bytes(&point.size)?,
        contender: who,
        runs: records.len() as u32,
        requests: sum(&|r| r.load.total.requests),
        rate: figure(&|r| r.load.total.rate),
        gbit_s: median(&values(&|r| r.load.total.gbit_s)),
        mean_us: figure(&|r| r.load.total.latency.mean_us),
        p50_us: figure(&percentile(50.0)),
        p95_us: figure(&percentile(95.0)),
        p99_us: figure(&percentile(99.0)),
        cpu_us: figure(&|r| r.cpu_us_per_request),
        switches: median(&values(&|r| r.switches_per_request)),
        memory_peak: records.iter().map(|r| r.memory_peak).max().unwrap_or(0),
        errors: sum(&|r| r.load.total.errors.sum()),
        bad_status: sum(&|r| r.load.total.status.failed()),
        doubts,
        shared_cpus: records.iter().any(|r| r.shared_cpus),
        weir_over_this: over(|r| r.load.total.rate),
        weir_cpu_over_this: over(|r| r.cpu_us_per_request),
        distribution: distribution(records)?,
    })
}

fn distribution(records: &[Record]) -> Result<Vec<(f64, f64)>> {
    let mut all = Latency::default();
    for record in records {
        all = record.load.total.latency.merged(&all).map_err(|bad| anyhow::anyhow!("{bad}"))?;
    }
    if all.count == 0 {
        return Ok(Vec::new());
    }
    let histogram = all.decode().map_err(|bad| anyhow::anyhow!("{bad}"))?;
    let share = |n: usize| n as f64 / SHARES as f64;
    // The last steps are finer: there are the requests that users remember.
    let shares = (0..SHARES).map(share).chain([0.999, 0.9999, 1.0]);
    Ok(shares.map(|s| (histogram.value_at_quantile(s) as f64 / 1e3, s)).collect())
}

impl Chapter {
    /// The row of a contender at a point.
    fn row(&self, point: &Point, who: Who) -> Option<&Row> {
        self.rows.iter().find(|r| &r.point == point && r.contender == who)
    }

    /// Its contenders, in their order.
    fn contenders(&self) -> Vec<Who> {
        unique(self.rows.iter().map(|r| r.contender))
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
fn number(value: f64) -> String {
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
fn with_interval(estimate: &Estimate, scale: f64) -> String {
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
    }
}
