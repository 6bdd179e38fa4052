//! The connections of clients of a worker, one by one.
//!
//! Owns: which they are; ending one from outside; their names for those who look at them.
//! Never: keeps one open, or is asked while a request is served.
//! Driven by: `accept`, which enters them; `Command::Roll` and `Command::CutClient`.
//! Why: an operator has to see who is there, and to be rid of one of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use slab::Slab;
use weir_control::sessions::{ClientSession, SessionAttempt};
use weir_control::{EndpointKey, ListenerId, PoolId};
use weir_plan::{Plan, Service};
use weir_rt::{Cutter, Instant};

use crate::worker::command::Crew;
use crate::worker::links::Carried;
use crate::worker::prepared::Prepared;

/// A connection as the floor above knows it.
pub(crate) trait Caller {
    /// Its number in the process.
    fn serial(&self) -> u64;
    /// What there is to say of it.
    fn describe(&self) -> Called;
}

/// A connection at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    /// Its number in the process.
    pub(crate) serial: u64,
    /// Who came.
    pub(crate) source: Option<SocketAddr>,
    /// Where to.
    pub(crate) destination: Option<SocketAddr>,
    /// Where it arrived.
    pub(crate) listener: ListenerId,
    /// TLS is spoken.
    pub(crate) tls: bool,
    /// When.
    pub(crate) accepted: Instant,
    /// Requests so far.
    pub(crate) requests: u64,
}

/// What one worker has.
pub(crate) struct RollCall {
    clients: Vec<Called>,
    carried: Vec<Carried>,
}

/// The connections of a worker.
#[derive(Default)]
pub(crate) struct Roll(RefCell<Slab<(Rc<dyn Caller>, Cutter)>>);

impl Roll {
    /// Enters a connection, until what this returns is dropped.
    pub(crate) fn enter(self: &Rc<Self>, caller: Rc<dyn Caller>, cutter: Cutter) -> Entry {
        let at = self.0.borrow_mut().insert((caller, cutter));
        Entry { roll: self.clone(), at }
    }

    /// Everybody, with the attempts that are carried for them.
    pub(crate) fn call(&self, carried: Vec<Carried>) -> RollCall {
        RollCall {
            clients: self.0.borrow().iter().map(|(_, (caller, _))| caller.describe()).collect(),
            carried,
        }
    }

    /// Cuts the connection of this number. False: it is not here.
    pub(crate) fn cut(&self, serial: u64) -> bool {
        let roll = self.0.borrow();
        let found = roll.iter().find(|(_, (caller, _))| caller.serial() == serial);
        found.inspect(|(_, (_, cutter))| cutter.cut()).is_some()
    }
}

/// A connection's place in the roll.
pub(crate) struct Entry {
    roll: Rc<Roll>,
    at: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // What is taken out may be the last hold on a connection's facts: it goes after the roll is free again.
        let _gone = self.roll.0.borrow_mut().try_remove(self.at);
    }
}

/// The connections of all workers, by the names of the plan that runs. Never call it on a worker.
pub(crate) fn named(crew: &Crew, prepared: &Prepared) -> Vec<ClientSession> {
    let (now, unix) = (Instant::now(), weir_rt::unix_now().as_millis() as u64);
    let age = |since: Instant| now.saturating_duration_since(since).as_millis() as u64;
    let names = Names::of(prepared);
    let mut all = Vec::new();
    for call in crew.call_roll() {
        let mut attempts: HashMap<u64, Vec<SessionAttempt>> = HashMap::new();
        for carried in &call.carried {
            attempts.entry(carried.client).or_default().push(names.attempt(carried, age(carried.since)));
        }
        all.extend(call.clients.into_iter().map(|client| {
            let (site, mode) = site_of(&prepared.plan, client.listener);
            let age_ms = age(client.accepted);
            ClientSession {
                number: client.serial,
                source: client.source,
                destination: client.destination,
                site,
                mode,
                tls: client.tls,
                accepted_unix_ms: unix.saturating_sub(age_ms),
                age_ms,
                requests: client.requests,
                attempts: attempts.remove(&client.serial).unwrap_or_default(),
            }
        }));
    }
    all.sort_unstable_by_key(|session| session.number);
    all
}

/// Names of pools and endpoints, and where the latter are.
struct Names(HashMap<PoolId, PoolNames>);

struct PoolNames {
    name: Box<str>,
    endpoints: HashMap<EndpointKey, (String, String)>,
}

impl Names {
    fn of(prepared: &Prepared) -> Self {
        let pools = prepared.plan.pools.iter().zip(&prepared.pools).map(|(pool, live)| {
            let live = live.now();
            let endpoints = live.set.endpoints.iter().map(|one| {
                let address = one.address.as_ref().map_or_else(String::new, ToString::to_string);
                (one.key, (one.name.to_string(), address))
            });
            (pool.id, PoolNames { name: pool.name.clone(), endpoints: endpoints.collect() })
        });
        Self(pools.collect())
    }

    /// What has left the configuration meanwhile has no name.
    fn attempt(&self, carried: &Carried, age_ms: u64) -> SessionAttempt {
        let pool = self.0.get(&carried.pool);
        let found = pool.and_then(|pool| pool.endpoints.get(&carried.endpoint)).cloned();
        let (endpoint, address) = found.unwrap_or_default();
        let pool = pool.map_or_else(String::new, |pool| pool.name.to_string());
        SessionAttempt { pool, endpoint, address, age_ms }
    }
}

fn site_of(plan: &Plan, listener: ListenerId) -> (String, &'static str) {
    let found = plan.listeners.iter().find(|one| one.id == listener);
    match found.map(|listener| &listener.service) {
        Some(Service::Http(hosts)) => (plan.site(hosts.default_value()).name.to_string(), "http"),
        Some(Service::Tcp(tcp)) => (plan.tcp_service(*tcp).name.to_string(), "tcp"),
        None => (String::new(), "http"),
    }
}
