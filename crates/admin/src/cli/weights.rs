//! Weights and administrative states of servers, and how all commands find a server.

use weir_control::snapshot::{Endpoint, Pool, Snapshot};
use weir_control::{AdminState, Change};

use super::context::Cx;

/// The largest weight.
const MOST: u32 = 256;

/// A backend's server, by its name or number (`#2`).
pub(super) fn server<'s>(word: &str, snapshot: &'s Snapshot) -> Result<(&'s Pool, &'s Endpoint), String> {
    let Some((pool, endpoint)) = word.split_once('/') else {
        return Err("Require 'backend/server'.\n".to_owned());
    };
    let is = |name: &str, number: u32, word: &str| {
        name == word || word.strip_prefix('#').is_some_and(|digits| digits.parse() == Ok(number))
    };
    let pool = snapshot.pools.iter().find(|one| is(&one.name, one.number, pool));
    let pool = pool.ok_or("No such backend.\n")?;
    let found = pool.endpoints.iter().find(|one| is(&one.name, one.number, endpoint));
    Ok((pool, found.ok_or("No such server.\n")?))
}

/// Does something with the server that the first argument names.
pub(super) fn with_server(
    cx: &mut Cx<'_>,
    act: impl FnOnce(&mut Cx<'_>, &Pool, &Endpoint) -> String,
) -> String {
    let snapshot = cx.runtime.snapshot();
    match server(cx.argument(0), &snapshot) {
        Ok((pool, endpoint)) => act(cx, pool, endpoint),
        Err(said) => said,
    }
}

/// Makes a change: nothing is said if it could be made.
pub(super) fn make(cx: &Cx<'_>, change: Change) -> String {
    match cx.runtime.change(change) {
        Ok(()) => String::new(),
        Err(why) => format!("{why}\n"),
    }
}

pub(super) fn get(cx: &mut Cx<'_>) -> String {
    with_server(cx, |_, _, endpoint| {
        format!("{} (initial {})\n", endpoint.user_weight, endpoint.written_weight)
    })
}

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| {
        let word = cx.argument(1).to_owned();
        weight(cx, pool, endpoint, &word)
    })
}

/// `10`, or `50%` of the weight as configured.
pub(super) fn weight(cx: &Cx<'_>, pool: &Pool, endpoint: &Endpoint, word: &str) -> String {
    const RANGE: &str = "Absolute weight can only be between 0 and 256 inclusive.\n";
    if word.is_empty() {
        return "Require <weight> or <weight%>.\n".to_owned();
    }
    let relative = word.strip_suffix('%');
    let Ok(number) = relative.unwrap_or(word).parse::<i64>() else {
        let garbage = word.trim_start_matches(|c: char| c.is_ascii_digit());
        return match garbage.len() == word.len() {
            true => "Empty weight string empty or preceded by garbage\n".to_owned(),
            false => "Trailing garbage in weight string\n".to_owned(),
        };
    };
    let weight = match relative {
        None => u32::try_from(number).ok().filter(|weight| *weight <= MOST),
        Some(_) if number < 0 => return "Relative weight must be positive.\n".to_owned(),
        Some(_) => {
            let part = u64::from(endpoint.written_weight).saturating_mul(number as u64) / 100;
            match u32::try_from(part).ok().filter(|weight| *weight <= MOST) {
                None => return "Relative weight can only be between 0 and 100% inclusive.\n".to_owned(),
                fits => fits,
            }
        }
    };
    let Some(weight) = weight else { return RANGE.to_owned() };
    let (pool, endpoint) = (pool.name.clone(), endpoint.name.clone());
    make(cx, Change::Weight { pool, endpoint, weight: Some(weight) })
}

/// Gives a server a state.
pub(super) fn state(cx: &Cx<'_>, pool: &Pool, endpoint: &Endpoint, state: AdminState) -> String {
    make(cx, Change::State { pool: pool.name.clone(), endpoint: endpoint.name.clone(), state })
}

pub(super) fn disable(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| state(cx, pool, endpoint, AdminState::Maintenance))
}

pub(super) fn enable(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| state(cx, pool, endpoint, AdminState::Ready))
}

/// `enable health b/s`, and its like.
pub(super) fn switch<const AGENT: bool, const ON: bool>(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| {
        let (pool, endpoint) = (pool.name.as_str(), endpoint.name.as_str());
        let switched = match AGENT {
            true => cx.runtime.switch_agent(pool, endpoint, ON),
            false => cx.runtime.switch_checks(pool, endpoint, ON),
        };
        match switched {
            Ok(false) if ON => {
                let what = if AGENT { "Agent" } else { "Health check" };
                format!("{what} was not configured on this server, cannot enable.\n")
            }
            Ok(_) => String::new(),
            Err(why) => format!("{why}\n"),
        }
    })
}

/// `set maxconn server b/s <value>`.
pub(super) fn maxconn(cx: &mut Cx<'_>) -> String {
    with_server(cx, |cx, pool, endpoint| match (cx.argument(1), cx.argument(1).parse::<u32>()) {
        ("", _) => "Require <maxconn>.\n".to_owned(),
        (_, Ok(most)) if most <= i32::MAX as u32 => {
            match cx.runtime.bound_endpoint(&pool.name, &endpoint.name, most) {
                Ok(()) => String::new(),
                Err(why) => format!("{why}\n"),
            }
        }
        (word, _) if word.starts_with('-') => "maxconn can't be negative.\n".to_owned(),
        _ => "maxconn string empty or preceded by garbage\n".to_owned(),
    })
}
