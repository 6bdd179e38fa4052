//! The verdict on points that have names: ratios to the best rival, and whether they meet their targets.
//!
//! Owns: whom a row is compared with; when a target, the mean and the ceiling are met.
//! Never: hides a row that fell short or has no figures.
//! Driven by: `chapter`; its tables stand in every form of the report, and at the end of a run on the terminal.
//! Why: targets are ratios within one round; absolute figures drift by a factor of two between machines and hours. A target
//! is met if the lower end of the interval is at or below it.

use super::environment::environment;
use super::figures::{Against, Chapter, Each, Judged, Mean, Report, Row, Unit, Verdict};
use super::table::Table;
use super::words::{beside, counted, raw, unique, whole};
use crate::contender::{Contender, Kind};
use crate::results::Settings;
use crate::scenario::{Goal, Targets};
use crate::stats::{ENOUGH, Estimate, estimate, geometric_mean};
use std::fmt::Write;

/// Fewer pairs than these are a look, not a verdict.
pub const PAIRS: u32 = 9;

/// The verdict on a chapter's rows; nothing where no point has a name. `of` is how many rows a mean would have.
pub(super) fn of(
    chapter: &Chapter,
    (goals, targets, of): (&[Goal], Option<Targets>, usize),
    settings: &Settings,
) -> Option<Verdict> {
    let rows: Vec<Judged> = goals.iter().map(|goal| judge(chapter, goal, settings)).collect();
    let short = rows.iter().filter(|r| r.met == Some(false)).map(|r| r.id.clone()).collect();
    let counted: Vec<(&Judged, Estimate)> =
        rows.iter().filter(|r| r.counts).filter_map(|r| Some((r, r.ratio?))).collect();
    let medians: Vec<f64> = counted.iter().map(|(_, ratio)| ratio.median).collect();
    let mean = targets.zip(geometric_mean(&medians)).map(|(targets, value)| Mean {
        value,
        rows: medians.len(),
        of,
        targets,
        met: counted.iter().all(|(_, e)| e.interval().is_some()).then_some(value <= targets.mean),
        above: counted
            .iter()
            .filter(|(_, e)| e.is_above(targets.ceiling))
            .map(|(r, _)| r.id.clone())
            .collect(),
    });
    (!rows.is_empty()).then_some(Verdict { rows, mean, short })
}

fn judge(chapter: &Chapter, goal: &Goal, settings: &Settings) -> Judged {
    let unit = if goal.point.mode.is_idle() { Unit::Bytes } else { Unit::CpuUs };
    let own = chapter.row(&goal.point, goal.by);
    let others: Vec<Against> = chapter
        .rows
        .iter()
        .filter(|r| r.point == goal.point && r.contender != goal.by && r.contender != Contender::Direct)
        .filter_map(|r| against(own?, r, unit, settings.kind(r.contender)))
        .collect();
    let candidate = |a: &&Against| match goal.against {
        Some(who) => a.contender == who,
        None => a.kind.is_some_and(|kind| kind != Kind::Weir),
    };
    let best = others.iter().filter(candidate).min_by(|a, b| a.cost.median.total_cmp(&b.cost.median));
    let why = spoiled(chapter, goal, own).or_else(|| best.is_none().then(|| "nobody to compare with".into()));
    let ratio = best.map(|b| b.ratio).filter(|_| why.is_none());
    // A row without a ratio falls short; one with too few runs is not judged.
    let meets = |wanted: Option<f64>| match (wanted, ratio) {
        (None, _) => None,
        (Some(_), None) => Some(false),
        (Some(wanted), Some(ratio)) => ratio.low.map(|low| low <= wanted),
    };
    Judged {
        id: goal.id.clone(),
        title: goal.title.clone(),
        point: goal.point.clone(),
        by: goal.by,
        unit,
        cost: own.and_then(|r| cost(r, unit)),
        rate: own.and_then(|r| rate(r, unit)),
        best: best.map(|b| b.contender),
        ratio,
        target: goal.target,
        stretch: goal.stretch,
        met: meets(goal.target),
        stretched: meets(goal.stretch),
        why,
        counts: goal.counts(),
        others,
    }
}

