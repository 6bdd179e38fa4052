//! What the figures say, in sentences.
//!
//! Owns: sentences that are worked out from rows, none of which a person wrote for a result.
//! Never: calls a difference one that its interval does not show.
//! Driven by: `report`.

use super::{Chapter, Row, number, unique};
use crate::scenario::Who;
use crate::stats::{Estimate, geometric_mean};

/// The sentences of a chapter.
pub(super) fn of(chapter: &Chapter) -> Vec<String> {
    let mut found = Vec::new();
    for mode in unique(chapter.rows.iter().map(|r| r.point.mode)) {
        for who in [Who::Nginx, Who::Haproxy] {
            let rows: Vec<&Row> =
                chapter.rows.iter().filter(|r| r.point.mode == mode && r.contender == who).collect();
            let sentence = against(&rows, "requests a second", |r| r.weir_over_this);
            found.extend(sentence.map(|s| format!("{}: {s} of {}.", mode.title(), who.name())));
            let sentence = against(&rows, "CPU time a request", |r| r.weir_cpu_over_this);
            found.extend(sentence.map(|s| format!("{}: {s} of {}.", mode.title(), who.name())));
        }
    }
    let failed: u64 = chapter.rows.iter().map(|r| r.errors + r.bad_status).sum();
    let requests: u64 = chapter.rows.iter().map(|r| r.requests).sum();
    found.push(format!("{} errors among {} requests.", number(failed as f64), number(requests as f64)));
    let worst = chapter.rows.iter().filter(|r| r.errors + r.bad_status > 0);
    found.extend(worst.max_by_key(|r| r.errors + r.bad_status).map(|r| {
        format!(
            "Most errors: {} at {}, {}.",
            r.contender.name(),
            r.point.name(),
            number((r.errors + r.bad_status) as f64)
        )
    }));
    let doubted: Vec<&Row> = chapter.rows.iter().filter(|r| !r.doubts.is_empty()).collect();
    if !doubted.is_empty() {
        let names = unique(doubted.iter().flat_map(|r| r.doubts.keys()));
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        found.push(format!(
            "{} of {} rows are to be doubted; the generator warned of: {}.",
            doubted.len(),
            chapter.rows.len(),
            names.join(", ")
        ));
    }
    if chapter.rows.iter().any(|r| r.shared_cpus) {
        found.push(
            "Where server and generator share CPUs, requests a second are those of both together.".into(),
        );
    }
    if !chapter.missing.is_empty() {
        found.push(format!(
            "{} points or contenders have no figures, or not all; see below.",
            chapter.missing.len()
        ));
    }
    found
}

/// Weir's ratio to one rival over all rows of a mode, and in how many of them it is beyond its interval.
fn against(rows: &[&Row], what: &str, of: fn(&Row) -> Option<Estimate>) -> Option<String> {
    let ratios: Vec<Estimate> = rows.iter().filter_map(|r| of(r)).filter(|e| e.median > 0.0).collect();
    let mean = geometric_mean(&ratios.iter().map(|e| e.median).collect::<Vec<f64>>())?;
    let more = ratios.iter().filter(|e| e.low > 1.0).count();
    let less = ratios.iter().filter(|e| e.high < 1.0).count();
    Some(format!(
        "Weir has {} times the {what} (geometric mean of {} points; clearly more in {more}, clearly less in {less})",
        number(mean),
        ratios.len()
    ))
}
