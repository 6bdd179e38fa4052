//! The layer of changes over a plan.
//!
//! Owns: making a change of what runs; saying what of a plan does not count because of changes, and forgetting those that
//! name nothing in it.
//! Never: makes a plan; keeps what was changed: [`weir_control::Changes`] does, for longer than an engine lives.
//! Driven by: [`crate::Engine`], for each change and after each plan.
//! Why: what was asked for while running holds until it is taken back. An operator who edits a file has to learn that
//! something else decides.

use std::collections::HashMap;
use std::sync::Arc;

use weir_control::changes::{KeyPair, NewEndpoint, PoolChanges, Record};
use weir_control::{AdminState, Change, EndpointKey, PoolId};
use weir_plan::{Certificate, Endpoint, EndpointSet, Pem, Plan, Pool};
use weir_policy::pool::{MAX_WEIGHT, Placement};
use weir_telemetry::Level;

use crate::worker::command::Crew;
use crate::worker::endpoints::{Live, laid_over};
use crate::worker::live_tls::Given;
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;
use crate::worker::state_file;
use crate::worker::tls::check_pair;

/// Lines about one plan. Whoever changes thousands of endpoints knows of the rest by these.
const LINES: usize = 20;

/// Changes what runs, until it is taken back. Never call it on a worker.
///
/// # Errors
/// Why it cannot be; nothing has changed then.
pub(crate) fn make(shared: &Shared, crew: &Crew, prepared: &Prepared, change: Change) -> Result<(), String> {
    match &change {
        Change::Endpoints { pool, endpoints } => {
            let pool = pool_of(&prepared.plan, pool)?;
            endpoints.as_ref().map_or(Ok(()), |given| pool.set.replaced_by(pool.id, given).map(drop))?;
        }
        Change::Weight { pool, endpoint, weight } => {
            named(shared, pool_of(&prepared.plan, pool)?, endpoint)?;
            if weight.is_some_and(|weight| weight > MAX_WEIGHT) {
                return Err(format!("a weight is at most {MAX_WEIGHT}"));
            }
        }
        Change::State { pool, endpoint, .. } => named(shared, pool_of(&prepared.plan, pool)?, endpoint)?,
        Change::Certificate { name, certificate } => {
            return replace_certificate(shared, crew, prepared, name, certificate.as_ref());
        }
        Change::Trust { name, pem } => {
            return replace_trust(shared, crew, prepared, name, pem.as_deref());
        }
    }
    let (Change::Endpoints { pool, .. } | Change::Weight { pool, .. } | Change::State { pool, .. }) = &change
    else {
        return Ok(());
    };
    let name = pool.clone();
    let pool = pool_of(&prepared.plan, &name)?;
    let endpoints = matches!(change, Change::Endpoints { .. });
    shared.changes.note(change)?;
    if let Ok(wanted) = laid_over(pool, &shared.changes.pool(&name)) {
        if let Some(path) = pool.group.as_ref().and_then(|group| group.state.as_ref()).filter(|_| endpoints)
            && let Err(error) = state_file::write(path, &wanted.as_given(pool.id))
        {
            tell(
                shared,
                &[format!(
                    "{}: {error}: the endpoints of the pool {name} will be forgotten at the end",
                    path.display()
                )],
            );
        }
        tell(shared, &forget(shared, unnamed(&name, &wanted, &shared.changes.pool(&name))));
    }
    let Some(&ix) = prepared.plan.pools_by_id.get(&pool.id) else { return Ok(()) };
    let now = shared.millis(weir_rt::Instant::now());
    if prepared.pools[ix.at()].change(pool, shared.changes.pool(&name), now, shared.addresses_of()) {
        crew.tell_endpoints(shared, prepared, pool.id);
    }
    crew.tell_standing(pool.id, &prepared.pools[ix.at()].now().set);
    Ok(())
}