/// Why a row cannot be judged: it has no figures, somebody at its point failed, or requests did.
fn spoiled(chapter: &Chapter, goal: &Goal, own: Option<&Row>) -> Option<String> {
    // Another seat of Weir that fails spoils its own rows alone.
    let matters = |who: Contender| who == goal.by || Some(who) == goal.against || who.is_rival();
    let failed =
        chapter.missing.iter().find(|m| m.point == goal.point && m.failed && m.contender.is_none_or(matters));
    if let Some(missing) = failed {
        return Some(match missing.contender {
            Some(who) if !missing.why.contains(who.name()) => format!("{}: {}", who.name(), missing.why),
            _ => missing.why.clone(),
        });
    }
    if own.is_none() {
        return Some("not measured".into());
    }
    let here = chapter.rows.iter().filter(|r| r.point == goal.point && matters(r.contender));
    let worst = here.max_by_key(|r| r.failures()).filter(|r| r.failures() > 0)?;
    Some(format!("{}: {} errors among {} requests", worst.contender.name(), worst.failures(), worst.requests))
}

fn cost(row: &Row, unit: Unit) -> Option<Estimate> {
    match unit {
        Unit::CpuUs => Some(row.cpu_us),
        Unit::Bytes => row.idle.as_ref().map(|idle| idle.bytes_each),
    }
}

fn rate(row: &Row, unit: Unit) -> Option<f64> {
    (unit == Unit::CpuUs).then_some(row.rate.median)
}

fn against(own: &Row, other: &Row, unit: Unit, kind: Option<Kind>) -> Option<Against> {
    let of = |each: &Each| match unit {
        Unit::CpuUs => each.cpu_us,
        Unit::Bytes => each.idle_bytes.unwrap_or(0.0),
    };
    let ratios: Vec<f64> = own
        .each
        .iter()
        .filter_map(|mine| {
            let same = other.each.iter().find(|its| its.run == mine.run)?;
            (of(same) > 0.0).then(|| of(mine) / of(same))
        })
        .collect();
    (!ratios.is_empty()).then(|| Against {
        contender: other.contender,
        kind,
        cost: cost(other, unit).unwrap_or_default(),
        rate: rate(other, unit),
        ratio: estimate(&ratios),
        min: ratios.iter().copied().fold(f64::MAX, f64::min),
        max: ratios.iter().copied().fold(f64::MIN, f64::max),
        each: ratios,
    })
}

impl Judged {
    fn pairs(&self) -> usize {
        let best = self.others.iter().find(|a| Some(a.contender) == self.best);
        best.map_or(0, |a| a.each.len())
    }

    fn figure(&self, value: f64) -> String {
        match self.unit {
            Unit::Bytes => format!("{value:.0} B"),
            Unit::CpuUs if value < 100.0 => format!("{value:.1}"),
            Unit::CpuUs => format!("{value:.0}"),
        }
    }

    /// What stands under "met": yes, no, and whether the stretch is met too.
    fn told(&self) -> &'static str {
        match (self.met, self.stretched) {
            (Some(true), Some(true)) => "yes, stretch too",
            (Some(true), _) => "yes",
            (Some(false), _) => "no",
            (None, _) => "",
        }
    }
}

/// Other builds of Weir at any of the rows: each has a column of its own.
fn builds(verdict: &Verdict) -> Vec<Contender> {
    let all = verdict.rows.iter().flat_map(|r| r.others.iter());
    let named = all.filter(|a| a.kind == Some(Kind::Weir) && matches!(a.contender, Contender::Named(_)));
    unique(named.map(|a| a.contender))
}

/// The table of a verdict.
pub(super) fn table(verdict: &Verdict) -> Table {
    let head = [
        ("work", false),
        ("Weir", true),
        ("best rival", true),
        ("ratio", true),
        ("95%", true),
        ("target", true),
        ("met", false),
        ("req/s (rival)", true),
    ];
    let mut table = Table::new(&head);
    let builds = builds(verdict);
    table.head.extend(builds.iter().map(|who| (format!("÷ {} (min–max)", who.name()), true)));
    table.rows = verdict.rows.iter().map(|row| line(row, &builds)).collect();
    table
}

fn line(row: &Judged, builds: &[Contender]) -> Vec<String> {
    let best = row.others.iter().find(|a| Some(a.contender) == row.best);
    let short = |why: &String| why.lines().next().unwrap_or_default().chars().take(80).collect::<String>();
    let rates = row.rate.zip(best.and_then(|b| b.rate));
    let goal = row.target.unwrap_or(1.0);
    let mut cells = vec![
        row.title.clone(),
        row.cost.map_or_else(String::new, |c| row.figure(c.median)),
        best.map_or_else(String::new, |b| format!("{} {}", row.figure(b.cost.median), b.contender.name())),
        row.ratio.map_or_else(|| row.why.as_ref().map(short).unwrap_or_default(), |r| beside(r.median, goal)),
        row.ratio.map_or_else(String::new, |r| match r.interval() {
            // The lower end is what meets a target.
            Some((low, high)) => format!("{}–{}", beside(low, goal), beside(high, goal)),
            None => format!("too few runs: {}", raw(best.map_or(&[], |b| &b.each))),
        }),
        row.target.map_or_else(String::new, |t| format!("{t:.2}")),
        row.told().to_owned(),
        rates.map_or_else(String::new, |(ours, theirs)| format!("{ours:.0} ({theirs:.0})")),
    ];
    cells.extend(builds.iter().map(|who| {
        let one = row.others.iter().find(|a| a.contender == *who);
        one.map_or_else(String::new, |a| format!("{:.3} ({:.3}–{:.3})", a.ratio.median, a.min, a.max))
    }));
    cells
}

