//! The endpoints of pools as they are now: beside the plan, which says how they were written.
//!
//! Owns: for the process, the set in use of each pool with its running state ([`LivePool`]); for a worker, the choosing
//! among them and what requests need of each ([`WorkerPool`], [`Member`]).
//! Never: decides what the endpoints are; lets a position out: who holds on to an endpoint holds it by key or as a
//! [`Member`].
//! Driven by: `command::Crew`, which replaces the set of one pool; `Command::Endpoints`,
//! by which each worker takes it up; `upstream::picker`, once an attempt.
//! Why: endpoints come and go by themselves. That needs no new plan, no new TLS configuration, and no connection to an
//! endpoint that stays.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::EndpointKey;
use weir_plan::{Endpoint, EndpointSet, Resolve};
use weir_policy::Millis;
use weir_policy::pool::{
    BackupUse, Choice, EndpointIndex, Key, Lease, Place, Pool, PoolShared, Selection, Standing,
};

/// Endpoints that left, of which a pool still counts what they did. One that comes back among them goes on counting.
const LEFT: usize = 64;

/// A set of endpoints and its running state.
#[derive(Clone)]
pub(crate) struct Live {
    /// The endpoints.
    pub(crate) set: Arc<EndpointSet>,
    /// Their state, in the same order.
    pub(crate) state: Arc<PoolShared>,
}

/// The endpoints of a pool, for the process and one plan.
pub(crate) struct LivePool {
    now: Mutex<Now>,
}

struct Now {
    live: Live,
    left: VecDeque<EndpointKey>,
}

impl LivePool {
    /// Of a plan. What `old`, the same pool before it, has under the same keys goes on; names are at the addresses where they
    /// were `found`.
    pub(crate) fn new(
        pool: &weir_plan::Pool,
        old: Option<&LivePool>,
        found: impl Fn(&Resolve) -> Option<Vec<IpAddr>>,
    ) -> Self {
        let set = match pool.set.resolves() {
            true => {
                let now = old.map_or_else(|| pool.set.clone(), |old| old.now().set);
                Arc::new(pool.set.at(pool.id, &now, found))
            }
            false => pool.set.clone(),
        };
        let Some(old) = old else {
            let state = Arc::new(PoolShared::new(&set.config, None));
            return Self { now: Mutex::new(Now { live: Live { set, state }, left: VecDeque::new() }) };
        };
        let before = old.lock();
        let (live, left) = before.followed_by(set);
        Self { now: Mutex::new(Now { live, left }) }
    }

    /// The endpoints and their state at this moment.
    pub(crate) fn now(&self) -> Live {
        self.lock().live.clone()
    }

    /// Puts another set in place. Workers know of it once they are told.
    pub(crate) fn put(&self, set: Arc<EndpointSet>) {
        let mut now = self.lock();
        let (live, left) = now.followed_by(set);
        *now = Now { live, left };
    }

    /// The keys of all endpoints that the pool's counts are made of: those there are, and those that left lately.
    pub(crate) fn counted(&self) -> Vec<EndpointKey> {
        let now = self.lock();
        now.live.set.endpoints.iter().map(|endpoint| endpoint.key).chain(now.left.iter().copied()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // It is changed as a whole: a panic cannot have left it half changed.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    fn followed_by(&self, set: Arc<EndpointSet>) -> (Live, VecDeque<EndpointKey>) {
        let state = Arc::new(PoolShared::new(&set.config, Some(&self.live.state)));
        let stays: HashSet<EndpointKey> = set.endpoints.iter().map(|endpoint| endpoint.key).collect();
        let before = self.live.set.endpoints.iter().map(|endpoint| endpoint.key);
        let mut left: VecDeque<EndpointKey> =
            self.left.iter().copied().chain(before).filter(|key| !stays.contains(key)).collect();
        left.drain(..left.len().saturating_sub(LEFT));
        (Live { set, state }, left)
    }
}

/// What requests of a worker need of an endpoint. It outlives the set it belongs to as long as anybody uses it.
pub(crate) struct Member {
    set: Arc<EndpointSet>,
    at: usize,
    /// Under what its connections are kept.
    pub(crate) link: EndpointKey,
    /// Its address as logs show it.
    pub(crate) shown: Rc<str>,
    /// Its name as logs show it.
    pub(crate) name: Rc<str>,
}

impl Member {
    fn new(set: &Arc<EndpointSet>, at: usize) -> Self {
        let endpoint = &set.endpoints[at];
        let name: Rc<str> = (&*endpoint.name).into();
        let shown = endpoint.address.as_ref().map(ToString::to_string);
        let shown = shown.map_or_else(|| name.clone(), |shown| shown.as_str().into());
        Self { set: set.clone(), at, link: endpoint.link(), shown, name }
    }

    /// The endpoint.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.set.endpoints[self.at]
    }
}

