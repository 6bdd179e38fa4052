//! The figures of one scenario, from its records.
//!
//! Owns: medians and intervals of rows, ratios within rounds, knees.
//! Never: words.
//! Driven by: `report`.

use super::figures::{Beginning, Chapter, Each, KneeOf, Missing, Row, Stretch, Waiting};
use super::limit::Limit;
use super::published::{By, Curve, Quantity, published};
use super::words::{facet, unique};
use super::{findings, knee, verdict};
use crate::changes::Changes;
use crate::contender::Contender;
use crate::machine::CpuSplit;
use crate::results::{Record, Results, Settings, not_done};
use crate::scenario::{Mode, Placement, Point, Scenario, bytes};
use crate::stats::{Estimate, estimate, mean, median};
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;
use weir_loadgen::report::{Latency, Moment, Tls};

/// Shares of requests for which the distribution tells a time.
const SHARES: usize = 200;

/// A run is told in no more stretches than these.
const STRETCHES: usize = 120;
/// Shorter runs have no course to tell.
const FEW_MOMENTS: usize = 3;

/// The chapter of a scenario. `span` grows to when the first and the last run began.
pub(super) fn of(
    results: &Results,
    scenario: &Scenario,
    settings: &Settings,
    span: &mut Option<(f64, f64)>,
) -> Result<Chapter> {
    let effort = scenario.effort(settings.quick);
    // Of another machine, perhaps: how many there are is what counts.
    let cpus: Vec<usize> = (0..settings.environment.cpus).collect();
    let cores: Vec<Vec<usize>> =
        cpus.chunks(settings.environment.threads_per_core.max(1)).map(<[usize]>::to_vec).collect();
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    let skipped = results.skipped(scenario);
    let points = if skipped.is_some() { Vec::new() } else { scenario.points(settings.quick) };
    let more = settings.more();
    let mut unseen: Vec<Missing> = Vec::new();
    for point in points {
        if let Err(why) = CpuSplit::divide(scenario.placement, &point, &cores) {
            if point.hyper_threading {
                // A column where the machine has it, and no gap where it does not.
                continue;
            }
            missing.push(Missing { point, contender: None, why, failed: false });
            continue;
        }
        let runs = scenario.effort_at(&point, settings.quick).runs;
        let all: Vec<(Contender, Vec<Record>)> = scenario
            .contenders_at(&point, settings.quick, &more)
            .into_iter()
            .map(|who| Ok((who, results.records(scenario, &point, who, runs)?)))
            .collect::<Result<_>>()?;
        let weir: &[Record] =
            all.iter().find(|(w, _)| *w == Contender::Weir).map_or(&[], |(_, r)| r.as_slice());
        for (who, records) in &all {
            let failure = results.failure(scenario, &point, *who);
            if failure.is_some() || (records.len() as u32) < runs {
                let failed = failure.as_ref().is_some_and(|why| *why != not_done(*who));
                let why = failure.unwrap_or_else(|| format!("{} of {runs} runs done", records.len()));
                let never = records.is_empty() && !failed && !why.contains(not_done(*who).as_str());
                let told = Missing { point: point.clone(), contender: Some(*who), why, failed };
                if never { unseen.push(told) } else { missing.push(told) }
            }
            for begun in records.iter().map(|r| r.load.started_unix_s) {
                let (first, last) = span.unwrap_or((begun, begun));
                *span = Some((first.min(begun), last.max(begun)));
            }
            if !records.is_empty() {
                let mut row = row(&point, *who, records, weir)?;
                row.sites = (point.mode == Mode::Sites).then(|| match who {
                    Contender::WeirOneSite => [1, scenario.locations],
                    _ => [scenario.sites(settings.quick), scenario.locations],
                });
                rows.push(row);
            }
        }
    }
    // Who is seen nowhere was left out.
    unseen.retain(|m| rows.is_empty() || rows.iter().any(|r| Some(r.contender) == m.contender));
    missing.extend(unseen);
    let mut chapter = Chapter {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        about: scenario.about.trim().to_owned(),
        runs: effort.runs,
        seconds: effort.seconds,
        verdict: None,
        skipped,
        packed: scenario.placement == Placement::Packed,
        soak: scenario.soak,
        findings: Vec::new(),
        knees: knees(&rows, scenario.placement == Placement::Packed),
        rows,
        missing,
        published: published(&scenario.id).cloned(),
        curves: scenario.published.iter().map(own_curve).collect(),
    };
    if chapter.skipped.is_none() {
        let goals = scenario.goals(settings.quick);
        let counted = scenario.all_goals(settings.quick).iter().filter(|g| g.counts()).count();
        chapter.verdict = verdict::of(&chapter, (&goals, scenario.targets, counted), settings);
    }
    chapter.findings = findings::of(&chapter);
    Ok(chapter)
}

/// A curve that a scenario file brings.
fn own_curve(given: &crate::scenario::Published) -> Curve {
    Curve {
        label: given.label.clone(),
        who: "nginx".into(),
        quantity: Quantity::Rps,
        by: By::Workers,
        size: Some(given.size.clone()),
        encrypted: Some(given.mode.encrypted()),
        points: given.points.clone(),
    }
}

