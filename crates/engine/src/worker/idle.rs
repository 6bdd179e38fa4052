//! Connections to endpoints that wait for their next request.
//!
//! Owns: those of one worker, by pool and endpoint, within the bounds of the pool.
//! Never: acts on what they say: one that spoke or was closed is found out when it is taken, from the driver's notes, and
//! dropped there; what the notes do not have yet, [`weir_policy::retry`] makes no failure.
//! Driven by: attempts (park, take), a sweep while there are any.
//! Why: a task that waits on each would cost memory and wake-ups, and a look before each use a system call a request. The
//! pool that was used last is found without a hash: a request takes a connection from it and gives one back.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use weir_control::{EndpointKey, PoolId};
use weir_plan::{Plan, UpstreamKeepalive};
use weir_policy::Millis;
use weir_policy::idle::{History, IdleConfig, IdlePool, Parked};
use weir_rt::{ClientTls, Digest};
use weir_wire::ClientConnection;

use crate::worker::count::CountedIdle;

/// Endpoints that left, remembered for the requests that were under way to them. Connections to one that is forgotten again
/// end by their idle time.
const REMEMBERED_GONE: usize = 256;

/// What must be equal for a connection to serve another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdleKey {
    /// Endpoint, and its address: [`weir_plan::Endpoint::link`].
    pub(crate) endpoint: EndpointKey,
    /// What TLS was agreed with; `None` without.
    pub(crate) tls: Option<TlsKey>,
    /// Hash of the local address asked for; 0 for none.
    pub(crate) local: u64,
}

/// The settings that a connection was opened with, by their content, and the name that was verified.
///
/// Never by the place of the settings in a plan: connections outlive plans, and the next one may have other settings
/// there. A keyed hash of 128 bits: names can be chosen by clients, and two that met would share what was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TlsKey([u64; 2]);

impl TlsKey {
    /// Of a connection that would be opened with these settings for this name.
    pub(crate) fn new(settings: &Digest, name: &str) -> Self {
        thread_local! { static KEYS: [RandomState; 2] = [RandomState::new(), RandomState::new()]; }
        KEYS.with(|keys| Self([0, 1].map(|half| keys[half].hash_one((settings, name)))))
    }
}

/// A connection with its history.
pub(crate) struct Kept {
    /// The connection.
    pub(crate) conn: Box<ClientConnection>,
    /// Its history.
    pub(crate) history: History,
}

/// A connection that waits, and is counted while it does.
struct Waiting {
    conn: Box<ClientConnection>,
    _counted: CountedIdle,
}

/// Kept connections of a worker.
#[derive(Default)]
pub(crate) struct IdleConnections {
    pools: RefCell<Pools>,
    /// Endpoints that left lately: what was in use then is not kept. Mostly none.
    gone: RefCell<VecDeque<(PoolId, EndpointKey)>>,
    sweeping: Cell<bool>,
}

#[derive(Default)]
struct Pools {
    all: Vec<(PoolId, IdlePool<IdleKey, Waiting>)>,
    places: HashMap<PoolId, usize, ahash::RandomState>,
    /// The place that was used last.
    recent: usize,
}

impl Pools {
    fn find(&mut self, id: PoolId) -> Option<&mut IdlePool<IdleKey, Waiting>> {
        if self.all.get(self.recent).is_none_or(|(known, _)| *known != id) {
            self.recent = *self.places.get(&id)?;
        }
        self.all.get_mut(self.recent).map(|(_, pool)| pool)
    }

    fn find_or_make(&mut self, id: PoolId, bounds: &UpstreamKeepalive) -> &mut IdlePool<IdleKey, Waiting> {
        if self.find(id).is_none() {
            self.recent = self.all.len();
            self.places.insert(id, self.recent);
            self.all.push((id, IdlePool::new(config(bounds))));
        }
        &mut self.all[self.recent].1
    }

    fn retain(&mut self, keep: impl Fn(PoolId) -> bool) {
        self.all.retain(|(id, _)| keep(*id));
        self.places = self.all.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    }

    fn each(&mut self) -> impl Iterator<Item = &mut IdlePool<IdleKey, Waiting>> {
        self.all.iter_mut().map(|(_, pool)| pool)
    }
}

impl IdleConnections {
    /// The connection for a key that was used last.
    pub(crate) fn take(&self, now: Millis, pool: PoolId, key: &IdleKey) -> Option<Kept> {
        let mut pools = self.pools.borrow_mut();
        let (waiting, history) = pools.find(pool)?.take(now, key)?;
        Some(Kept { conn: waiting.conn, history })
    }