/// Why no endpoint was chosen.
#[derive(Debug)]
pub(crate) enum Nobody {
    /// None is up, or all were tried.
    Live,
    /// Some are up, and full; the key binds the exchange to this one.
    Free(Option<EndpointKey>),
}

/// A pool as one worker runs it.
pub(crate) struct WorkerPool {
    chooser: Pool,
    members: Vec<Rc<Member>>,
}

impl WorkerPool {
    /// These endpoints. What `old`, the same pool before, has under the same keys goes on.
    pub(crate) fn new(live: &Live, old: Option<&WorkerPool>, seed: u64) -> Self {
        let (config, state) = (live.set.config.clone(), live.state.clone());
        let chooser = match old {
            Some(old) => old.chooser.reconfigured(config, state),
            None => Pool::new(config, state, seed),
        };
        let members = (0..live.set.endpoints.len()).map(|at| Rc::new(Member::new(&live.set, at))).collect();
        Self { chooser, members }
    }

    /// The same pool once more, for a part of a plan.
    pub(crate) fn again(&self) -> Self {
        let chooser = self.chooser.reconfigured(self.chooser.config().clone(), self.chooser.shared().clone());
        Self { chooser, members: self.members.clone() }
    }

    /// Chooses an endpoint for an attempt.
    ///
    /// # Errors
    /// None can be used now.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        now: Millis,
        key: Key<'_>,
        selection: &mut Selection,
    ) -> Result<(Lease, Rc<Member>), Nobody> {
        match self.chooser.choose(now, key, selection) {
            Choice::Endpoint(lease) => {
                let member = self.members[lease.index().0 as usize].clone();
                Ok((lease, member))
            }
            Choice::NoneLive => Err(Nobody::Live),
            Choice::AllBusy { wanted } => {
                Err(Nobody::Free(wanted.map(|at| self.members[at.0 as usize].endpoint().key)))
            }
        }
    }

    /// Takes a particular endpoint, if it can be used and is still there.
    pub(crate) fn take(
        &mut self,
        key: EndpointKey,
        now: Millis,
        selection: &mut Selection,
    ) -> Option<(Lease, Rc<Member>)> {
        let at = self.members.iter().position(|member| member.endpoint().key == key)?;
        let lease = self.chooser.take(EndpointIndex(u32::try_from(at).ok()?), now, selection)?;
        Some((lease, self.members[at].clone()))
    }

    /// Takes a place in the queue, for an endpoint or any. `None`: `most` wait already.
    pub(crate) fn join(&self, wanted: Option<EndpointKey>, most: usize) -> Option<Place> {
        let state = self.chooser.shared();
        let at = wanted.and_then(|key| u32::try_from(state.index_of(key)?).ok());
        state.join(at.map(EndpointIndex), most)
    }

    /// How many attempts there are by default.
    pub(crate) fn attempts(&self) -> u32 {
        self.chooser.config().attempts()
    }

    /// What requests need of the endpoints, in order.
    pub(crate) fn members(&self) -> &[Rc<Member>] {
        &self.members
    }

    /// Exchanges in flight, of this worker or the process, as the pool counts.
    pub(crate) fn in_flight(&self) -> u64 {
        (0..self.members.len()).map(|at| self.in_flight_at(at)).sum()
    }

    /// As [`WorkerPool::in_flight`], of the endpoint that is shown so.
    pub(crate) fn in_flight_of(&self, shown: &str, name: &str) -> u64 {
        let at = self.members.iter().position(|member| &*member.shown == shown && &*member.name == name);
        at.map_or(0, |at| self.in_flight_at(at))
    }

    fn in_flight_at(&self, at: usize) -> u64 {
        let index = u32::try_from(at).ok().map(EndpointIndex);
        index.and_then(|index| self.chooser.load(index)).map_or(0, |load| u64::from(load.in_flight()))
    }

    /// Endpoints that could be chosen: backups only once no other is up, and then as many as would share (`nbsrv`).
    pub(crate) fn usable(&self) -> u64 {
        let (state, config) = (self.chooser.shared(), self.chooser.config());
        let up = |backup: bool| {
            let endpoints = config.endpoints().iter().enumerate();
            let up = endpoints
                .filter(|(at, one)| one.backup == backup && state.standing(config, *at) == Standing::Up);
            up.count() as u64
        };
        match (up(false), config.options().backups) {
            (0, BackupUse::FirstWhenDown) => up(true).min(1),
            (0, _) => up(true),
            (primaries, _) => primaries,
        }
    }

    /// Under what connections to its endpoints are kept.
    pub(crate) fn links(&self) -> Vec<EndpointKey> {
        self.members.iter().map(|member| member.link).collect()
    }

    /// Has all who wait look again.
    pub(crate) fn call_waiting(&self) {
        self.chooser.shared().call_waiting();
    }
}
