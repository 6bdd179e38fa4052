//! How a pool stands, as variables and conditions show it.
//!
//! Owns: counts of usable endpoints and of exchanges in flight.
//! Never: chooses; `upstream::picker` does.
//! Driven by: variables.

use weir_expr::Count;

use crate::exchange::Core;
use crate::worker::endpoints::EndpointStanding;

impl Core {
    /// Exchanges of its pool in flight in this worker, or in the process where counts are shared.
    pub(crate) fn pool_in_flight(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        self.installed.pools[pool.at()].borrow().in_flight()
    }

    /// A count of a pool by name; 0 where there is no such pool.
    pub(crate) fn named_pool_count(&self, name: &str, count: Count) -> i64 {
        let installed = &self.installed;
        let Some(at) = installed.plan.pools.iter().position(|pool| &*pool.name == name) else { return 0 };
        let Some(pool) = installed.pools.get(at) else { return 0 };
        let pool = pool.borrow();
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match count {
            Count::UsableEndpoints => whole(pool.usable()),
            Count::PoolQueue => whole(pool.waiting()),
            Count::AverageQueue => match pool.usable() {
                0 => whole(pool.waiting()),
                usable => whole(pool.waiting().div_ceil(usable)),
            },
            Count::FreeSlots => pool
                .standings()
                .filter(|one| one.up)
                .try_fold(0, |sum, one| Some(sum + one.free()?))
                .unwrap_or(-1),
            _ => whole(pool.in_flight()),
        }
    }

    /// How an endpoint of a pool stands, both by name.
    pub(crate) fn named_endpoint(&self, pool: &str, name: &str) -> Option<EndpointStanding> {
        let installed = &self.installed;
        let at = installed.plan.pools.iter().position(|one| &*one.name == pool)?;
        installed.pools.get(at)?.borrow().standing_of(name)
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
