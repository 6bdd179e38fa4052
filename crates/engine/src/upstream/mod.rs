//! Towards endpoints: choosing, connecting, keeping connections.
//!
//! Owns: the kept connections of a worker, the way from a target to an open connection, the verdict on failures.
//! Never: speaks HTTP or FastCGI; actions do.
//! Driven by: `action::proxy`, `action::fastcgi`, `tcp`.

mod connect;
mod idle;
mod picker;
mod target;

pub(crate) use connect::{ConnectFailure, ConnectSettings, local_address, open};
pub(crate) use idle::{IdleConnections, IdleKey, Kept};
pub(crate) use picker::{Picked, Picker, Refusal};
pub(crate) use target::{named_host, resolve};

use weir_policy::pool::{EndpointIndex, Standing};

use crate::exchange::Exchange;

impl Exchange {
    /// Exchanges of its pool in flight in this worker, or in the process where counts are shared.
    pub(crate) fn pool_in_flight(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        let chooser = self.installed.pools[pool.at()].borrow();
        let endpoints = chooser.config().endpoints().len() as u32;
        (0..endpoints)
            .filter_map(|at| chooser.load(EndpointIndex(at)))
            .map(|load| u64::from(load.in_flight()))
            .sum()
    }

    /// Exchanges of its endpoint in flight.
    pub(crate) fn endpoint_in_flight(&self) -> u64 {
        let (Some(pool), Some(attempt)) = (self.pool, self.response.attempts.last()) else { return 0 };
        let at = self.installed.plan.pool(pool).endpoints.iter().position(|e| *e.name == *attempt.endpoint);
        let chooser = self.installed.pools[pool.at()].borrow();
        at.and_then(|at| chooser.load(EndpointIndex(at as u32))).map_or(0, |load| u64::from(load.in_flight()))
    }

    /// Endpoints of its pool that could be chosen.
    pub(crate) fn usable_endpoints(&self) -> u64 {
        let Some(pool) = self.pool else { return 0 };
        let chooser = self.installed.pools[pool.at()].borrow();
        let shared = chooser.shared();
        let config = chooser.config();
        (0..config.endpoints().len()).filter(|&at| shared.standing(config, at) == Standing::Up).count() as u64
    }
}
