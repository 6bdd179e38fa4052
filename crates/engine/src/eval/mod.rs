//! The expression language at work: templates, conditions, tables, the rule program.
//!
//! Owns: evaluation. Never: I/O, but for the file tests that the language has.
//! Driven by: the exchange's walk, actions, logs.
//! Why: a pattern may give up (`weir_plan::MatchFailed`). Conditions hand that on as a result. A value is appended by
//! some sixty callers that have no way to fail: there it is a doubt, which is kept beside the values and met at the
//! few doors that everything passes: after each instruction of a program, before an action, before a head to an
//! endpoint, before the head of an answer. Each door refuses with 500. Only a log line is written all the same.

pub(crate) mod browsers;
pub(crate) mod certificates;
pub(crate) mod cgi;
pub(crate) mod condition;
pub(crate) mod convert;
mod databases;
pub(crate) mod edit;
mod facts;
pub(crate) mod forwarded;
pub(crate) mod memory;
pub(crate) mod place;
mod pools;
pub(crate) mod program;
pub(crate) mod stick_rules;
mod sticks;
pub(crate) mod tables;
mod targets;
mod tls;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod user_id;
pub(crate) mod users;
pub(crate) mod vars;

pub(crate) use tables::render_with_groups;
pub(crate) use vars::{apply, found, render, text};

use weir_plan::{Captures, Pattern};

use crate::exchange::Core;

/// Keeps the groups of a match: numbered ones for `$1`, named ones as user variables.
pub(crate) fn keep_match(exchange: &mut Core, pattern: &Pattern, captures: &Captures, subject: &[u8]) {
    for &(group, slot) in pattern.named() {
        exchange.slots.set(slot, captures.text(usize::from(group), subject));
    }
    if captures.len() > 1 || pattern.named().is_empty() {
        let ranges =
            (0..captures.len()).map(|group| captures.range(group).map(|range| (range.start, range.end)));
        exchange.captures.keep(subject, ranges);
    }
}

/// A hash for keys of kept connections; the same within a process.
pub(crate) fn hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    thread_local! { static STATE: RandomState = RandomState::new(); }
    STATE.with(|state| state.hash_one(value))
}
