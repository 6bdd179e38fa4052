//! What bounds the work that a pool's trouble makes: exchanges that wait, retries.
//!
//! Owns: an exchange's place among those that wait for an answer, its questions to the budgets of its pool.
//! Never: keeps a count (`weir_policy::budget` does), or is there for pools without bounds.
//! Driven by: [`Picker`](super::picker::Picker).

use std::sync::Arc;

use weir_control::PoolId;
use weir_plan::{Guards, Pool};
use weir_policy::Millis;
use weir_policy::budget::Pressure;
use weir_telemetry::BackKey;

use crate::exchange::Core;
use crate::worker::endpoints::WorkerPool;

/// The bounds of one exchange's attempts.
pub(super) struct Guard {
    pool: PoolId,
    settings: Guards,
    pressure: Arc<Pressure>,
    waits: bool,
}

impl Guard {
    /// An exchange begins; `None`: too many wait already.
    #[cold]
    pub(super) fn begin(core: &Core, pool: &Pool, settings: &Guards, members: &WorkerPool) -> Option<Self> {
        let mut guard = Self {
            pool: pool.id,
            settings: settings.clone(),
            pressure: members.pressure().clone(),
            waits: false,
        };
        if settings.max_pending > 0 {
            guard.waits = guard.pressure.pending.enter(settings.max_pending);
            if !guard.waits {
                core.worker.counters.back(BackKey::Pool(pool.id)).pending_refused.bump();
                return None;
            }
        }
        let now = core.worker.millis();
        if settings.retry_budget.is_some() {
            guard.pressure.retries.begin(now);
        }
        Some(guard)
    }

    /// Whether the budget has room for a retry.
    pub(super) fn allows_retry(&self, now: Millis) -> bool {
        let within = |budget: weir_expr::settings::RetryBudget| {
            self.pressure.retries.allows(now, budget.percent, budget.least)
        };
        self.settings.retry_budget.is_none_or(within)
    }

    /// Takes a retry out of the budget; false: it has to be left out.
    #[cold]
    pub(super) fn take_retry(&self, core: &Core) -> bool {
        let Some(budget) = self.settings.retry_budget else { return true };
        let taken = self.pressure.retries.take(core.worker.millis(), budget.percent, budget.least);
        if !taken {
            core.worker.counters.back(BackKey::Pool(self.pool)).retries_withheld.bump();
        }
        taken
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.waits {
            self.pressure.pending.leave();
        }
    }
}
