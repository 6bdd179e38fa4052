//! Pass "index": the plan, list by list.
//!
//! Routes and sites keep the indices of the model; pools, variables and zones those that "resolve" gave them.

use weir_plan::{Action, ConnZone, CountedKind, CountedZone, PoolIx, ReqZone, SiteId, StickTable, ZoneId};

use crate::context::Cx;
use crate::listener::{HostIndices, site_ids, unique_site_id};

pub(crate) fn all(cx: &mut Cx<'_>) {
    let model = cx.model;
    // First what others refer to by value: the error logs and name servers that routes inherit.
    cx.plan.process = cx.process(&model.process);
    cx.plan.resolver = model.resolver.as_ref().map(|resolver| cx.resolver(resolver));
    cx.check_issuers();
    cx.plan.acme.issuers = model.acme.iter().map(|one| cx.at(one.origin, |cx| cx.acme_issuer(one))).collect();
    cx.plan.key_lists = model.key_lists.iter().map(|list| cx.key_list(list)).collect();
    cx.plan.keyvals = model.keyvals.clone();
    cx.plan.variables = model.variables.iter().map(|one| cx.at(one.origin, |cx| cx.variable(one))).collect();
    zones(cx);
    cx.plan.pools = model.pools.iter().map(|pool| cx.at(pool.origin, |cx| cx.pool(pool))).collect();
    cx.plan.pools_by_id = (0..).zip(&cx.plan.pools).map(|(at, pool)| (pool.id, PoolIx(at))).collect();
    cx.plan.roster = model.roster.clone();
    cx.plan.routes = model.routes.iter().map(|route| cx.at(route.origin, |cx| cx.route(route))).collect();
    let ids = site_ids(model);
    cx.plan.sites =
        model.sites.iter().zip(ids).map(|(site, id)| cx.at(site.origin, |cx| cx.site(site, id))).collect();
    cx.plan.tcp = model.tcp.iter().map(|one| cx.at(one.origin, |cx| cx.tcp_service(one))).collect();
    let mut taken: ahash::HashSet<SiteId> = cx.plan.sites.iter().map(|site| site.id).collect();
    for service in &mut cx.plan.tcp {
        service.id = unique_site_id(&service.name, &mut taken);
    }
    let mut indices = HostIndices::default();
    let listeners = model.listeners.iter().map(|one| cx.at(one.origin, |cx| cx.listener(one, &mut indices)));
    cx.plan.listeners = listeners.collect();
    cx.check_issued();
    cx.plan.counts_details = cx.plan.routes.iter().any(|route| matches!(route.action, Action::Api(_)));
}

impl Cx<'_> {
    /// The zone of a kind that counts under this name.
    pub(crate) fn counted(&mut self, name: &str, kind: CountedKind) -> ZoneId {
        let id = kind.id(name);
        if !self.plan.zones.iter().any(|zone| zone.id == id) {
            self.plan.zones.push(CountedZone { id, name: name.into(), kind });
        }
        id
    }
}

fn zones(cx: &mut Cx<'_>) {
    let model = cx.model;
    let req = model.limit_req_zones.iter().map(|zone| ReqZone {
        name: zone.name.as_str().into(),
        key: cx.template(&zone.key),
        size: zone.size,
        rate_milli: zone.rate_milli,
    });
    cx.plan.req_zones = req.collect();
    let rates = model.limit_req_zones.iter().map(|zone| (&zone.name, CountedKind::Rates));
    let concurrency = model.limit_conn_zones.iter().map(|zone| (&zone.name, CountedKind::Concurrency));
    let caches = model.cache_zones.iter().map(|zone| (&zone.name, CountedKind::Cache));
    for (name, kind) in rates.chain(concurrency).chain(caches) {
        cx.counted(name, kind);
    }
    let conn = model.limit_conn_zones.iter().map(|zone| ConnZone {
        name: zone.name.as_str().into(),
        key: cx.template(&zone.key),
        size: zone.size,
        tcp: zone.tcp,
    });
    cx.plan.conn_zones = conn.collect();
    let tables = model.stick_tables.iter();
    let tables =
        tables.map(|table| StickTable { name: table.name.as_str().into(), config: table.config.clone() });
    cx.plan.stick_tables = tables.collect();
    cx.plan.cache_zones = model.cache_zones.clone();
    cx.plan.memory_caches = model.memory_caches.clone();
}
