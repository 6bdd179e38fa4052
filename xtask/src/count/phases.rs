//! Instructions by phase of a request.
//!
//! Owns: which source file belongs to which phase, and the table.
//! Never: knows functions of ours by name: they come and go, folders stay.
//! Driven by: `count`.

use super::profile::{Place, Profile};
use std::fmt::Write as _;

/// Phases in the order of the table, each with parts of paths of its files. The first that fits decides.
const PHASES: [(&str, &[&str]); 14] = [
    ("log", &["engine/src/logging/", "telemetry/src/log/"]),
    ("counting", &["engine/src/worker/count", "telemetry/src/count/", "crates/control/"]),
    (
        "timers and clock",
        &["rt/src/timer", "rt/src/clock", "rt/src/alarm", "rt/src/paged", "engine/src/worker/watch"],
    ),
    (
        "sending and receiving",
        &[
            "crates/wire/",
            "rt/src/stream",
            "rt/src/conn",
            "rt/src/reactor",
            "rt/src/source",
            "rt/src/buf",
            "rustix",
        ],
    ),
    ("executor", &["crates/rt/", "compio", "engine/src/worker/race"]),
    (
        "writing heads",
        &[
            "http/src/write",
            "http/src/date",
            "http/src/status",
            "engine/src/exchange/fields",
            "upstream_head",
            "action/rewrite",
            "engine/src/answer/",
            "engine/src/http/h1",
        ],
    ),
    ("parsing", &["crates/http/", "memchr"]),
    (
        "choosing an endpoint",
        &["engine/src/upstream/picker", "engine/src/upstream/target", "policy/src/pool", "policy/src/retry"],
    ),
    ("kept connections", &["engine/src/upstream/", "policy/src/idle"]),
    (
        "proxying",
        &[
            "engine/src/action/proxy",
            "engine/src/action/proxied",
            "engine/src/action/attempt",
            "engine/src/action/relay",
            "engine/src/action/rest",
        ],
    ),
    ("files", &["engine/src/action/files"]),
    (
        "routing and rules",
        &["engine/src/walk/", "engine/src/eval/", "engine/src/admission/", "crates/plan/", "crates/expr/"],
    ),
    ("exchange", &["crates/engine/"]),
    ("hashing", &["ahash", "hashbrown"]),
];

/// What no phase of ours takes: by the function.
const OTHERS: [(&str, &[&str]); 3] = [
    ("allocator", &["mi_", "malloc", "realloc", "free", "alloc::"]),
    ("copying and comparing", &["mem", "bcmp"]),
    ("the rest", &[""]),
];

/// What was counted for one row, by phase, per request.
pub(super) struct Phases {
    costs: Vec<u64>,
    total: u64,
}

impl Phases {
    pub(super) fn of(profile: &Profile, requests: u32) -> Self {
        let mut costs = vec![0; PHASES.len() + OTHERS.len()];
        for (place, cost) in profile.costs() {
            costs[phase(place)] += cost;
        }
        let requests = u64::from(requests);
        let total = costs.iter().sum::<u64>() / requests;
        costs.iter_mut().for_each(|cost| *cost = (*cost + requests / 2) / requests);
        Self { costs, total }
    }

    /// Instructions per request.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// The place in the table of where instructions are spent. Code of the standard library that was inlined belongs to
/// whatever it was inlined into.
fn phase(place: &Place) -> usize {
    let by_file =
        |file: &str| PHASES.iter().position(|(_, parts)| parts.iter().any(|part| file.contains(part)));
    let other =
        || OTHERS.iter().position(|(_, parts)| parts.iter().any(|part| place.function.contains(part)));
    by_file(&place.file)
        .or_else(|| by_file(&place.home))
        .or_else(|| other().map(|at| PHASES.len() + at))
        .unwrap_or(PHASES.len() + OTHERS.len() - 1)
}

/// The table in Markdown, a column for each row of the benchmark.
pub(super) fn table(columns: &[(&str, Phases)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut out =
        format!("| instructions per request | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    let phases = PHASES.iter().chain(&OTHERS).map(|(name, _)| *name);
    for (at, name) in phases.enumerate() {
        put(&mut out, name, columns.iter().map(|(_, phases)| phases.costs[at]));
    }
    put(&mut out, "**all**", columns.iter().map(|(_, phases)| phases.total));
    out
}

fn put(out: &mut String, name: &str, costs: impl Iterator<Item = u64>) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\n| {name} |");
    for cost in costs {
        let _ = write!(out, " {cost} |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase_of(file: &str, home: &str, function: &str) -> &'static str {
        let place = Place { file: file.into(), home: home.into(), function: function.into() };
        PHASES.iter().chain(&OTHERS).map(|phase| phase.0).nth(phase(&place)).unwrap_or_default()
    }

    #[test]
    fn inlined_code_belongs_to_where_it_was_written_and_the_library_s_to_its_caller() {
        let std = "/rustc/0/library/core/src/slice/mod.rs";
        assert_eq!(
            phase_of("/w/crates/http/src/lines.rs", "/w/crates/engine/src/http/connection.rs", "f"),
            "parsing"
        );
        assert_eq!(phase_of(std, "/w/crates/http/src/write.rs", "f"), "writing heads");
        assert_eq!(phase_of("???", "???", "__memcpy_avx_unaligned_erms"), "copying and comparing");
        assert_eq!(phase_of("alloc.c", "alloc.c", "mi_malloc"), "allocator");
        assert_eq!(phase_of("???", "???", "epoll_wait"), "the rest");
    }
}