fn row(point: &Point, who: Contender, records: &[Record], weir: &[Record]) -> Result<Row> {
    let values = |of: &dyn Fn(&Record) -> f64| records.iter().map(of).collect::<Vec<f64>>();
    let figure = |of: &dyn Fn(&Record) -> f64| estimate(&values(of));
    let sum = |of: &dyn Fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
    let mut doubts: BTreeMap<String, u32> = BTreeMap::new();
    for record in records {
        // A run may be warned of twice for one reason.
        let names = record.load.warnings.iter().filter_map(|w| serde_json::to_value(w.code).ok());
        for name in unique(names.filter_map(|n| n.as_str().map(str::to_owned))) {
            *doubts.entry(name).or_default() += 1;
        }
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
        (who != Contender::Weir && !ratios.is_empty()).then(|| estimate(&ratios))
    };
    let one = records.first();
    let gbit = figure(&|r| r.load.total.gbit_s);
    Ok(Row {
        point: point.clone(),
        bytes: bytes(&point.size)?,
        contender: who,
        work: one.map(|r| r.load.settings.work).unwrap_or_default(),
        rate_wanted: one.and_then(|r| r.load.total.rate_wanted),
        tls: one.and_then(|r| r.load.settings.tls.as_ref()).and_then(agreed),
        runs: records.len() as u32,
        requests: sum(&|r| r.load.total.requests),
        rate: figure(&|r| r.load.total.rate),
        gbit_s: gbit.median,
        gbit,
        mean_us: figure(&|r| r.load.total.latency.mean_us),
        p50_us: figure(&percentile(50.0)),
        p95_us: figure(&percentile(95.0)),
        p99_us: figure(&percentile(99.0)),
        cpu_us: figure(&|r| r.cpu_us_per_request),
        cpus: figure(&|r| r.cpu_us_per_request * r.load.total.rate / 1e6),
        switches: median(&values(&|r| r.switches_per_request)),
        memory_peak: records.iter().map(|r| r.memory_peak).max().unwrap_or(0),
        errors: sum(&|r| r.load.total.errors.sum()),
        bad_status: sum(&|r| r.load.total.status.failed()),
        start: beginning(records),
        idle: waiting(records),
        changes: changes(records),
        sites: None,
        doubts,
        shared_cpus: records.iter().any(|r| r.shared_cpus),
        instructions: instructions(records),
        weir_over_this: over(|r| r.load.total.rate),
        weir_cpu_over_this: over(|r| r.cpu_us_per_request),
        each: records.iter().map(each).collect(),
        distribution: distribution(records)?,
    })
}

/// How the server began, of each that was started: runs of one server tell the same.
fn beginning(records: &[Record]) -> Option<Beginning> {
    let mut starts: Vec<_> = records.iter().filter_map(|r| r.start).collect();
    starts.dedup();
    let values =
        |of: fn(&crate::servers::Start) -> f64| estimate(&starts.iter().map(of).collect::<Vec<f64>>());
    (!starts.is_empty())
        .then(|| Beginning { seconds: values(|s| s.seconds), memory: values(|s| s.memory as f64) })
}

fn changes(records: &[Record]) -> Option<Changes> {
    let all = records.iter().filter_map(|r| r.changes);
    all.reduce(|a, b| Changes {
        made: a.made + b.made,
        sockets: a.sockets + b.sockets,
        dropped: a.dropped + b.dropped,
        processes: a.processes.max(b.processes),
    })
}

fn waiting(records: &[Record]) -> Option<Waiting> {
    let found: Vec<_> = records.iter().filter_map(|r| r.idle).collect();
    let connections = found.first()?.connections;
    let bytes: Vec<f64> = found.iter().map(|idle| idle.bytes_each).collect();
    Some(Waiting { connections, bytes_each: estimate(&bytes) })
}

/// Instructions a request, if every run has them.
fn instructions(records: &[Record]) -> Option<Estimate> {
    let counted: Option<Vec<f64>> = records.iter().map(|r| r.instructions_per_request).collect();
    counted.map(|values| estimate(&values))
}

fn each(record: &Record) -> Each {
    let total = &record.load.total;
    Each {
        run: record.run,
        rate: total.rate,
        mean_us: total.latency.mean_us,
        p95_us: total.latency.at(95.0).unwrap_or(0.0),
        cpu_us: record.cpu_us_per_request,
        steal: record.load.generator.steal,
        credits: record.account.map(|a| a.after),
        limited: record.account.map(|a| a.limited),
        idle_bytes: record.idle.map(|i| i.bytes_each),
        memory_first: record.course.first().map(|used| used.memory),
        memory: record.course.last().map(|used| used.memory),
        course: course(record),
    }
}