/// The endpoints that a pool is to have, as they would be given, and a number that none of them ever had.
///
/// # Errors
/// There is no such pool.
pub(crate) fn endpoints(
    shared: &Shared,
    prepared: &Prepared,
    pool: &str,
) -> Result<(Vec<NewEndpoint>, u32), String> {
    let pool = pool_of(&prepared.plan, pool)?;
    let changed = shared.changes.pool(&pool.name);
    let wanted = laid_over(pool, &changed)?;
    let written = pool.set.config.endpoints().iter();
    let ids = written.chain(wanted.config.endpoints()).map(|config| config.id.saturating_add(1));
    let next = ids.max().unwrap_or(0).max(changed.next_id);
    Ok((wanted.as_given(pool.id), next))
}

/// Cuts all that is under way at the endpoints of this name. Never call it on a worker.
///
/// # Errors
/// There is no such pool or endpoint.
pub(crate) fn cut(crew: &Crew, prepared: &Prepared, pool: &str, endpoint: &str) -> Result<(), String> {
    let pool = pool_of(&prepared.plan, pool)?;
    let Some(&ix) = prepared.plan.pools_by_id.get(&pool.id) else { return Ok(()) };
    let live = prepared.pools[ix.at()].now();
    let named = live.set.endpoints.iter().filter(|one| *one.name == *endpoint);
    let keys: Vec<EndpointKey> = named.map(|one| one.key).collect();
    if keys.is_empty() {
        return Err(format!("the pool {} has no endpoint {endpoint}", pool.name));
    }
    crew.cut(&keys);
    Ok(())
}

fn replace_certificate(
    shared: &Shared,
    crew: &Crew,
    prepared: &Prepared,
    name: &str,
    certificate: Option<&KeyPair>,
) -> Result<(), String> {
    if !certificates(&prepared.plan).contains_key(name) {
        return Err(format!("nothing uses a certificate {name}"));
    }
    certificate.map_or(Ok(()), |pair| check_pair(name, pair))?;
    let given = |other: &str| match other == name {
        // Taken back: what an authority issued counts again.
        true => certificate.cloned().or_else(|| shared.issued.as_ref()?.pair(name)),
        false => shared.pair_in_place_of(other),
    };
    let given = Given { pair: &given, pem: &|name| shared.changes.trust(name) };
    let _held = prepared.tls.hold();
    let made = prepared.tls.now().again(shared, &prepared.plan, name, given)?;
    shared.changes.note(Change::Certificate { name: name.to_owned(), certificate: certificate.cloned() })?;
    prepared.tls.put(made);
    crew.tell_certificates();
    Ok(())
}

/// Has workers show a certificate that an authority issued, in place of the one before.
///
/// # Errors
/// It cannot be used, or nothing uses one of this name.
pub(crate) fn show_issued(
    shared: &Shared,
    crew: &Crew,
    prepared: &Prepared,
    name: &str,
) -> Result<(), String> {
    if !certificates(&prepared.plan).contains_key(name) {
        return Err("nothing uses it".into());
    }
    let given =
        Given { pair: &|name| shared.pair_in_place_of(name), pem: &|name| shared.changes.trust(name) };
    let _held = prepared.tls.hold();
    let made = prepared.tls.now().again(shared, &prepared.plan, name, given)?;
    prepared.tls.put(made);
    crew.tell_certificates();
    Ok(())
}

fn replace_trust(
    shared: &Shared,
    crew: &Crew,
    prepared: &Prepared,
    name: &str,
    pem: Option<&str>,
) -> Result<(), String> {
    if !trust(&prepared.plan).iter().any(|(known, ..)| known == name) {
        return Err(format!("nothing uses authorities or a list of revocations {name}"));
    }
    let given = |other: &str| match other == name {
        true => pem.map(str::to_owned),
        false => shared.changes.trust(other),
    };
    let given = Given { pair: &|name| shared.pair_in_place_of(name), pem: &given };
    let _held = prepared.tls.hold();
    let made = prepared.tls.now().again(shared, &prepared.plan, name, given)?;
    shared.changes.note(Change::Trust { name: name.to_owned(), pem: pem.map(str::to_owned) })?;
    prepared.tls.put(made);
    crew.tell_certificates();
    Ok(())
}

