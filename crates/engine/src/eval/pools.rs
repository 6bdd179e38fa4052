//! How a pool stands, as variables and conditions show it.
//!
//! Owns: counts of usable endpoints and of exchanges in flight.
//! Never: chooses; `upstream::picker` does.
//! Driven by: variables.

use weir_expr::{Count, RateOf};
use weir_telemetry::{BackKey, FrontKey};

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
            Count::FreePlaces => pool
                .standings()
                .filter(|one| one.up)
                .try_fold(0, |sum, one| Some(sum + one.free()? + one.places()?))
                .unwrap_or(-1),
            Count::SessionRate => {
                let id = installed.plan.pools[at].id;
                let endpoints = pool.keys().map(|key| BackKey::Endpoint(id, key));
                let keys = endpoints.chain([BackKey::Pool(id)]);
                whole(keys.map(|key| self.worker.shared.registry.back_rate(key, now_millis())).sum())
            }
            _ => whole(pool.in_flight()),
        }
    }

    /// Exchanges that began with an endpoint in the last second, both by name.
    pub(crate) fn endpoint_rate(&self, pool: &str, name: &str) -> u64 {
        let installed = &self.installed;
        let Some(at) = installed.plan.pools.iter().position(|one| &*one.name == pool) else { return 0 };
        let key = installed.pools.get(at).and_then(|pool| pool.borrow().key_of(name));
        let Some(key) = key else { return 0 };
        let key = BackKey::Endpoint(installed.plan.pools[at].id, key);
        self.worker.shared.registry.back_rate(key, now_millis())
    }

    /// Events of a site or TCP service in the last second; 0 where there is none of that name.
    pub(crate) fn site_rate(&self, name: &str, of: RateOf) -> u64 {
        let plan = &self.installed.plan;
        let site = plan.sites.iter().find(|site| &*site.name == name).map(|site| site.id);
        let Some(id) = site.or_else(|| plan.tcp.iter().find(|tcp| &*tcp.name == name).map(|tcp| tcp.id))
        else {
            return 0;
        };
        let rates = self.worker.shared.registry.front_rates(FrontKey::Site(id), now_millis());
        rates[usize::from(of == RateOf::Requests)]
    }

    /// How an endpoint of a pool stands, both by name.
    pub(crate) fn named_endpoint(&self, pool: &str, name: &str) -> Option<EndpointStanding> {
        let installed = &self.installed;
        let at = installed.plan.pools.iter().position(|one| &*one.name == pool)?;
        installed.pools.get(at)?.borrow().standing_of(name)
    }

    /// The number of an endpoint of its pool.
    pub(crate) fn endpoint_number(&self, name: &str) -> Option<u32> {
        self.installed.pools.get(self.pool?.at())?.borrow().number_of(name)
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

/// Milliseconds since 1970, by which rates are counted.
fn now_millis() -> u64 {
    u64::try_from(weir_rt::unix_now().as_millis()).unwrap_or(u64::MAX)
}