/// A run over time: the generator's account of it, beside the server's.
fn course(record: &Record) -> Vec<Stretch> {
    let moments = &record.load.timeline;
    // What is left of the last second says little.
    let whole = |m: &&Moment| m.length_s >= moments[0].length_s / 2.0;
    let moments = &moments[..moments.iter().rposition(|m| whole(&m)).map_or(0, |last| last + 1)];
    if moments.len() < FEW_MOMENTS {
        return Vec::new();
    }
    moments.chunks(moments.len().div_ceil(STRETCHES)).filter_map(|some| stretch(record, some)).collect()
}

fn stretch(record: &Record, moments: &[Moment]) -> Option<Stretch> {
    let (first, last) = (moments.first()?, moments.last()?);
    let seconds: f64 = moments.iter().map(|m| m.length_s).sum::<f64>().max(1e-9);
    let each = |of: fn(&Moment) -> Option<f64>| moments.iter().filter_map(of).collect::<Vec<f64>>();
    let (halves, most) = (each(|m| m.p50_us), each(|m| m.p99_us));
    let mean = |values: &[f64]| (!values.is_empty()).then(|| mean(values));
    let (from, until) = (first.at_s - first.length_s, last.at_s);
    let within = |at: f64| (from..=until).contains(&(at - record.load.started_unix_s));
    let cpus: Vec<f64> = record.course.iter().filter(|u| within(u.until_unix_s)).map(|u| u.cpus).collect();
    Some(Stretch {
        at_s: until,
        rate: moments.iter().map(|m| m.requests as f64).sum::<f64>() / seconds,
        p50_us: mean(&halves),
        p99_us: most.into_iter().reduce(f64::max),
        errors: moments.iter().map(|m| (m.errors + m.failed) as f64).sum::<f64>() / seconds,
        cpus: mean(&cpus),
    })
}

fn agreed(tls: &Tls) -> Option<String> {
    let parts: Vec<&str> = [&tls.version, &tls.suite].into_iter().filter_map(|p| p.as_deref()).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn distribution(records: &[Record]) -> Result<Vec<(f64, f64)>> {
    let mut all = Latency::default();
    for record in records {
        all = record.load.total.latency.merged(&all).map_err(|bad| anyhow!("{bad}"))?;
    }
    if all.count == 0 {
        return Ok(Vec::new());
    }
    let histogram = all.decode().map_err(|bad| anyhow!("{bad}"))?;
    let share = |n: usize| n as f64 / SHARES as f64;
    // The last steps are finer: there are the requests that users remember.
    let shares = (0..SHARES).map(share).chain([0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99995, 1.0]);
    Ok(shares.map(|s| (histogram.value_at_quantile(s) as f64 / 1e3, s)).collect())
}

/// The knees of all curves of latency against rate. Contenders of one plot have one limit in a round.
fn knees(rows: &[Row], packed: bool) -> Vec<KneeOf> {
    let of_point = |row: &Row| facet(&row.point, &["rate"]);
    let wanted = || rows.iter().filter(|r| r.rate_wanted.is_some());
    let mut found = Vec::new();
    for point in unique(wanted().map(of_point)) {
        let here = || wanted().filter(|r| of_point(r) == point);
        let curves: Vec<(Contender, Vec<Vec<knee::At>>)> =
            unique(here().map(|r| r.contender)).into_iter().map(|who| (who, rounds(here(), who))).collect();
        // The median round of each, so that one lucky run sets no limit.
        let unloaded = curves.iter().filter_map(|(_, rounds)| {
            let each: Vec<f64> = rounds.iter().filter_map(|curve| knee::unloaded_us(curve)).collect();
            (!each.is_empty()).then(|| median(&each))
        });
        let limit = knee::limit_us(unloaded);
        let lowest =
            here().min_by(|a, b| a.rate_wanted.unwrap_or(0.0).total_cmp(&b.rate_wanted.unwrap_or(0.0)));
        for (who, rounds) in curves {
            if let (Some(knee), Some(lowest)) = (knee::of_runs(&rounds, limit), lowest) {
                // The first rate that was measured and is too much.
                let beyond = here().filter(|r| r.contender == who && knee.place != knee::Where::Above);
                let beyond = beyond
                    .filter(|r| r.rate_wanted.is_some_and(|rate| rate >= knee.rate.median))
                    .min_by(|a, b| a.rate_wanted.unwrap_or(0.0).total_cmp(&b.rate_wanted.unwrap_or(0.0)));
                let limit = beyond.and_then(|row| Limit::of(row, packed));
                found.push(KneeOf { point: lowest.point.clone(), contender: who, knee, limit });
            }
        }
    }
    found
}

/// The curve of each round of one contender.
fn rounds<'a>(rows: impl Iterator<Item = &'a Row>, who: Contender) -> Vec<Vec<knee::At>> {
    let rows: Vec<&Row> = rows.filter(|r| r.contender == who).collect();
    let runs = unique(rows.iter().flat_map(|r| r.each.iter().map(|e| e.run)));
    let curve = |run: u32| {
        let at = |row: &&Row| {
            let each = row.each.iter().find(|e| e.run == run)?;
            Some(knee::At { rate: row.rate_wanted?, reached: each.rate, p95_us: each.p95_us })
        };
        rows.iter().filter_map(at).collect()
    };
    runs.into_iter().map(curve).collect()
}
