//! What is made once for a plan and shared by all workers.
//!
//! Owns: TLS configurations (`tls` makes them), the endpoints of pools, state of zones.
//! Never: changes after it was made, but for the endpoints of a pool, which are replaced as a whole.
//! Driven by: [`crate::Engine`], before a plan is handed to any worker; a plan for which this fails changes nothing.

use std::sync::Arc;

use weir_plan::{ListenerIx, Plan, PoolIx, TlsIx, UpstreamTlsIx};
use weir_policy::limit::{ConnZone, RateZone};
use weir_rt::{ClientTls, ServerTls, SessionCache};

use crate::worker::endpoints::LivePool;
use crate::worker::shared::Shared;
use crate::worker::tls::{client, server};

/// What is made once for a plan.
pub(crate) struct Prepared {
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// The endpoints of its pools, by index: beside the plan, and the only thing here that changes.
    pub(crate) pools: Vec<Arc<LivePool>>,
    /// Its zones of request rates, by index.
    pub(crate) rates: Vec<Arc<RateZone>>,
    /// Its zones of concurrency, by index.
    pub(crate) conns: Vec<Arc<ConnZone>>,
    /// TLS of listeners, by listener and identity.
    server_tls: Vec<Vec<Option<ServerTls>>>,
    /// TLS towards endpoints, by index.
    pub(crate) client_tls: Vec<ClientTls>,
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
            server_tls: Vec::new(),
            client_tls: Vec::new(),
            logs: self.logs.part(&shared.logs, &part),
            plan: Arc::new(part.plan),
        }
    }

    /// TLS towards endpoints. A part of a plan ([`Prepared::of_part`]) has none, and opens no connection.
    pub(crate) fn client_tls(&self, ix: UpstreamTlsIx) -> &ClientTls {
        &self.client_tls[ix.at()]
    }

    /// TLS of a listener with clients that asked for the name of an identity.
    pub(crate) fn server_tls(&self, listener: ListenerIx, identity: TlsIx) -> Option<&ServerTls> {
        self.server_tls.get(listener.at())?.get(identity.at())?.as_ref()
    }

    /// Prepares a plan.
    ///
    /// # Errors
    /// One line that says what cannot be used, and where it was read.
    pub(crate) fn new(shared: &Shared, plan: Arc<Plan>) -> Result<Self, String> {
        let server_tls = plan
            .listeners
            .iter()
            .map(|listener| match &listener.tls {
                None => Ok(Vec::new()),
                Some(tls) => {
                    let used: std::collections::HashSet<_> =
                        tls.by_name.values().chain([tls.by_name.default_value()]).collect();
                    let cache = (tls.session_cache > 0).then(|| SessionCache::new(tls.session_cache));
                    (0..plan.tls.len())
                        .map(|at| {
                            if !used.contains(&TlsIx(at as u32)) {
                                return Ok(None);
                            }
                            let tickets = shared.tickets.clone().filter(|_| tls.tickets);
                            server(tls, &plan.tls[at], tickets, cache.clone()).map(Some)
                        })
                        .collect()
                }
            })
            .collect::<Result<Vec<Vec<_>>, String>>()?;
        let client_tls = plan.upstream_tls.iter().map(client).collect::<Result<Vec<_>, String>>()?;
        let logs = shared.logs.targets_for(&plan)?;
        Ok(Self {
            pools: shared.pools_for(&plan),
            rates: shared.rates_for(&plan),
            conns: shared.conns_for(&plan),
            server_tls,
            client_tls,
            logs,
            plan,
        })
    }
}