/// Authorities and lists of revocations of a plan: name, whether it is a list, what is in it.
pub(crate) fn trust(plan: &Plan) -> Vec<(String, bool, Arc<[u8]>)> {
    let one = |list: bool| move |pem: &Pem| (pem.source.to_string(), list, pem.bytes.clone());
    let authorities = plan.tls.iter().flat_map(|identity| &identity.client_ca);
    let authorities = authorities.chain(plan.upstream_tls.iter().filter_map(|tls| tls.ca.as_ref()));
    let lists = plan.tls.iter().filter_map(|identity| identity.client_crl.as_ref());
    let lists = lists.chain(plan.upstream_tls.iter().filter_map(|tls| tls.crl.as_ref()));
    let mut all: Vec<_> = authorities.map(one(false)).chain(lists.map(one(true))).collect();
    all.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

/// The chain of a certificate that is in use, PEM.
pub(crate) fn chain_of(shared: &Shared, plan: &Plan, name: &str) -> Option<Vec<u8>> {
    let all = certificates(plan);
    let own = all.get(name)?;
    let given = shared.pair_in_place_of(name).map(|pair| pair.chain.into_bytes());
    Some(given.unwrap_or_else(|| own.chain.bytes.to_vec()))
}

/// Takes the health of endpoints for this, until a check says otherwise.
///
/// # Errors
/// There is no such pool or endpoint.
pub(crate) fn judge(
    (shared, crew): (&Shared, &Crew),
    prepared: &Prepared,
    pool: &str,
    endpoint: &str,
    healthy: bool,
) -> Result<(), String> {
    let pool = pool_of(&prepared.plan, pool)?;
    named(shared, pool, endpoint)?;
    let Some(&ix) = prepared.plan.pools_by_id.get(&pool.id) else { return Ok(()) };
    let (live, now) = (prepared.pools[ix.at()].now(), shared.millis(weir_rt::Instant::now()));
    let all = live.set.endpoints.iter().enumerate().filter(|(_, one)| *one.name == *endpoint);
    for (at, one) in all {
        live.state.set_health(at, healthy, now);
        if let Some(mut checked) = shared.checked(one.key) {
            checked.report.state = if healthy { "UP" } else { "DOWN" }.to_owned();
            checked.changed = now;
            shared.set_checked(one.key, checked);
        }
    }
    crew.tell_standing(pool.id, &live.set);
    Ok(())
}

/// Bounds the exchanges of an endpoint at once, until the next plan; 0: not at all.
///
/// # Errors
/// There is no such pool or endpoint, or nobody waits for its endpoints.
pub(crate) fn bound(prepared: &Prepared, pool: &str, endpoint: &str, most: u32) -> Result<(), String> {
    let queue = pool_of(&prepared.plan, pool)?.queue.is_some();
    of_name(prepared, pool, endpoint, |live, at, _| {
        if !queue || live.set.config.options().counts != Placement::Process {
            return Err(format!(
                "no endpoint of {pool} has a bound in the configuration, so that nobody could wait: give one `maxconn` and reload"
            ));
        }
        live.state.set_max_conns(at, Some(most));
        Ok(())
    })
}

/// What is switched of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Its health checks.
    Checks,
    /// The asking of its agent.
    Agent,
}

/// Has the checks of an endpoint made, or its agent asked, or not, until the next plan. `Ok(false)`: it has none.
///
/// # Errors
/// There is no such pool or endpoint.
pub(crate) fn switch(
    prepared: &Prepared,
    (pool, endpoint): (&str, &str),
    what: Switch,
    on: bool,
) -> Result<bool, String> {
    let mut any = false;
    of_name(prepared, pool, endpoint, |live, at, one| {
        let Some(member) = live.state.members().get(at) else { return Ok(()) };
        match what {
            Switch::Checks => member.check(on),
            Switch::Agent => member.ask(on),
        }
        any |= match what {
            Switch::Checks => one.check.is_some(),
            Switch::Agent => one.agent.is_some(),
        };
        Ok(())
    })?;
    Ok(any)
}

