//! What the figures say, in sentences.
//!
//! Owns: sentences that are worked out from rows, none of which a person wrote for a result.
//! Never: calls a difference one that its interval does not show.
//! Driven by: `report`.

use super::figures::{Chapter, Each, KneeOf, Row};
use super::knee::{TIMES, Where};
use super::published::{By, Quantity};
use super::words::{counted, facet, number, ratio, unique, unit, with_interval, words};
use super::{statements, verdict};
use crate::contender::Contender;
use crate::stats::{Estimate, estimate, geometric_mean, median};
use weir_loadgen::report::Work;

/// A ratio to one rival over several points.
#[derive(Clone, Debug)]
pub(super) struct Against {
    /// The geometric mean over the points, of each round; median over the rounds.
    pub(super) mean: Estimate,
    /// The same mean of each round.
    pub(super) each: Vec<f64>,
    /// Points.
    pub(super) points: usize,
    /// Points whose interval lies above 1.
    pub(super) more: usize,
    /// Points whose interval lies below 1.
    pub(super) less: usize,
    /// Points whose figures are to be doubted.
    pub(super) doubted: usize,
}

/// What is compared together: the same work in the same mode.
pub(super) type Kind = (crate::scenario::Mode, Work);

/// The kinds of a chapter, in their order.
pub(super) fn kinds(chapter: &Chapter) -> Vec<Kind> {
    unique(chapter.rows.iter().map(|r| (r.point.mode, r.work)))
}

/// The rivals of a chapter: nginx and HAProxy first, then those that were added.
pub(super) fn rivals(chapter: &Chapter) -> Vec<Contender> {
    let mut all = unique(chapter.rows.iter().map(|r| r.contender).filter(|who| who.is_rival()));
    all.sort();
    all
}

/// A kind in words.
pub(super) fn title((mode, work): Kind) -> String {
    match work {
        Work::NewConnections => format!("{}, a connection a request", mode.title()),
        Work::Requests | Work::Echo | Work::Messages | Work::Handshakes => mode.title().to_owned(),
    }
}

/// Rates of Weir over those of a rival; nothing where rates were given, or all shared one CPU.
pub(super) fn rates(chapter: &Chapter, kind: Kind, who: Contender) -> Option<Against> {
    if chapter.packed {
        return None;
    }
    against(chapter, kind, who, |r| r.rate_wanted.is_none(), |e| e.rate, |r| r.weir_over_this)
}

/// CPU time a request of Weir over that of a rival.
pub(super) fn cpu(chapter: &Chapter, kind: Kind, who: Contender) -> Option<Against> {
    against(chapter, kind, who, |_| true, |e| e.cpu_us, |r| r.weir_cpu_over_this)
}

fn against(
    chapter: &Chapter,
    kind: Kind,
    who: Contender,
    counts: fn(&Row) -> bool,
    of: fn(&Each) -> f64,
    point: fn(&Row) -> Option<Estimate>,
) -> Option<Against> {
    let rows: Vec<&Row> = chapter
        .rows
        .iter()
        .filter(|r| (r.point.mode, r.work) == kind && r.contender == who && counts(r))
        .filter(|r| point(r).is_some_and(|e| e.median > 0.0))
        .collect();
    let rounds = unique(rows.iter().flat_map(|r| r.each.iter().map(|e| e.run)));
    let mean_of = |round: u32| {
        let ratios: Vec<f64> = rows
            .iter()
            .filter_map(|r| {
                let weir = chapter.row(&r.point, Contender::Weir)?;
                let at = |row: &Row| row.each.iter().find(|e| e.run == round).map(of).filter(|v| *v > 0.0);
                Some(at(weir)? / at(r)?)
            })
            .collect();
        geometric_mean(&ratios)
    };
    let means: Vec<f64> = rounds.into_iter().filter_map(mean_of).collect();
    (!means.is_empty()).then(|| Against {
        mean: estimate(&means),
        each: means,
        points: rows.len(),
        more: rows.iter().filter(|r| point(r).is_some_and(|e| e.is_above(1.0))).count(),
        less: rows.iter().filter(|r| point(r).is_some_and(|e| e.is_below(1.0))).count(),
        doubted: rows.iter().filter(|r| r.shared_cpus || !r.doubts.is_empty()).count(),
    })
}

