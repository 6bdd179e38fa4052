//! `set server`, `add server` and `del server`.

use std::net::{IpAddr, SocketAddr};

use weir_control::changes::NewEndpoint;
use weir_control::snapshot::{Endpoint, Pool};
use weir_control::{AdminState, Change};

use super::context::{Cx, Runtime};
use super::weights::{server, state, weight, with_server};

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| {
        let (what, value) = (cx.argument(1).to_owned(), cx.argument(2).to_owned());
        match (what.as_str(), value.as_str()) {
            ("weight", word) => weight(cx, pool, endpoint, word),
            ("state", "ready") => state(cx, pool, endpoint, AdminState::Ready),
            ("state", "drain") => state(cx, pool, endpoint, AdminState::Drain),
            ("state", "maint") => state(cx, pool, endpoint, AdminState::Maintenance),
            ("state", _) => "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n".to_owned(),
            ("health", "up") => judge(cx, pool, endpoint, true),
            ("health", "down") => judge(cx, pool, endpoint, false),
            ("health", "stopping") => state(cx, pool, endpoint, AdminState::Drain),
            ("health", _) => "'set server <srv> health' expects 'up', 'stopping', or 'down'.\n".to_owned(),
            ("addr", address) => move_to(cx, pool, endpoint, address),
            ("agent" | "agent-addr" | "agent-port" | "agent-send", _) => {
                "agent checks are not enabled on this server.\n".to_owned()
            }
            ("check-addr" | "check-port", _) if endpoint.health.is_none() => {
                "health checks are not enabled on this server\n".to_owned()
            }
            ("check-addr" | "check-port" | "ssl", _) => {
                format!("'set server <srv> {what}' is not built in Weir: change the configuration and reload.\n")
            }
            ("fqdn", _) if endpoint.host.is_none() => {
                "set server <b>/<s> fqdn failed because no resolution is configured.\n".to_owned()
            }
            ("fqdn", _) => "'set server <srv> fqdn' is not built in Weir: change the configuration and reload.\n".to_owned(),
            _ => "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | check-addr | check-port | fqdn | health | \
                  ssl | state | weight\n"
                .to_owned(),
        }
    })
}

/// `shutdown sessions server b/s`
pub(super) fn shutdown(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| match cx.runtime.cut(&pool.name, &endpoint.name) {
        Ok(()) => String::new(),
        Err(why) => format!("{why}\n"),
    })
}

fn judge(cx: &Cx<'_>, pool: &Pool, endpoint: &Endpoint, healthy: bool) -> String {
    match cx.runtime.judge(&pool.name, &endpoint.name, healthy) {
        Ok(()) => String::new(),
        Err(why) => format!("{why}\n"),
    }
}

/// `addr <address> [port <port>]`.
fn move_to(cx: &Cx<'_>, pool: &Pool, endpoint: &Endpoint, address: &str) -> String {
    if address.is_empty() {
        return "set server <b>/<s> addr requires an address and optionally a port.\n".to_owned();
    }
    let Ok(ip) = address.parse::<IpAddr>() else {
        return format!("Invalid addr '{address}' by 'stats socket command'\n");
    };
    let Ok(was) = endpoint.address.parse::<SocketAddr>() else {
        return "only IP addresses of servers that have one are changed\n".to_owned();
    };
    let port = match (cx.argument(3), cx.argument(4)) {
        ("", _) => was.port(),
        ("port", port) => match port.parse() {
            Ok(port) => port,
            Err(_) => {
                return format!(
                    "no need to change the addr, problem converting port '{port}' to an int by 'stats socket command'\n"
                );
            }
        },
        _ => return "set server <b>/<s> addr requires an address and optionally a port.\n".to_owned(),
    };
    let now = SocketAddr::new(ip, port);
    if now == was {
        let port = if cx.argument(3).is_empty() { "" } else { ", no need to change the port" };
        return format!("no need to change the addr{port} by 'stats socket command'\n");
    }
    let all = pool.endpoints.iter().map(|one| match one.key == endpoint.key {
        true => NewEndpoint { address: now.to_string(), ..given(one) },
        false => given(one),
    });
    if let Err(why) = replace(cx, pool, all.collect()) {
        return format!("{why}\n");
    }
    let ip = match ip == was.ip() {
        true => "no need to change the addr".to_owned(),
        false => format!("IP changed from '{}' to '{ip}'", was.ip()),
    };
    let port = match port == was.port() {
        true => String::new(),
        false => format!(", port changed from '{}' to '{port}'", was.port()),
    };
    format!("{ip}{port} by 'stats socket command'\n")
}

/// An endpoint as it is now.
fn given(endpoint: &Endpoint) -> NewEndpoint {
    NewEndpoint {
        name: endpoint.name.clone(),
        address: endpoint.address.clone(),
        weight: Some(endpoint.written_weight),
        backup: Some(endpoint.backup),
        ..NewEndpoint::default()
    }
}