/// Does something with the endpoints of a name.
fn of_name(
    prepared: &Prepared,
    pool: &str,
    endpoint: &str,
    mut act: impl FnMut(&Live, usize, &Endpoint) -> Result<(), String>,
) -> Result<(), String> {
    let pool = pool_of(&prepared.plan, pool)?;
    let Some(&ix) = prepared.plan.pools_by_id.get(&pool.id) else { return Ok(()) };
    let live = prepared.pools[ix.at()].now();
    let mut any = false;
    for (at, one) in live.set.endpoints.iter().enumerate().filter(|(_, one)| *one.name == *endpoint) {
        act(&live, at, one)?;
        any = true;
    }
    match any {
        true => Ok(()),
        false => Err(format!("the pool {} has no endpoint {endpoint}", pool.name)),
    }
}

/// The names of the certificates of a plan, and whether each was given while running.
pub(crate) fn certificate_names(shared: &Shared, plan: &Plan) -> Vec<(String, bool)> {
    let mut all: Vec<(String, bool)> = certificates(plan)
        .into_keys()
        .map(|name| {
            let given = shared.changes.certificate(&name).is_some();
            (name, given)
        })
        .collect();
    all.sort();
    all
}

fn pool_of<'p>(plan: &'p Plan, name: &str) -> Result<&'p Pool, String> {
    let ix = plan.pools_by_id.get(&PoolId::from_name(name));
    ix.map(|ix| plan.pool(*ix)).ok_or_else(|| format!("there is no pool {name}"))
}

fn named(shared: &Shared, pool: &Pool, endpoint: &str) -> Result<(), String> {
    let wanted = laid_over(pool, &shared.changes.pool(&pool.name))?;
    match has(&wanted, endpoint) {
        true => Ok(()),
        false => Err(format!("the pool {} has no endpoint {endpoint}", pool.name)),
    }
}

fn has(set: &EndpointSet, endpoint: &str) -> bool {
    set.endpoints.iter().any(|one| *one.name == *endpoint)
}

/// Certificates of a plan by their names.
fn certificates(plan: &Plan) -> HashMap<String, &Certificate> {
    let servers = plan.tls.iter().flat_map(|identity| &identity.certificates);
    let clients = plan.upstream_tls.iter().flat_map(|tls| &tls.certificate);
    servers.chain(clients).map(|one| (one.name(), one)).collect()
}

/// A change that is forgotten, by the one that takes it back, and why.
type Forgotten = (Change, String);

/// Forgets them; a line for each reason.
fn forget(shared: &Shared, all: Vec<Forgotten>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (change, why) in all {
        // What takes back is never too much.
        let _ = shared.changes.note(change);
        if lines.last() != Some(&why) {
            lines.push(why);
        }
    }
    lines
}

/// Says what of a plan that now runs does not count, and forgets what names nothing in it.
pub(crate) fn review(shared: &Shared, plan: &Plan) {
    let record = shared.changes.record();
    let forgotten = forget(shared, useless(plan, &record));
    let lines: Vec<String> =
        forgotten.into_iter().chain(overridden(plan, &shared.changes.record())).collect();
    tell(shared, &lines);
}

fn tell(shared: &Shared, lines: &[String]) {
    // The level is one that is written where a configuration sets none: its file was edited, and does not decide.
    let say = |line: &str| shared.logs.event(Level::Error, line);
    lines.iter().take(LINES).for_each(|line| say(line));
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        say(&format!("{more} more changes made while running override the configuration, or are forgotten"));
    }
}

/// Changes that cannot be made of this plan.
fn useless(plan: &Plan, record: &Record) -> Vec<Forgotten> {
    let mut all = Vec::new();
    for (name, changed) in &record.pools {
        let Ok(pool) = pool_of(plan, name) else {
            let why = format!(
                "there is no pool {name} any more: what was changed of it while running is forgotten"
            );
            all.extend(taken_back(name, changed).into_iter().map(|change| (change, why.clone())));
            continue;
        };
        match laid_over(pool, changed) {
            Ok(wanted) => all.extend(unnamed(name, &wanted, changed)),
            Err(why) => {
                let why = format!(
                    "the endpoints given to the pool {name} while running cannot be used and are forgotten: {why}"
                );
                all.push((Change::Endpoints { pool: name.clone(), endpoints: None }, why));
                all.extend(unnamed(name, &pool.set, changed));
            }
        }
    }
    let known = certificates(plan);
    for (name, pair) in &record.certificates {
        let why = match (known.contains_key(name), check_pair(name, pair)) {
            (false, _) => format!(
                "nothing uses a certificate {name} any more: the one given while running is forgotten"
            ),
            (true, Err(why)) => format!("{why}: the one given while running is forgotten"),
            (true, Ok(())) => continue,
        };
        all.push((Change::Certificate { name: name.clone(), certificate: None }, why));
    }
    let known = trust(plan);
    for name in record.trust.keys().filter(|name| known.iter().all(|(known, ..)| known != *name)) {
        let why = format!("nothing uses {name} any more: what was given for it while running is forgotten");
        all.push((Change::Trust { name: name.clone(), pem: None }, why));
    }
    all
}

