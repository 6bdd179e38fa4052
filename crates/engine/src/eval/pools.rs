//! How a pool stands, as variables and conditions show it.
//!
//! Owns: counts of usable endpoints and of exchanges in flight.
//! Never: chooses; `upstream::picker` does.
//! Driven by: variables.

use weir_expr::Count;

use crate::exchange::Core;

impl Core {
    /// Exchanges of its pool in flight in this worker, or in the process where counts are shared.
    pub(crate) fn pool_in_flight(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        self.installed.pools[pool.at()].borrow().in_flight()
    }

    /// A count of a pool by name: its usable endpoints, or its exchanges in flight.
    pub(crate) fn named_pool_count(&self, name: &str, count: Count) -> u64 {
        let installed = &self.installed;
        let Some(at) = installed.plan.pools.iter().position(|pool| &*pool.name == name) else { return 0 };
        let Some(pool) = installed.pools.get(at) else { return 0 };
        match count {
            Count::UsableEndpoints => pool.borrow().usable(),
            _ => pool.borrow().in_flight(),
        }
    }

    /// Exchanges of its endpoint in flight.
    pub(crate) fn endpoint_in_flight(&self) -> u64 {
        let (Some(pool), Some(attempt)) = (self.pool, self.attempts.last()) else { return 0 };
        self.installed.pools[pool.at()].borrow().in_flight_of(&attempt.address, &attempt.endpoint)
    }

    /// Endpoints of its pool that could be chosen.
    pub(crate) fn usable_endpoints(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        self.installed.pools[pool.at()].borrow().usable()
    }
}
