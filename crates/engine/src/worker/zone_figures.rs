//! The figures of what counts apart.
//!
//! Owns: their gathering.
//! Driven by: `snapshot`.

use weir_control::Zones;
use weir_control::zones::{CacheCount, CacheZone, LimitZone, Worker, Zone};
use weir_plan::{CountedKind, Service};
use weir_telemetry::FrontKey;

use crate::worker::dns;
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;
use crate::worker::zones::{CACHE_STATUSES, CacheStatus};

/// All of them. `now`: milliseconds since 1970.
pub(crate) fn take(shared: &Shared, prepared: &Prepared, now: u64) -> Zones {
    let plan = &*prepared.plan;
    let of_kind = |kind| plan.zones.iter().filter(move |zone| zone.kind == kind);
    let fronts = |kind| of_kind(kind).map(|zone| front(shared, prepared, zone, now)).collect();
    let mut zones = Zones {
        sites: fronts(CountedKind::Sites),
        routes: fronts(CountedKind::Routes),
        services: fronts(CountedKind::Services),
        ..Zones::default()
    };
    let rates = plan.req_zones.iter().zip(&prepared.rates).map(|(zone, state)| LimitZone {
        keys: state.keys() as u64,
        bytes: zone.size,
        ..limit(shared, CountedKind::Rates, &zone.name)
    });
    zones.rates = rates.collect();
    let concurrency = plan.conn_zones.iter().map(|zone| LimitZone {
        tcp: zone.tcp,
        bytes: zone.size,
        ..limit(shared, CountedKind::Concurrency, &zone.name)
    });
    zones.concurrency = concurrency.collect();
    let caches = plan.cache_zones.iter().zip(&prepared.caches);
    zones.caches = caches.map(|(zone, store)| cache(shared, zone, store)).collect();
    zones.resolvers = of_kind(CountedKind::Resolver).map(|zone| dns::asked(&zone.name)).collect();
    let workers = shared.registry.each_worker(now).into_iter();
    let workers = workers.take(shared.workers.load(std::sync::atomic::Ordering::Relaxed) as usize);
    zones.workers = workers
        .map(|(id, process)| Worker {
            id: id.0,
            connections: process.connections,
            requests: process.requests,
            current: process.connections.reading + process.connections.writing,
        })
        .collect();
    zones
}

fn front(shared: &Shared, prepared: &Prepared, zone: &weir_plan::CountedZone, now: u64) -> Zone {
    let plan = &*prepared.plan;
    let sum = shared.registry.sum_zone(zone.id);
    let with_tls = plan.listeners.iter().filter(|listener| listener.tls.is_some());
    let tls = with_tls.into_iter().any(|listener| match &listener.service {
        Service::Http(hosts) => {
            hosts.values().chain([hosts.default_value()]).any(|site| plan.site(site).zone == Some(zone.id))
        }
        Service::Tcp(service) => plan.tcp_service(*service).zone == Some(zone.id),
    });
    Zone {
        name: zone.name.to_string(),
        tls,
        front: shared.registry.sum_front(FrontKey::Zone(zone.id), now, weir_telemetry::Detail::Quantiles),
        processing: sum.processing,
        discarded: sum.discarded,
        codes: sum.codes,
    }
}

fn limit(shared: &Shared, kind: CountedKind, name: &str) -> LimitZone {
    let [passed, delayed, rejected, delayed_dry_run, rejected_dry_run, ..] =
        shared.registry.sum_events(kind.id(name));
    let name = name.to_owned();
    LimitZone { name, passed, delayed, rejected, delayed_dry_run, rejected_dry_run, ..LimitZone::default() }
}

fn cache(shared: &Shared, zone: &weir_plan::settings::CacheZone, store: &weir_cache::Store) -> CacheZone {
    let events = shared.registry.sum_events(CountedKind::Cache.id(&zone.name));
    let count = |status: CacheStatus| {
        let at = status as usize;
        let written = |from: usize| if at < 3 { events[from + at] } else { 0 };
        CacheCount {
            responses: events[at],
            bytes: events[CACHE_STATUSES + at],
            responses_written: written(2 * CACHE_STATUSES),
            bytes_written: written(2 * CACHE_STATUSES + 3),
        }
    };
    CacheZone {
        name: zone.name.clone(),
        size: store.size(),
        max_size: zone.max_size,
        cold: store.is_cold(),
        hit: count(CacheStatus::Hit),
        stale: count(CacheStatus::Stale),
        updating: count(CacheStatus::Updating),
        revalidated: count(CacheStatus::Revalidated),
        miss: count(CacheStatus::Miss),
        expired: count(CacheStatus::Expired),
        bypass: count(CacheStatus::Bypass),
    }
}