/// What the table means, and what the rows say together.
pub(super) fn sentences(chapter: &Chapter, verdict: &Verdict) -> Vec<String> {
    let title =
        |id: &String| verdict.rows.iter().find(|r| r.id == *id).map_or(id.clone(), |r| r.title.clone());
    let names = |ids: &[String]| {
        if ids.is_empty() { "none".to_owned() } else { ids.iter().map(title).collect::<Vec<_>>().join(", ") }
    };
    let mut told = Vec::new();
    if let Some(mean) = &verdict.mean {
        let Targets { mean: target, stretch, ceiling } = mean.targets;
        let word = match mean.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not judged: too few runs",
        };
        told.push(format!(
            "Geometric mean of the CPU ratios: {:.3} over {} of {} rows (target {target:.2} {word}, stretch {stretch:.2}).",
            mean.value, mean.rows, mean.of
        ));
        if mean.met.is_some() {
            told.push(format!("CPU rows above {ceiling:.2} with certainty: {}.", names(&mean.above)));
        }
    }
    if verdict.rows.iter().any(|r| r.met.is_some()) {
        told.push(format!("Rows that fall short: {}.", names(&verdict.short)));
    }
    let unjudged = verdict.rows.iter().filter_map(|r| Some((r, r.why.as_ref()?)));
    told.extend(
        unjudged.map(|(r, why)| format!("{} has no verdict: {}.", r.title, why.trim_end_matches('.'))),
    );
    let few = verdict.rows.iter().filter(|r| r.unit == Unit::CpuUs && r.ratio.is_some());
    if let Some(least) = few.map(Judged::pairs).min().filter(|n| *n < PAIRS as usize) {
        told.push(if least < ENOUGH {
            format!("Too few pairs a row ({least}, of at least {ENOUGH}): nothing is judged.")
        } else {
            format!("Fewer than {PAIRS} pairs a row ({least}): a look, not a verdict.")
        });
    }
    told.extend(chapter.rows.iter().filter_map(memory_note));
    told
}

/// How many connections waited; how a server of many sites began.
fn memory_note(row: &Row) -> Option<String> {
    if let Some(idle) = &row.idle {
        let first = row.contender == Contender::Weir;
        return first
            .then(|| format!("{}: {} of them were held.", row.point.mode.title(), whole(idle.connections)));
    }
    let (start, [sites, locations]) = (row.start?, row.sites?);
    Some(format!(
        "{} with {} of {}: up in {:.2} s, {:.0} MB.",
        row.contender.name(),
        counted(sites, "site"),
        counted(locations, "location"),
        start.seconds.median,
        start.memory.median / f64::from(1 << 20)
    ))
}

/// The verdicts of a report for a terminal; empty where there is none.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    for (chapter, verdict) in with_verdicts(report) {
        let _ = writeln!(out, "\n{}: {}\n\n{}", chapter.id, chapter.title, table(verdict).text());
        for sentence in sentences(chapter, verdict) {
            let _ = writeln!(out, "{sentence}");
        }
    }
    out
}

/// The verdicts of a report for a document: the environment, then tables with what they say together.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for (name, value) in environment(report) {
        let _ = writeln!(out, "- {name}: {value}");
    }
    for (chapter, verdict) in with_verdicts(report) {
        let _ = write!(
            out,
            "- {}: {} runs of {} s\n\n{}",
            chapter.id,
            chapter.runs,
            chapter.seconds,
            table(verdict).markdown()
        );
        for sentence in sentences(chapter, verdict) {
            let _ = writeln!(out, "\n{sentence}");
        }
    }
    out
}

fn with_verdicts(report: &Report) -> impl Iterator<Item = (&Chapter, &Verdict)> {
    report.scenarios.iter().filter_map(|c| Some((c, c.verdict.as_ref()?)))
}
