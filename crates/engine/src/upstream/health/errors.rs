//! Errors in a row that traffic met at an endpoint (HAProxy's `observe` with `on-error`).
//!
//! Owns: what they do to its health.
//! Driven by: the thread's loop, when a worker sent word of them.

use std::time::Duration;

use weir_control::EndpointKey;
use weir_expr::check::{Observe, OnErrors};
use weir_plan::HealthCheck;
use weir_policy::pool::Standing;

use super::result::Failed;
use super::{Running, States, Watched, checked, report};
use crate::worker::shared::Shared;

/// More events at once than this say nothing more.
const MOST: u32 = 1 << 10;

impl Running {
    /// Takes the errors that were too many at an endpoint; `last`: of what kind.
    pub(super) fn take_errors(&self, shared: &Shared, states: &States, endpoint: EndpointKey, last: &str) {
        let Some((watched, task)) = self.observed.get(&endpoint) else { return };
        let state = &watched.live.state;
        let times = state.members().get(watched.at).map_or(0, |member| member.take_errors());
        let Some(check) = &watched.endpoint().check else { return };
        let Some(observe) = check.observe else { return };
        if state.standing(&watched.live.set.config, watched.at) == Standing::Maintenance {
            return;
        }
        for _ in 0..times.min(MOST) {
            event(shared, states, watched, (check, observe), last);
        }
        task.wake_all();
    }
}

fn event(
    shared: &Shared,
    states: &States,
    watched: &Watched,
    (check, observe): (&HealthCheck, Observe),
    last: &str,
) {
    let (key, now) = (watched.endpoint().key, shared.millis(weir_rt::now()));
    let text = format!("Detected {} consecutive errors, last one was: {last}", observe.limit);
    let failed = Err(Failed::new("HANA", format!("Health analyze, info: \"{text}\"")));
    let transition = {
        let mut states = states.borrow_mut();
        let Some(all) = states.get_mut(&key) else { return };
        let transition = all.handle_errors(now, observe.then);
        let Some(health) = all.one(0) else { return };
        // Where no check was made to fail, what the last one found stands.
        let found = match observe.then {
            OnErrors::CheckSooner => shared.checked(key),
            _ => Some(checked(check, health, &failed, now, Duration::ZERO)),
        };
        if let Some(mut found) = found {
            found.report.errors = Some(health.errors());
            shared.set_checked(key, found);
        }
        transition
    };
    report(shared, watched, transition, failed, now);
}