/// The sentences of a chapter.
pub(super) fn of(chapter: &Chapter) -> Vec<String> {
    let mut found: Vec<String> =
        chapter.skipped.iter().map(|why| format!("Skipped: {}.", why.trim())).collect();
    if chapter.rows.is_empty() {
        return found;
    }
    if let Some(verdict) = &chapter.verdict {
        found.extend(verdict::sentences(chapter, verdict));
    }
    for who in rivals(chapter) {
        found.extend(beside(chapter, who, "Rate", rates));
        found.extend(beside(chapter, who, "CPU time each", cpu));
    }
    found.extend(knees(chapter));
    found.extend(full(chapter));
    found.extend(jumps(chapter));
    found.extend(drift(chapter));
    found.extend(chapter.rows.iter().filter_map(changes));
    found.extend(beside_published(chapter));
    found.extend(statements::of(chapter));
    found.extend(errors(chapter));
    found.extend(doubts(chapter));
    found
}

/// Where Weir has more than a rival, where less, and where noise hides it.
fn beside(
    chapter: &Chapter,
    who: Contender,
    what: &str,
    of: fn(&Chapter, Kind, Contender) -> Option<Against>,
) -> Option<String> {
    let all: Vec<(Kind, Against)> =
        kinds(chapter).into_iter().filter_map(|kind| Some((kind, of(chapter, kind, who)?))).collect();
    let clearly = |a: &Against| a.mean.interval().map(|_| (a.mean.is_above(1.0), a.mean.is_below(1.0)));
    let words =
        ["higher for", "lower for", "no clear difference for", "too few runs to tell a difference for"];
    let parts: Vec<String> = [Some((true, false)), Some((false, true)), Some((false, false)), None]
        .into_iter()
        .zip(words)
        .filter_map(|(which, word)| {
            let told: Vec<String> = all
                .iter()
                .filter(|(_, a)| clearly(a) == which)
                .map(|(kind, a)| format!("{} {}", title(*kind), ratio(&a.mean, &a.each)))
                .collect();
            (!told.is_empty()).then(|| format!("{word} {}", told.join(", ")))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{what}, Weir ÷ {}: {}.", who.name(), parts.join("; ")))
}

/// The knees of each curve, side by side.
fn knees(chapter: &Chapter) -> Vec<String> {
    let curve = |k: &KneeOf| facet(&k.point, &["rate"]);
    let told = |k: &&KneeOf| {
        let who = k.contender.name();
        let limit = k.limit.map_or_else(String::new, |limit| format!(" ({})", limit.told()));
        match k.knee.place {
            Where::Found => format!("{who} {}{limit}", with_interval(&k.knee.rate, 1.0)),
            Where::Above => format!("{who} above {}, the highest rate measured", number(k.knee.rate.median)),
            Where::Below => {
                format!("{who} below {}, the lowest rate measured{limit}", number(k.knee.rate.median))
            }
        }
    };
    let sentence = |key: String| {
        let of_curve: Vec<&KneeOf> = chapter.knees.iter().filter(|k| curve(k) == key).collect();
        let row = of_curve.first().and_then(|k| chapter.row(&k.point, k.contender));
        let what = row.map_or_else(String::new, |r| words(r, &["rate"]));
        let knees: Vec<String> = of_curve.iter().map(told).collect();
        format!("{what}: knees, requests/s that each keeps up with: {}.", knees.join(", "))
    };
    unique(chapter.knees.iter().map(curve)).into_iter().map(sentence).collect()
}

/// From which rate on the CPUs of each are busy all the time, where that was published, too.
fn full(chapter: &Chapter) -> Vec<String> {
    let published = chapter.published.iter().flat_map(|p| &p.saturated);
    let sentence = |size: String| {
        let told: Vec<String> = chapter
            .published
            .iter()
            .flat_map(|p| &p.saturated)
            .filter(|told| told.size == size)
            .map(|told| format!("{} at {}", told.label, number(told.rate)))
            .collect();
        let rows = || chapter.rows.iter().filter(|r| r.point.size == size && r.rate_wanted.is_some());
        let here: Vec<String> = unique(rows().map(|r| r.contender))
            .into_iter()
            .map(|who| match super::limit::full_from(rows().filter(|r| r.contender == who)) {
                Some(rate) => format!("{} at {}", who.name(), number(rate)),
                None => format!("{} at none of the rates measured", who.name()),
            })
            .collect();
        let what = super::words::size(&size);
        (!here.is_empty()).then(|| {
            format!(
                "{what}B: CPUs have nothing left, requests/s: {}. Published: {}.",
                here.join(", "),
                told.join(", ")
            )
        })
    };
    unique(published.map(|told| told.size.clone())).into_iter().filter_map(sentence).collect()
}

/// Where response times jump from one run to the next and stay: a machine that runs out of credits.
fn jumps(chapter: &Chapter) -> Vec<String> {
    if !chapter.published_curves().iter().any(|c| c.by == By::Run) {
        return Vec::new();
    }
    let told = |row: &Row| {
        let times: Vec<f64> = row.each.iter().map(|e| e.p95_us).collect();
        let best = times.iter().copied().fold(f64::MAX, f64::min);
        // All had the same rate: the best run of any of them is what is usual.
        let same = chapter.rows.iter().filter(|r| r.point == row.point);
        let usual = same.flat_map(|r| r.each.iter().map(|e| e.p95_us)).fold(f64::MAX, f64::min);
        let limit = (usual * TIMES).max(super::knee::LEAST_US);
        let over = times.iter().filter(|t| **t > limit).count();
        let from = times.iter().rposition(|t| *t <= limit).map_or(0, |last| last + 1);
        let who = row.contender.name();
        let what = words(row, &[]);
        let spent = row.each.iter().find(|e| e.credits.is_some_and(|c| c < 0.01));
        let spent =
            spent.map_or_else(String::new, |e| format!(" Its credits were spent in run {}.", e.run + 1));
        let told = if over == 0 {
            format!(
                "{what}: the 95th percentile of {who} stays within {} ms in all {} runs.",
                number(limit / 1e3),
                times.len()
            )
        } else if from < times.len() {
            format!(
                "{what}: from run {} of {} on, the 95th percentile of {who} stays above {} ms; the best run has {} ms.",
                from + 1,
                times.len(),
                number(limit / 1e3),
                number(best / 1e3)
            )
        } else {
            format!(
                "{what}: the 95th percentile of {who} is above {} ms in {over} of {} runs, and comes back.",
                number(limit / 1e3),
                times.len()
            )
        };
        told + &spent
    };
    chapter.rows.iter().filter(|r| r.rate_wanted.is_some()).map(told).collect()
}

/// What changes of the configuration cost those who were connected.
fn changes(row: &Row) -> Option<String> {
    let changes = row.changes?;
    let each = |which: fn(&Each) -> Option<u64>| {
        let values: Vec<f64> = row.each.iter().filter_map(which).map(|bytes| bytes as f64).collect();
        (!values.is_empty()).then(|| number(median(&values) / f64::from(1 << 20)))
    };
    let memory =
        each(|e| e.memory_first).zip(each(|e| e.memory)).map_or_else(String::new, |(first, last)| {
            format!("; memory {first} MB in the first second, {last} MB in the last")
        });
    Some(format!(
        "{}, {}: {} of {} requests failed; {} of {} were refused or cut; 99th percentile {} ms{memory}; {} at the end.",
        row.contender.name(),
        counted(changes.made, "change"),
        number(row.failures() as f64),
        number(row.requests as f64),
        changes.dropped,
        counted(changes.sockets, "socket"),
        number(row.p99_us.median / 1e3),
        match changes.processes {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        }
    ))
}

/// What the last ramp of a soak shows beside the first, at the same rates.
fn drift(chapter: &Chapter) -> Vec<String> {
    let told = |who: Contender| {
        let rows: Vec<&Row> = chapter
            .rows
            .iter()
            .filter(|r| r.contender == who && r.rate_wanted.is_some() && r.each.len() > 1)
            .collect();
        let over = |of: fn(&Each) -> f64| {
            let ratio = |row: &&Row| {
                let (first, last) = (row.each.first()?, row.each.last()?);
                (of(first) > 0.0 && of(last) > 0.0).then(|| of(last) / of(first))
            };
            let ratios: Vec<f64> = rows.iter().filter_map(ratio).collect();
            geometric_mean(&ratios).map(number)
        };
        // After the highest rate: what a ramp has grown to.
        let memory = |which: fn(&[Each]) -> Option<&Each>| {
            let at = rows.last().and_then(|row| which(&row.each)?.memory)?;
            Some(number(at as f64 / f64::from(1 << 20)))
        };
        let memory = memory(|each| each.first())
            .zip(memory(|each| each.last()))
            .map_or_else(String::new, |(first, last)| {
                format!("; memory {first} MB after the first, {last} MB after the last")
            });
        Some(format!(
            "{}, the last of {} ramps ÷ the first, geometric means over {}: 95th percentile {}, CPU time each {}{memory}.",
            who.name(),
            rows.iter().map(|r| r.each.len()).max()?,
            counted(rows.len() as u32, "rate"),
            over(|e| e.p95_us)?,
            over(|e| e.cpu_us)?,
        ))
    };
    let all = chapter.soak.then(|| unique(chapter.rows.iter().map(|r| r.contender)));
    all.into_iter().flatten().filter_map(told).collect()
}

/// How this machine stands to the published one: the same rival, as many workers.
fn beside_published(chapter: &Chapter) -> Vec<String> {
    let mut found = Vec::new();
    let curves = chapter.published_curves().iter().filter(|c| c.by == By::Workers && c.who == "nginx");
    for curve in curves {
        let of = |r: &Row| if curve.quantity == Quantity::Gbit { r.gbit } else { r.rate };
        let same = |r: &&Row| {
            r.contender == Contender::Nginx
                && (curve.quantity == Quantity::Gbit || curve.quantity == r.quantity())
                && r.rate_wanted.is_none()
                && curve.size.as_ref().is_none_or(|s| *s == r.point.size)
                && curve.encrypted.is_none_or(|e| e == r.point.mode.encrypted())
        };
        let at = |r: &Row| curve.points.iter().find(|p| p.0 == f64::from(r.point.workers)).map(|p| p.1);
        let here = chapter.rows.iter().filter(same).find_map(|r| Some((r, at(r)?)));
        found.extend(here.map(|(row, published)| {
            format!(
                "{}: nginx with {} does {} {} here; published: {} ({}), {} times as much.",
                words(row, &["workers"]),
                counted(u32::from(row.point.workers), "worker"),
                with_interval(&of(row), 1.0),
                unit(curve.quantity),
                number(published),
                curve.label,
                number(published / of(row).median.max(f64::MIN_POSITIVE))
            )
        }));
    }
    found
}

fn errors(chapter: &Chapter) -> Vec<String> {
    let failed: u64 = chapter.rows.iter().map(Row::failures).sum();
    let requests: u64 = chapter.rows.iter().map(|r| r.requests).sum();
    let mut found =
        vec![format!("{} errors among {} requests.", number(failed as f64), number(requests as f64))];
    let worst = chapter.rows.iter().filter(|r| r.failures() > 0).max_by_key(|r| r.failures());
    found.extend(worst.map(|r| {
        format!(
            "Most errors: {} of {} at {}: {}.",
            number(r.failures() as f64),
            number(r.requests as f64),
            r.contender.name(),
            words(r, &[])
        )
    }));
    found
}

/// What speaks against the figures: the last of the sentences.
pub(super) fn doubts(chapter: &Chapter) -> Vec<String> {
    if chapter.rows.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let all = chapter.rows.len();
    let names = unique(chapter.rows.iter().flat_map(|r| r.doubts.keys()));
    for name in names {
        let with: Vec<&Row> = chapter.rows.iter().filter(|r| r.doubts.contains_key(name)).collect();
        let meaning = match name.as_str() {
            "generator-saturated" => {
                "the generator's threads were busy or waited for a CPU nearly all the time, so rates at full speed are at least partly its own, and differences between servers come out too small"
            }
            "rate-not-reached" => "fewer requests than wanted were completed",
            "generator-late" => {
                "the generator sent late what it could have sent on time: part of the times is its own"
            }
            "steal" => "the host took CPU time away from this machine",
            "throttled" => "a control group's limit stopped the generator",
            "unfinished" => "requests were unfinished when time was up, and are in no percentile",
            "nothing-measured" => "nothing was completed",
            _ => "see report.json",
        };
        found.push(format!("To be doubted: {name} in {} of {all} rows: {meaning}.", with.len()));
    }
    let shared = chapter.rows.iter().filter(|r| r.shared_cpus).count();
    if shared > 0 && !chapter.packed {
        found.push(format!(
            "In {shared} of {all} rows server and generator share CPUs: these rates are those of both together, and say little of the server's capacity."
        ));
    }
    if chapter.packed {
        found.push("All share one CPU on purpose: CPU time a request counts here, requests a second and response times do not.".into());
    }
    if !chapter.missing.is_empty() {
        let points = unique(chapter.missing.iter().map(|m| facet(&m.point, &[]))).len();
        found.push(format!("{} have no figures, or not all; see below.", counted(points as u32, "point")));
    }
    found
}
