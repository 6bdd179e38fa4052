//! Upstreams as figures: `http/upstreams/` and `stream/upstreams/`.

use serde_json::{Map, Value, json};
use weir_control::AdminState;
use weir_control::snapshot::{Endpoint, EndpointState, Group, Pool, Snapshot};

use super::figures::{responses, tls};
use super::reset::Resets;
use super::servers::id_of;
use super::time::iso;

/// An upstream.
pub(super) fn upstream(
    snapshot: &Snapshot,
    pool: &Pool,
    group: &Group,
    resets: &Resets,
    version: u8,
) -> Value {
    let now = snapshot.process.started_unix * 1000 + snapshot.process.uptime_ms;
    let peers: Vec<Value> = pool
        .endpoints
        .iter()
        .map(|one| resets.since(&name_of(pool, one), peer(one, group.tcp, now, version)))
        .collect();
    let mut object = json!({ "peers": peers, "zombies": 0, "zone": group.zone });
    if group.tcp {
        return object;
    }
    object["keepalive"] = json!(pool.endpoints.iter().map(|one| one.idle).sum::<u64>());
    if let Some(most) = group.queue_limit {
        let queue = json!({ "size": pool.back.queued, "max_size": most, "overflows": pool.back.overflows });
        object["queue"] = resets.since(&format!("queue of {}", pool.name), queue);
    }
    object
}

/// Counts the peers of an upstream, and its queue, from zero.
pub(super) fn reset(pool: &Pool, group: &Group, resets: &Resets) {
    for one in &pool.endpoints {
        resets.reset(&name_of(pool, one), peer(one, group.tcp, 0, super::request::NEWEST));
    }
    resets.reset(&format!("queue of {}", pool.name), json!({ "overflows": pool.back.overflows }));
}

fn name_of(pool: &Pool, endpoint: &Endpoint) -> String {
    format!("{} of {}", endpoint.key, pool.name)
}

/// The upstreams of one kind, by their names as written.
pub(super) fn groups(snapshot: &Snapshot, tcp: bool) -> impl Iterator<Item = (&Pool, &Group)> {
    let all = snapshot.pools.iter().filter_map(|pool| Some((pool, pool.group.as_ref()?)));
    all.filter(move |(_, group)| group.tcp == tcp)
}

/// All upstreams of one kind.
pub(super) fn all(snapshot: &Snapshot, tcp: bool, resets: &Resets, version: u8) -> Map<String, Value> {
    groups(snapshot, tcp)
        .map(|(pool, group)| (group.name.clone(), upstream(snapshot, pool, group, resets, version)))
        .collect()
}

fn peer(one: &Endpoint, tcp: bool, now: u64, version: u8) -> Value {
    let state = state(one);
    let back = &one.back;
    let drained = one.settings.drains.filter(|_| one.weight == 0);
    let mut object = json!({
        "id": id_of(one),
        "server": one.address,
        "name": one.name,
        "backup": one.backup,
        "weight": drained.unwrap_or(one.weight),
        "state": state,
        "active": back.current,
        "sent": back.bytes_in,
        "received": back.bytes_out,
        "fails": back.connect_errors + back.response_errors + back.server_aborts,
        "unavail": back.made_unavailable,
        "downtime": one.downtime_ms,
    });
    let mut health = json!({ "checks": 0, "fails": 0, "unhealthy": 0 });
    if let Some(report) = &one.health {
        health = json!({
            "checks": report.checks,
            "fails": report.failures,
            "unhealthy": report.went_down,
        });
        if report.checks > 0 {
            health["last_passed"] =
                json!(matches!(report.last_status.as_str(), "L4OK" | "L6OK" | "L7OK" | "L7OKC"));
        }
    }
    object["health_checks"] = health;
    if one.settings.max_connections > 0 {
        object["max_conns"] = json!(one.settings.max_connections);
    }
    if matches!(state, "unavail" | "checking" | "unhealthy") {
        object["downstart"] = json!(iso(now.saturating_sub(one.last_change_ms)));
    }
    if back.last_unix > 0 {
        object["selected"] = json!(iso(back.last_unix * 1000));
    }
    if one.tls && version >= 8 {
        object["ssl"] = tls(&back.tls);
    }
    let times = &back.times;
    let ms = |time: f64| json!(time.round() as u64);
    match tcp {
        true => {
            object["connections"] = json!(back.total);
            if back.latency.count > 0 {
                object["connect_time"] = ms(times.connect);
                object["first_byte_time"] = ms(times.connect + times.response);
                object["response_time"] = ms(times.total);
            }
        }
        false => {
            object["requests"] = json!(back.total);
            object["responses"] = responses(&back.responses, &back.codes, version);
            if back.latency.count > 0 {
                object["header_time"] = ms(times.connect + times.response);
                object["response_time"] = ms(times.total);
            }
        }
    }
    object
}

/// Where a peer stands.
fn state(one: &Endpoint) -> &'static str {
    match one.state {
        EndpointState::Maintenance => "down",
        EndpointState::Down if one.settings.unchecked => "checking",
        EndpointState::Down => "unhealthy",
        EndpointState::Draining => "draining",
        EndpointState::Up if one.asked == AdminState::Drain => "draining",
        EndpointState::Up if one.settings.failed => "unavail",
        EndpointState::Up => "up",
    }
}
