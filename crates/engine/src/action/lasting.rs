//! When an answer counts as lasting.
//!
//! Owns: the moment, and the waits up to it.
//! Driven by: actions, between two pieces of a body.
//! Why: events and downloads go on for hours. Were each to keep the plan that it began with, every change of plan
//! would leave another behind. Most answers are over long before, and cost a comparison of times.

use std::time::Duration;

use weir_rt::Instant;

use crate::exchange::Exchange;

/// An answer that is under way for so long lasts.
const LASTING: Duration = Duration::from_secs(1);

/// When an answer that begins now is to be parted from its plan. `None`: never, because who asked waits in the walk, or
/// other bodies come into this one, which are walked by the plan.
pub(super) fn due(exchange: &mut Exchange) -> Option<Instant> {
    (exchange.asked_for.is_none() && exchange.filters.joined_at(0).is_none())
        .then(|| weir_rt::now() + LASTING)
}

/// Whether that time has come.
pub(super) fn is_due(due: Option<Instant>) -> bool {
    due.is_some_and(|due| weir_rt::now() >= due)
}

/// How long there is for more of an answer to come, less what its endpoint was `silent` before it was parted from its plan;
/// and how long of that to wait before it is `due`.
pub(super) fn wait(patience: Duration, silent: &mut Duration, due: Option<Instant>) -> (Duration, Duration) {
    let patience = patience.saturating_sub(std::mem::take(silent));
    let left = due.map_or(patience, |due| due.saturating_duration_since(weir_rt::now()));
    (patience, left.min(patience))
}