/// Gives a pool these endpoints. What the configuration has out of service stays out: endpoints that are given are given to
/// be used.
fn replace(cx: &Cx<'_>, pool: &Pool, endpoints: Vec<NewEndpoint>) -> Result<(), String> {
    let out = |one: &&Endpoint| one.disabled && one.asked == AdminState::AsConfigured;
    for endpoint in pool.endpoints.iter().filter(out) {
        cx.runtime.change(named(pool, &endpoint.name, AdminState::Maintenance))?;
    }
    cx.runtime.change(Change::Endpoints { pool: pool.name.clone(), endpoints: Some(endpoints) })
}

fn named(pool: &Pool, endpoint: &str, state: AdminState) -> Change {
    Change::State { pool: pool.name.clone(), endpoint: endpoint.to_owned(), state }
}

/// What may stand after the address of a new server.
struct Wanted {
    weight: Option<u32>,
    backup: bool,
    enabled: bool,
}

impl Wanted {
    fn read(words: &[String]) -> Result<Self, String> {
        let mut wanted = Self { weight: None, backup: false, enabled: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "weight" => {
                    let number = words.next().and_then(|number| number.parse().ok()).filter(|n| *n <= 256);
                    wanted.weight = Some(number.ok_or("'weight' expects a number from 0 to 256\n")?);
                }
                "backup" => wanted.backup = true,
                "enabled" => wanted.enabled = true,
                "disabled" => wanted.enabled = false,
                // The settings of the backend's first server hold for it.
                "check" | "ssl" => {}
                "verify" | "inter" | "rise" | "fall" | "maxconn" | "sni" | "ca-file" => drop(words.next()),
                other => return Err(format!("unknown keyword '{other}'\n")),
            }
        }
        Ok(wanted)
    }
}

pub(super) fn add(cx: &mut Cx<'_>) -> String {
    let snapshot = cx.runtime.snapshot();
    let place = cx.argument(0).to_owned();
    let Some((backend, name)) = place.split_once('/') else {
        return "Require 'backend/server'.\n".to_owned();
    };
    let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == backend) else {
        return "No such backend.\n".to_owned();
    };
    if pool.endpoints.iter().any(|one| one.name == name) {
        return "Already exists a server with the same name in backend.\n".to_owned();
    }
    let address = match cx.argument(1) {
        "" => return "'server' expects <name> and <addr>[:<port>] as arguments.\n".to_owned(),
        word => match word.strip_prefix("ipv4@").or(word.strip_prefix("ipv6@")).unwrap_or(word) {
            path if path.starts_with('/') => format!("unix:{path}"),
            word => word.replacen("unix@", "unix:", 1),
        },
    };
    let wanted = match Wanted::read(cx.arguments.get(2..).unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(said) => return said,
    };
    let new = NewEndpoint {
        name: name.to_owned(),
        address,
        weight: wanted.weight,
        backup: Some(wanted.backup),
        ..NewEndpoint::default()
    };
    let with = |weight: Option<u32>| -> Vec<NewEndpoint> {
        let new = NewEndpoint { weight: weight.or(new.weight), ..new.clone() };
        pool.endpoints.iter().map(given).chain([new]).collect()
    };
    // It takes nothing before somebody says so: without weight until it is known to be out.
    let made = match wanted.enabled {
        true => replace(cx, pool, with(None)),
        false => replace(cx, pool, with(Some(0)))
            .and_then(|()| cx.runtime.change(named(pool, name, AdminState::Maintenance)))
            .and_then(|()| replace(cx, pool, with(None))),
    };
    match made {
        Ok(()) => "New server registered.\n".to_owned(),
        Err(why) => format!("{why}\n"),
    }
}

/// Whether nothing keeps a server any more.
///
/// # Errors
/// There is no such server, or it is not in maintenance: waiting is in vain.
pub(super) fn removable(runtime: &dyn Runtime, place: &str) -> Result<bool, String> {
    let snapshot = runtime.snapshot();
    let (_, endpoint) = server(place, &snapshot)?;
    if endpoint.asked != AdminState::Maintenance && !endpoint.disabled {
        return Err(IN_SERVICE.to_owned());
    }
    Ok(endpoint.used == 0)
}

const IN_SERVICE: &str = "Only servers in maintenance mode can be deleted.\n";

pub(super) fn del(cx: &mut Cx<'_>) -> String {
    let snapshot = cx.runtime.snapshot();
    let (pool, endpoint) = match server(cx.argument(0), &snapshot) {
        Ok(found) => found,
        Err(said) => return said,
    };
    if endpoint.asked != AdminState::Maintenance && !endpoint.disabled {
        return IN_SERVICE.to_owned();
    }
    if endpoint.used > 0 {
        return "Server still has connections attached to it, cannot remove it.\n".to_owned();
    }
    let rest = pool.endpoints.iter().filter(|one| one.key != endpoint.key).map(given).collect();
    match replace(cx, pool, rest) {
        Ok(()) => "Server deleted.\n".to_owned(),
        Err(why) => format!("{why}\n"),
    }
}
