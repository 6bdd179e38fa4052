//! The objects of figures.

use serde_json::{Map, Value, json};
use weir_control::snapshot::{Classes, Connections, Snapshot, Tls};
use weir_control::zones::{CacheCount, CacheZone, LimitZone, ResolverZone, Worker, Zone};

use super::keyvals::Keyvals;
use super::request::Request;
use super::time::iso;

/// Bytes of a page of memory, as slabs count them.
const PAGE: u64 = 4096;

/// `nginx`.
pub(super) fn instance(request: &Request<'_>, snapshot: &Snapshot) -> Value {
    let process = &snapshot.process;
    let started = process.started_unix * 1000;
    let loaded = if process.last_reload_unix > 0 { process.last_reload_unix * 1000 } else { started };
    json!({
        "version": process.version,
        // Clients look for the release whose API they may expect.
        "build": "weir (API of nginx-plus-r33)",
        "address": request.address,
        "generation": process.plan,
        "load_timestamp": iso(loaded),
        "timestamp": iso(started + process.uptime_ms),
        "pid": process.pid,
        "ppid": std::os::unix::process::parent_id(),
    })
}

/// `license`: there is none to run out or to be reported.
pub(super) fn license() -> Value {
    // The end of the year 9999.
    json!({ "active_till": 253_402_300_799_u64, "eval": false, "reporting": { "healthy": true, "fails": 0, "grace": 0 } })
}

/// `connections`.
pub(super) fn connections(connections: &Connections) -> Value {
    let Connections { accepted, handled, active, waiting, .. } = connections;
    json!({
        "accepted": accepted,
        "dropped": accepted.saturating_sub(*handled),
        "active": active.saturating_sub(*waiting),
        "idle": waiting,
    })
}

/// `workers/N`.
pub(super) fn worker(worker: &Worker, pid: u32) -> Value {
    json!({
        "id": worker.id,
        "pid": pid,
        "connections": connections(&worker.connections),
        "http": { "requests": { "total": worker.requests, "current": worker.current } },
    })
}

/// `http/requests`.
pub(super) fn requests(snapshot: &Snapshot) -> Value {
    let Connections { reading, writing, .. } = snapshot.process.connections;
    json!({ "total": snapshot.process.requests, "current": reading + writing })
}

/// `ssl`. What versions before 8 do not have is not told apart here.
pub(super) fn tls(tls: &Tls) -> Value {
    json!({
        "handshakes": tls.full + tls.resumed,
        "handshakes_failed": tls.failed,
        "session_reuses": tls.resumed,
    })
}

/// `http/server_zones/NAME`.
pub(super) fn site_zone(zone: &Zone, version: u8) -> Value {
    let mut object = route_zone(zone, version);
    object["processing"] = json!(zone.processing);
    with_tls(&mut object, zone, version);
    object
}

/// `http/location_zones/NAME`.
pub(super) fn route_zone(zone: &Zone, version: u8) -> Value {
    json!({
        "requests": zone.front.requests,
        "responses": responses(&zone.front.responses, &zone.codes, version),
        "discarded": zone.discarded,
        "received": zone.front.bytes_in,
        "sent": zone.front.bytes_out,
    })
}

/// `stream/server_zones/NAME`.
pub(super) fn service_zone(zone: &Zone, version: u8) -> Value {
    let Classes { success, client_error, server_error, .. } = zone.front.responses;
    let mut object = json!({
        "processing": zone.processing,
        "connections": zone.front.requests,
        "sessions": {
            "2xx": success,
            "4xx": client_error,
            "5xx": server_error,
            "total": success + client_error + server_error,
        },
        "discarded": zone.discarded,
        "received": zone.front.bytes_in,
        "sent": zone.front.bytes_out,
    });
    with_tls(&mut object, zone, version);
    object
}

fn with_tls(object: &mut Value, zone: &Zone, version: u8) {
    if zone.tls && version >= 8 {
        object["ssl"] = tls(&zone.front.tls);
    }
}

