//! How a pool stands, as variables and conditions show it.
//!
//! Owns: counts of usable endpoints and of exchanges in flight.
//! Never: chooses; `upstream::picker` does.
//! Driven by: variables.

use weir_expr::Count;
use weir_policy::pool::{BackupUse, EndpointIndex, Pool, Standing};

use crate::exchange::Core;

impl Core {
    /// Exchanges of its pool in flight in this worker, or in the process where counts are shared.
    pub(crate) fn pool_in_flight(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        in_flight(&self.installed.pools[pool.at()].borrow())
    }

    /// A count of a pool by name: its usable endpoints, or its exchanges in flight.
    pub(crate) fn named_pool_count(&self, name: &str, count: Count) -> u64 {
        let installed = &self.installed;
        let Some(at) = installed.plan.pools.iter().position(|pool| &*pool.name == name) else { return 0 };
        let Some(chooser) = installed.pools.get(at) else { return 0 };
        let chooser = chooser.borrow();
        match count {
            Count::UsableEndpoints => usable(&chooser),
            _ => in_flight(&chooser),
        }
    }

    /// Exchanges of its endpoint in flight.
    pub(crate) fn endpoint_in_flight(&self) -> u64 {
        let (Some(pool), Some(attempt)) = (self.pool, self.attempts.last()) else { return 0 };
        let at = self.installed.plan.pool(pool).endpoints.iter().position(|e| *e.name == *attempt.endpoint);
        let chooser = self.installed.pools[pool.at()].borrow();
        at.and_then(|at| chooser.load(EndpointIndex(at as u32))).map_or(0, |load| u64::from(load.in_flight()))
    }

    /// Endpoints of its pool that could be chosen.
    pub(crate) fn usable_endpoints(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        usable(&self.installed.pools[pool.at()].borrow())
    }
}

fn in_flight(chooser: &Pool) -> u64 {
    let endpoints = chooser.config().endpoints().len() as u32;
    (0..endpoints)
        .filter_map(|at| chooser.load(EndpointIndex(at)))
        .map(|load| u64::from(load.in_flight()))
        .sum()
}

/// Endpoints that could be chosen: backups only once no other is up, and then as many as would share (`nbsrv`).
fn usable(chooser: &Pool) -> u64 {
    let (shared, config) = (chooser.shared(), chooser.config());
    let up = |backup: bool| {
        let endpoints = config.endpoints().iter().enumerate();
        let up = endpoints
            .filter(|(at, one)| one.backup == backup && shared.standing(config, *at) == Standing::Up);
        up.count() as u64
    };
    match (up(false), config.options().backups) {
        (0, BackupUse::FirstWhenDown) => up(true).min(1),
        (0, _) => up(true),
        (primaries, _) => primaries,
    }
}
