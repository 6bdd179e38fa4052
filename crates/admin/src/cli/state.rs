//! `show backend`, `show servers state` and `show servers conn`.
//!
//! Owns: the numbers by which HAProxy's file of server states tells of states and checks.

use std::fmt::Write as _;

use weir_control::AdminState;
use weir_control::memory::MemoryResponse;
use weir_control::snapshot::{Endpoint, EndpointState, Pool};

use super::context::Cx;

const STATE_HEAD: &str = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change \
srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
srv_check_port srv_check_addr srv_agent_addr srv_agent_port";

const CONN_HEAD: &str = "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim idle_cur idle_per_thr[1]\n";

pub(super) fn backends(cx: &mut Cx<'_>) -> String {
    let snapshot = cx.runtime.snapshot();
    let names = snapshot.pools.iter().map(|pool| format!("{}\n", pool.name));
    std::iter::once("# name\n".to_owned()).chain(names).collect()
}

/// Bytes of what HAProxy counts as a block.
const BLOCK: u64 = 1024;

pub(super) fn caches(cx: &mut Cx<'_>) -> String {
    let mut out = String::new();
    for (at, cache) in cx.runtime.memory_caches().iter().enumerate() {
        let free = cache.total.saturating_sub(cache.used) / BLOCK;
        let at = at + 1;
        let _ = writeln!(out, "0x{at:x}: {} (shctx:0x{at:x}, available blocks:{free})", cache.name);
        for (at, response) in cache.responses.iter().enumerate() {
            let MemoryResponse { hash, variant, size, users, expires_in } = response;
            let blocks = size.div_ceil(BLOCK);
            let _ = writeln!(
                out,
                "0x{:x} hash:{hash} vary:0x{variant:016x} size:{size} ({blocks} blocks), refcount:{users}, expire:{expires_in}",
                at + 1
            );
        }
    }
    out
}

/// A table of the endpoints that are asked for: its head, then what `row` makes of each.
fn table(cx: &Cx<'_>, head: &str, row: impl Fn(&Pool, &Endpoint) -> String) -> String {
    let snapshot = cx.runtime.snapshot();
    let name = cx.argument(0);
    let asked = |pool: &&Pool| name.is_empty() || pool.name == name;
    if !name.is_empty() && !snapshot.pools.iter().any(|pool| asked(&pool)) {
        return "Can't find backend.\n".to_owned();
    }
    let pools = snapshot.pools.iter().filter(asked);
    let rows = pools.flat_map(|pool| pool.endpoints.iter().map(|one| row(pool, one)));
    std::iter::once(head.to_owned()).chain(rows).collect()
}

pub(super) fn state(cx: &mut Cx<'_>) -> String {
    table(cx, &format!("1\n{STATE_HEAD}\n"), |pool, endpoint| {
        let (address, port) = place(endpoint);
        format!(
            "{} {} {} {} {address} {} {} {} {} {} {} 0 0 0 {} {port} - {} 0 - - 0\n",
            pool.number,
            pool.name,
            endpoint.number,
            endpoint.name,
            operation(endpoint),
            administration(endpoint),
            endpoint.user_weight,
            endpoint.written_weight,
            endpoint.last_change_ms / 1000,
            check(endpoint),
            endpoint.host.as_deref().unwrap_or("-"),
            u8::from(endpoint.tls),
        )
    })
}

/// Address and port, as two words.
pub(super) fn place(endpoint: &Endpoint) -> (String, u16) {
    match endpoint.address.parse::<std::net::SocketAddr>() {
        Ok(address) => (address.ip().to_string(), address.port()),
        Err(_) if endpoint.address.is_empty() => ("-".to_owned(), 0),
        Err(_) => (endpoint.address.strip_prefix("unix:").unwrap_or(&endpoint.address).to_owned(), 0),
    }
}

/// 0 stopped, 2 running, 3 stopping.
fn operation(endpoint: &Endpoint) -> u8 {
    match endpoint.state {
        EndpointState::Up | EndpointState::Draining => 2,
        EndpointState::Down | EndpointState::Maintenance => 0,
    }
}

/// What of maintenance and drain holds, and by whose word.
fn administration(endpoint: &Endpoint) -> u8 {
    const FORCED_MAINTENANCE: u8 = 0x01;
    const CONFIGURED_MAINTENANCE: u8 = 0x04;
    const FORCED_DRAIN: u8 = 0x08;
    const NAME_MAINTENANCE: u8 = 0x20;
    match endpoint.asked {
        AdminState::Maintenance => FORCED_MAINTENANCE,
        AdminState::Drain => FORCED_DRAIN,
        AdminState::AsConfigured if endpoint.disabled => FORCED_MAINTENANCE | CONFIGURED_MAINTENANCE,
        _ if endpoint.state == EndpointState::Maintenance && endpoint.host.is_some() => NAME_MAINTENANCE,
        AdminState::AsConfigured | AdminState::Ready => 0,
    }
}

/// Status, result, health and state of the checks.
fn check(endpoint: &Endpoint) -> String {
    const CONFIGURED: u8 = 6;
    const PAUSED: u8 = 8;
    let configured = endpoint.disabled && endpoint.asked == AdminState::AsConfigured;
    let forced = endpoint.health.is_some() && endpoint.asked == AdminState::Maintenance;
    let paused = if configured || forced { PAUSED } else { 0 };
    let Some(health) = &endpoint.health else { return format!("1 0 2 {paused}") };
    let (status, result) = match health.last_status.as_str() {
        "L4OK" => (6, 3),
        "L4TOUT" => (7, 2),
        "L4CON" => (8, 2),
        "L6OK" => (9, 3),
        "L6TOUT" => (10, 2),
        "L6RSP" => (11, 2),
        "L7TOUT" => (12, 2),
        "L7RSP" => (13, 2),
        "L7OK" => (15, 3),
        "L7STS" => (17, 2),
        _ => (1, 0),
    };
    format!("{status} {result} {} {}", health.level, CONFIGURED | paused)
}

pub(super) fn conn(cx: &mut Cx<'_>) -> String {
    table(cx, CONN_HEAD, |pool, endpoint| {
        let (address, port) = place(endpoint);
        format!(
            "{}/{} {}/{} {address} {port} - 5000 {} {} {} 0 {} {} {} {}\n",
            pool.name,
            endpoint.name,
            pool.number,
            endpoint.number,
            endpoint.used,
            endpoint.back.peak,
            endpoint.used,
            endpoint.idle,
            endpoint.idle_limit.map_or(-1, |most| most as i64),
            endpoint.idle,
            endpoint.idle,
        )
    })
}