/// `responses` of zones and peers.
pub(super) fn responses(classes: &Classes, codes: &[(u16, u64)], version: u8) -> Value {
    let Classes { informational, success, redirect, client_error, server_error, .. } = classes;
    let mut object = json!({
        "1xx": informational,
        "2xx": success,
        "3xx": redirect,
        "4xx": client_error,
        "5xx": server_error,
        "total": informational + success + redirect + client_error + server_error,
    });
    if version >= 7 {
        let codes = codes.iter().map(|(code, count)| (code.to_string(), json!(count)));
        object["codes"] = Value::Object(codes.collect());
    }
    object
}

/// `http/limit_reqs/NAME`.
pub(super) fn rate_zone(zone: &LimitZone) -> Value {
    json!({
        "passed": zone.passed,
        "delayed": zone.delayed,
        "rejected": zone.rejected,
        "delayed_dry_run": zone.delayed_dry_run,
        "rejected_dry_run": zone.rejected_dry_run,
    })
}

/// `…/limit_conns/NAME`.
pub(super) fn concurrency_zone(zone: &LimitZone) -> Value {
    json!({ "passed": zone.passed, "rejected": zone.rejected, "rejected_dry_run": zone.rejected_dry_run })
}

/// `http/caches/NAME`.
pub(super) fn cache(zone: &CacheZone) -> Value {
    let plain = |count: &CacheCount| json!({ "responses": count.responses, "bytes": count.bytes });
    let written = |count: &CacheCount| {
        json!({
            "responses": count.responses,
            "bytes": count.bytes,
            "responses_written": count.responses_written,
            "bytes_written": count.bytes_written,
        })
    };
    let mut object = json!({
        "size": zone.size,
        "cold": zone.cold,
        "hit": plain(&zone.hit),
        "stale": plain(&zone.stale),
        "updating": plain(&zone.updating),
        "revalidated": plain(&zone.revalidated),
        "miss": written(&zone.miss),
        "expired": written(&zone.expired),
        "bypass": written(&zone.bypass),
    });
    if let Some(most) = zone.max_size {
        object["max_size"] = json!(most);
    }
    object
}

/// `resolvers/NAME`.
pub(super) fn resolver(zone: &ResolverZone) -> Value {
    let answers = ResolverZone::WORDS.into_iter().zip(zone.answers);
    let answers: Map<String, Value> = answers.map(|(word, count)| (word.to_owned(), json!(count))).collect();
    json!({
        "requests": { "name": zone.names, "srv": zone.services, "addr": zone.addresses },
        "responses": answers,
    })
}

/// `slabs/`: what is in zones that were declared with a size. Tables have no slabs here: an entry is taken to be of this size.
pub(super) fn slabs(snapshot: &Snapshot, keyvals: &[Box<dyn Keyvals>]) -> Map<String, Value> {
    let zones = &snapshot.zones;
    let limits = zones.rates.iter().chain(&zones.concurrency);
    let limits = limits.map(|zone| (zone.name.clone(), slab(zone.bytes, 64, zone.keys)));
    let groups = snapshot.pools.iter().filter_map(|pool| Some((pool.group.as_ref()?, pool)));
    let groups = groups
        .map(|(group, pool)| (group.zone.clone(), slab(group.bytes, 1024, pool.endpoints.len() as u64)));
    let stores = keyvals.iter().map(|zone| {
        let (bytes, entries) = zone.size();
        (zone.name().to_owned(), slab(bytes, 128, entries))
    });
    limits.chain(groups).chain(stores).collect()
}

fn slab(bytes: u64, of_one: u64, entries: u64) -> Value {
    let pages = bytes / PAGE;
    let used = (entries * of_one).div_ceil(PAGE).clamp(1, pages.max(1));
    let room = (used * PAGE / of_one).saturating_sub(entries);
    json!({
        "pages": { "used": used, "free": pages.saturating_sub(used) },
        "slots": { (of_one.to_string()): { "used": entries, "free": room, "reqs": entries, "fails": 0 } },
    })
}