    /// Keeps a connection, if the pool's bounds allow.
    pub(crate) fn park(
        &self,
        now: Millis,
        pool: PoolId,
        bounds: &UpstreamKeepalive,
        key: IdleKey,
        (mut kept, counted): (Kept, CountedIdle),
    ) {
        let gone = self.gone.borrow();
        if !gone.is_empty() && gone.contains(&(pool, key.endpoint)) {
            return;
        }
        kept.conn.incoming.release();
        kept.conn.outgoing.release();
        kept.conn.watch();
        let waiting = Waiting { conn: kept.conn, _counted: counted };
        let mut pools = self.pools.borrow_mut();
        let pool = pools.find_or_make(pool, bounds);
        match pool.park(now, key, waiting, kept.history) {
            Parked::Kept(_) => {}
            Parked::Replaced(_, closed) | Parked::Refused(closed) => drop(closed),
        }
    }

    /// Whether a sweep is to be begun: nobody sweeps yet.
    pub(crate) fn wants_sweep(&self) -> bool {
        !self.sweeping.replace(true)
    }

    /// Nothing is kept that could be swept.
    pub(crate) fn end_sweep(&self) {
        self.sweeping.set(false);
    }

    /// Closes what is too old or was closed by its endpoint.
    pub(crate) fn expire(&self, now: Millis) {
        for pool in self.pools.borrow_mut().each() {
            while let Some(old) = pool.expire(now) {
                drop(old);
            }
        }
    }

    /// Closes the connections of pools that a plan no longer has, and those that were opened with TLS settings that it no
    /// longer has; takes up new bounds.
    pub(crate) fn keep_only(&self, plan: &Plan, tls: &[ClientTls]) {
        let settings: HashSet<&Digest> = tls.iter().map(ClientTls::digest).collect();
        let mut pools = self.pools.borrow_mut();
        pools.retain(|id| plan.pools.iter().any(|pool| pool.id == id));
        for pool in &plan.pools {
            if let Some(idle) = pools.find(pool.id) {
                let wanted = |waiting: &Waiting| match waiting.conn.io().tls() {
                    None => true,
                    Some(tls) => tls.basis().is_some_and(|basis| settings.contains(basis)),
                };
                idle.retain(|_, waiting| wanted(waiting), drop);
                idle.reconfigure(config(&pool.keepalive));
                while idle.overfull() {
                    drop(idle.evict());
                }
            }
        }
    }

    /// Follows a pool whose endpoints were replaced: connections to those that left are closed, and those of them that are
    /// in use now are not kept afterwards.
    pub(crate) fn follow(&self, pool: PoolId, before: &[EndpointKey], now: &[EndpointKey]) {
        let left: HashSet<EndpointKey> = before.iter().filter(|link| !now.contains(link)).copied().collect();
        let mut gone = self.gone.borrow_mut();
        if !gone.is_empty() {
            gone.retain(|(of, link)| *of != pool || !now.contains(link));
        }
        if left.is_empty() {
            return;
        }
        gone.extend(left.iter().map(|link| (pool, *link)));
        let excess = gone.len().saturating_sub(REMEMBERED_GONE);
        gone.drain(..excess);
        if let Some(idle) = self.pools.borrow_mut().find(pool) {
            idle.retain(|key, _| !left.contains(&key.endpoint), drop);
        }
    }

    /// Connections kept now.
    pub(crate) fn len(&self) -> usize {
        self.pools.borrow().all.iter().map(|(_, pool)| pool.len()).sum()
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.pools.take();
    }
}

fn config(bounds: &UpstreamKeepalive) -> IdleConfig {
    IdleConfig {
        most: bounds.idle as usize,
        requests: bounds.requests.unwrap_or(0),
        age: bounds.time.unwrap_or_default(),
        idle: bounds.timeout,
    }
}

#[cfg(test)]
mod tests {
    use weir_rt::ClientTlsConfig;

    use super::*;

    #[test]
    fn keys_go_by_content_and_name() {
        let tls = |alpn: &[&str]| {
            let alpn = alpn.iter().map(|one| one.as_bytes().to_vec()).collect();
            *ClientTls::new(ClientTlsConfig { alpn, ..ClientTlsConfig::default() }).unwrap().digest()
        };
        let (one, other) = (tls(&[]), tls(&["http/1.1"]));
        assert_eq!(TlsKey::new(&one, "a.test"), TlsKey::new(&tls(&[]), "a.test"));
        assert_ne!(TlsKey::new(&one, "a.test"), TlsKey::new(&one, "b.test"));
        assert_ne!(TlsKey::new(&one, "a.test"), TlsKey::new(&other, "a.test"));
    }
}