/// What takes all changes of a pool back.
fn taken_back(name: &str, changed: &PoolChanges) -> Vec<Change> {
    let pool = || name.to_owned();
    let endpoints = changed.endpoints.iter().map(|_| Change::Endpoints { pool: pool(), endpoints: None });
    let weights = changed.weights.keys().map(|endpoint| weight(name, endpoint));
    let states = changed.states.keys().map(|endpoint| state(name, endpoint));
    endpoints.chain(weights).chain(states).collect()
}

fn weight(pool: &str, endpoint: &str) -> Change {
    Change::Weight { pool: pool.to_owned(), endpoint: endpoint.to_owned(), weight: None }
}

fn state(pool: &str, endpoint: &str) -> Change {
    Change::State { pool: pool.to_owned(), endpoint: endpoint.to_owned(), state: AdminState::AsConfigured }
}

/// Changes of endpoints that a pool does not have.
fn unnamed(pool: &str, wanted: &EndpointSet, changed: &PoolChanges) -> Vec<Forgotten> {
    let gone = |endpoint: &&String| !has(wanted, endpoint);
    let why = |what: &str, endpoint: &str| {
        format!(
            "the pool {pool} has no endpoint {endpoint} any more: its {what}, given while running, is forgotten"
        )
    };
    let weights = changed.weights.keys().filter(gone).map(|one| (weight(pool, one), why("weight", one)));
    let states = changed.states.keys().filter(gone).map(|one| (state(pool, one), why("state", one)));
    weights.chain(states).collect()
}

/// What of a plan does not count.
fn overridden(plan: &Plan, record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, changed) in &record.pools {
        let Ok(pool) = pool_of(plan, name) else { continue };
        // What is in a file of the pool's own is what its configuration says.
        let own_file = pool.group.as_ref().is_some_and(|group| group.state.is_some());
        if let Some(given) = changed.endpoints.as_ref().filter(|_| !own_file) {
            lines.push(format!(
                "the pool {name} has the {} endpoints given while running, not the {} of the configuration",
                given.len(),
                pool.set.endpoints.len()
            ));
        }
        for (endpoint, weight) in &changed.weights {
            let of_name = pool.set.endpoints.iter().position(|one| *one.name == **endpoint);
            let written = of_name.map(|at| pool.set.config.endpoints()[at].weight);
            if written != Some(*weight) {
                let not = written.map_or_else(String::new, |written| format!(", not {written}"));
                lines.push(format!(
                    "{endpoint} of the pool {name} has the weight {weight}, given while running{not}"
                ));
            }
        }
        for (endpoint, state) in &changed.states {
            let is = match state {
                AdminState::AsConfigured => continue,
                AdminState::Ready => "in service",
                AdminState::Drain => "draining",
                AdminState::Maintenance => "in maintenance",
            };
            lines.push(format!("{endpoint} of the pool {name} is {is}, as was asked for while running"));
        }
    }
    let known = certificates(plan);
    for (name, pair) in &record.certificates {
        if known.get(name).is_some_and(|own| *own.chain.bytes != *pair.chain.as_bytes()) {
            lines.push(format!(
                "the certificate {name} is the one given while running, not the configuration's"
            ));
        }
    }
    for (name, _, own) in trust(plan) {
        if record.trust.get(&name).is_some_and(|pem| *own != *pem.as_bytes()) {
            lines.push(format!("{name} is what was given while running, not the configuration's"));
        }
    }
    lines
}
