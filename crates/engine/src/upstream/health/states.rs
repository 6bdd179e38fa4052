//! What the checks of each endpoint have found.
//!
//! Owns: how several checks of one endpoint make one state.
//! Driven by: the tasks of the checks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use weir_control::EndpointKey;
use weir_expr::check::OnErrors;
use weir_policy::Millis;
use weir_policy::health::{Health, Transition};

/// What is known of each endpoint that is checked.
pub(super) type States = Rc<RefCell<HashMap<EndpointKey, Checks>>>;

/// The checks of one endpoint, in the order of its settings. It is up while all of them have it up.
pub(super) struct Checks(Vec<Health>);

impl Checks {
    pub(super) fn of(each: Vec<Health>) -> Self {
        Self(each)
    }

    pub(super) fn into_each(self) -> Vec<Health> {
        self.0
    }

    pub(super) fn are_up(&self) -> bool {
        self.0.iter().all(Health::is_up)
    }

    pub(super) fn one(&self, which: usize) -> Option<&Health> {
        self.0.get(which)
    }

    pub(super) fn put_off(&mut self, which: usize, now: Millis) {
        if let Some(health) = self.0.get_mut(which) {
            health.put_off(now);
        }
    }

    /// Takes what a check came to; what that changes of the endpoint.
    pub(super) fn handle_result(&mut self, which: usize, now: Millis, ok: bool) -> Transition {
        self.change(which, |health| health.handle_result(now, ok))
    }

    /// As [`Health::handle_errors`], of the first check: it is the one that traffic has a say in.
    pub(super) fn handle_errors(&mut self, now: Millis, then: OnErrors) -> Transition {
        self.change(0, |health| health.handle_errors(now, then))
    }

    fn change(&mut self, which: usize, change: impl FnOnce(&mut Health) -> Transition) -> Transition {
        let Some(health) = self.0.get_mut(which) else { return Transition::None };
        let transition = change(health);
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != which);
        // While another check has it down, this one decides nothing.
        if others.into_iter().all(|(_, health)| health.is_up()) { transition } else { Transition::None }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_expr::check::FirstState;
    use weir_policy::health::HealthConfig;

    use super::*;

    #[test]
    fn one_check_is_enough_to_be_down_and_all_are_needed_to_be_up() {
        let config = HealthConfig { rise: 1, fall: 1, ..HealthConfig::default() };
        let health = || Health::new(config, Millis(1), Duration::ZERO).beginning(FirstState::FullyUp);
        let mut checks = Checks::of(vec![health(), health()]);
        assert_eq!(checks.handle_result(1, Millis(2), false), Transition::WentDown);
        assert_eq!(checks.handle_result(0, Millis(3), false), Transition::None, "it is down already");
        assert_eq!(checks.handle_result(1, Millis(4), true), Transition::None, "the other keeps it down");
        assert!(!checks.are_up());
        assert_eq!(checks.handle_result(0, Millis(5), true), Transition::WentUp);
        assert!(checks.are_up());
    }
}
