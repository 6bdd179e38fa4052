//! What is made once for a plan and shared by all workers.
//!
//! Owns: TLS configurations, the endpoints of pools, state of zones.
//! Never: changes after it was made, but for the endpoints of a pool and for TLS, which are replaced as a whole.
//! Driven by: [`crate::Engine`], before a plan is handed to any worker; a plan for which this fails changes nothing.

use std::sync::Arc;

use weir_cache::Store;
use weir_plan::{Plan, PoolIx};
use weir_policy::limit::{ConnZone, RateZone};

use crate::worker::caches::caches_for;
use crate::worker::endpoints::LivePool;
use crate::worker::keyvals::Keyval;
use crate::worker::lists::KeyLists;
use crate::worker::live_tls::{Given, LiveTls, MadeTls};
use crate::worker::memories::MemoryCache;
use crate::worker::named_tls::NamedTls;
use crate::worker::shared::Shared;
use crate::worker::sticks::StickTables;

/// What is made once for a plan.
pub(crate) struct Prepared {
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// The endpoints of its pools, by index: beside the plan. They change.
    pub(crate) pools: Vec<Arc<LivePool>>,
    /// Its zones of request rates, by index.
    pub(crate) rates: Vec<Arc<RateZone>>,
    /// Its zones of concurrency, by index.
    pub(crate) conns: Vec<Arc<ConnZone>>,
    /// Its stick tables, by name.
    pub(crate) sticks: Arc<StickTables>,
    /// The stores of its zones of the cache, by index.
    pub(crate) caches: Vec<Arc<Store>>,
    /// Its caches in memory, by index.
    pub(crate) memories: Vec<Arc<MemoryCache>>,
    /// Its lists of keys: beside the plan. They change.
    pub(crate) keys: KeyLists,
    /// Its stores of keys and values, by index: beside the plan. They change.
    pub(crate) keyvals: Vec<Arc<Keyval>>,
    /// Its TLS. Changes as endpoints do.
    pub(crate) tls: LiveTls,
    /// TLS with certificates that its variables name.
    pub(crate) named: Arc<NamedTls>,
    /// Its log targets.
    pub(crate) logs: crate::logging::Targets,
}

impl Prepared {
    /// Of a part of a plan: its logs and the state of its pool go on as they are.
    pub(crate) fn of_part(&self, shared: &Shared, part: weir_plan::Part, pool: Option<PoolIx>) -> Self {
        Self {
            pools: pool.and_then(|pool| self.pools.get(pool.at()).cloned()).into_iter().collect(),
            rates: Vec::new(),
            conns: Vec::new(),
            sticks: self.sticks.clone(),
            caches: Vec::new(),
            memories: self.memories.clone(),
            keys: KeyLists::default(),
            // Variables of a part name them by the same index.
            keyvals: self.keyvals.clone(),
            tls: LiveTls::default(),
            named: Arc::default(),
            logs: self.logs.part(&shared.logs, &part),
            plan: Arc::new(part.plan),
        }
    }

    /// Prepares a plan.
    ///
    /// # Errors
    /// One line that says what cannot be used, and where it was read.
    pub(crate) fn new(shared: &Arc<Shared>, plan: Arc<Plan>) -> Result<Self, String> {
        let given =
            Given { pair: &|name| shared.pair_in_place_of(name), pem: &|name| shared.changes.trust(name) };
        let tls = MadeTls::new(shared, &plan, given)?;
        let logs = shared.logs.targets_for(&plan)?;
        shared.kept.begin(&plan);
        Ok(Self {
            pools: shared.pools_for(&plan),
            rates: shared.rates_for(&plan),
            conns: shared.conns_for(&plan),
            sticks: shared.sticks.tables_for(shared.seed, &plan),
            caches: caches_for(shared, &plan),
            memories: shared.memories.of(&plan),
            keys: shared.lists.of(&plan),
            keyvals: shared.keyvals.of(&plan, &|told| shared.log_process_error(told)),
            tls: LiveTls::new(tls),
            named: Arc::default(),
            logs,
            plan,
        })
    }
}
