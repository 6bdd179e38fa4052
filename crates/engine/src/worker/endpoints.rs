//! The endpoints of pools as they are now: beside the plan, which says how they were written.
//!
//! Owns: for the process, the set in use of each pool with its running state ([`LivePool`]); for a worker, the choosing
//! among them and what requests need of each ([`WorkerPool`], [`Member`]).
//! Never: decides what the endpoints are; lets a position out: who holds on to an endpoint holds it by key or as a
//! [`Member`].
//! Driven by: the thread that follows names and `layer`, which replace the set of one pool; `Command::Endpoints`,
//! by which each worker takes it up; `upstream::picker`, once an attempt.
//! Why: endpoints come and go by themselves. That needs no new plan, no new TLS configuration, and no connection to an
//! endpoint that stays.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_control::changes::PoolChanges;
use weir_control::{AdminState, EndpointKey, PoolId, Spot};
use weir_expr::check::FirstState;
use weir_plan::{Address, Endpoint, EndpointSet, Resolve};
use weir_policy::Millis;
use weir_policy::pool::{
    BackupUse, Choice, EndpointIndex, EndpointShared, Key, Lease, MAX_WEIGHT, Place, Pool, PoolShared,
    Selection, Standing, Turn,
};

use crate::worker::links::Cut;

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
    /// As they are wanted, with names for addresses: of the plan, or given while running.
    wanted: Arc<EndpointSet>,
    /// Weights and administrative states that were given.
    changed: PoolChanges,
    live: Live,
    left: VecDeque<EndpointKey>,
}

impl LivePool {
    /// Of a plan, and what was `changed` of it. What `old`, the same pool before it, has under the same keys goes on; names
    /// are at the addresses where they were `found`.
    pub(crate) fn new(
        pool: &weir_plan::Pool,
        old: Option<&LivePool>,
        changed: PoolChanges,
        now: Millis,
        found: impl Fn(&Resolve) -> Option<Vec<Spot>>,
    ) -> Self {
        let wanted = laid_over(pool, &changed).unwrap_or_else(|_| pool.set.clone());
        let old = old.map(LivePool::lock);
        let set = addressed(&wanted, pool.id, old.as_ref().map_or(&wanted, |old| &old.live.set), found);
        let before = old.as_ref().map(|old| old.live.state.clone());
        let (live, left) = match old {
            Some(old) => old.followed_by(set),
            None => {
                let state = Arc::new(PoolShared::new(&set.config, None));
                (Live { set, state }, VecDeque::new())
            }
        };
        let made = Now { wanted, changed, live, left };
        made.set_state(now);
        made.live.state.forget_bounds();
        made.begin_down(before.as_deref(), now);
        Self { now: Mutex::new(made) }
    }

    /// The endpoints and their state at this moment.
    pub(crate) fn now(&self) -> Live {
        self.lock().live.clone()
    }

    /// The endpoints that it is to have, with names for addresses.
    pub(crate) fn wanted(&self) -> Arc<EndpointSet> {
        self.lock().wanted.clone()
    }

    /// Lays what was changed over the plan's pool. True: endpoints were replaced. Workers know of it once they are told.
    pub(crate) fn change(
        &self,
        pool: &weir_plan::Pool,
        changed: PoolChanges,
        at: Millis,
        found: impl Fn(&Resolve) -> Option<Vec<Spot>>,
    ) -> bool {
        let mut now = self.lock();
        let replaced = changed.endpoints != now.changed.endpoints;
        if replaced {
            let wanted = laid_over(pool, &changed).unwrap_or_else(|_| pool.set.clone());
            let set = addressed(&wanted, pool.id, &now.live.set, found);
            let (live, left) = now.followed_by(set);
            let before = now.live.state.clone();
            (now.wanted, now.live, now.left) = (wanted, live, left);
            now.begin_down(Some(&before), at);
        }
        now.changed = changed;
        now.set_state(at);
        replaced
    }

    /// Has names at the addresses where they are found now, where that makes a difference: to which endpoints. Workers know
    /// of it once they are told.
    pub(crate) fn follow_names(
        &self,
        pool: PoolId,
        at: Millis,
        found: impl Fn(&Resolve) -> Option<Vec<Spot>>,
    ) -> Option<Arc<EndpointSet>> {
        let mut now = self.lock();
        let set = addressed(&now.wanted, pool, &now.live.set, found);
        if places(&set) == places(&now.live.set) {
            return None;
        }
        let (live, left) = now.followed_by(set.clone());
        (now.live, now.left) = (live, left);
        now.set_state(at);
        Some(set)
    }

    /// The keys of all endpoints that the pool's counts are made of: those there are, and those that left lately.
    pub(crate) fn counted(&self) -> Vec<EndpointKey> {
        let now = self.lock();
        now.live.set.endpoints.iter().map(|endpoint| endpoint.key).chain(now.left.iter().copied()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // What can panic comes before what is changed.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The endpoints that a pool is to have: those of the plan, or those that were given while running.
///
/// # Errors
/// What was given cannot be used.
pub(crate) fn laid_over(pool: &weir_plan::Pool, changed: &PoolChanges) -> Result<Arc<EndpointSet>, String> {
    match &changed.endpoints {
        None => Ok(pool.set.clone()),
        Some(given) => pool.set.replaced_by(pool.id, given).map(Arc::new),
    }
}

/// A set with its names at their addresses; `now` is what is in use.
fn addressed(
    wanted: &Arc<EndpointSet>,
    pool: PoolId,
    now: &EndpointSet,
    found: impl Fn(&Resolve) -> Option<Vec<Spot>>,
) -> Arc<EndpointSet> {
    match wanted.resolves() {
        true => Arc::new(wanted.at(pool, now, found)),
        false => wanted.clone(),
    }
}

/// What makes two sets the same endpoints.
fn places(set: &EndpointSet) -> Vec<(EndpointKey, Option<&Address>, u32, bool)> {
    let all = set.endpoints.iter().zip(set.config.endpoints());
    all.map(|(one, config)| (one.key, one.address.as_ref(), config.weight, config.backup)).collect()
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

    /// Takes new endpoints for down that are to be until they were checked: the thread that checks may be late.
    fn begin_down(&self, before: Option<&PoolShared>, now: Millis) {
        let Live { set, state } = &self.live;
        for (at, endpoint) in set.endpoints.iter().enumerate() {
            let first = endpoint.check.as_ref().map(|check| check.first);
            let is_new = || before.is_none_or(|before| before.index_of(endpoint.key).is_none());
            if matches!(first, Some(FirstState::Down | FirstState::FullyDown)) && is_new() {
                state.set_health(at, false, now);
            }
        }
    }

    /// Gives endpoints the weights and states that were asked for. Choices read them from their state.
    fn set_state(&self, now: Millis) {
        let Live { set, state } = &self.live;
        for (at, (endpoint, member)) in set.endpoints.iter().zip(state.members()).enumerate() {
            let before = endpoint.begins.unwrap_or_default();
            let weight = self.changed.weights.get(&*endpoint.name).copied().or(before.weight);
            let weight = weight.map(|weight| weight.min(MAX_WEIGHT));
            if member.weight() != weight {
                state.set_weight(at, weight);
            }
            let before = match (before.maintenance, before.drain) {
                (true, _) => AdminState::Maintenance,
                (false, true) => AdminState::Drain,
                (false, false) => AdminState::AsConfigured,
            };
            let asked = self.changed.states.get(&*endpoint.name).copied().unwrap_or(before);
            if member.admin() != asked {
                state.set_admin(at, asked, now);
            }
        }
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
    /// Its state, which all workers share.
    pub(crate) state: Arc<EndpointShared>,
}

/// How an endpoint stands.
pub(crate) struct EndpointStanding {
    /// Health checks find it well, and nobody took it out.
    pub(crate) up: bool,
    /// Exchanges that wait for it alone.
    pub(crate) waiting: u32,
    /// Exchanges it carries.
    pub(crate) in_flight: u64,
    /// The most it may carry; 0: no bound.
    pub(crate) most: u32,
    /// The most that may wait for it; 0: no bound.
    pub(crate) most_waiting: u32,
    /// Its weight now.
    pub(crate) weight: u32,
    /// Its weight by the configuration.
    pub(crate) full_weight: u32,
}

impl EndpointStanding {
    /// How many more exchanges it may carry; `None`: any number.
    pub(crate) fn free(&self) -> Option<i64> {
        let free = i64::from(self.most) - i64::try_from(self.in_flight).unwrap_or(i64::MAX);
        (self.most > 0).then_some(free.max(0))
    }

    /// How many more may wait for it; `None`: any number.
    pub(crate) fn places(&self) -> Option<i64> {
        let free = i64::from(self.most_waiting) - i64::from(self.waiting);
        (self.most_waiting > 0).then_some(free.max(0))
    }
}

impl Member {
    fn new(Live { set, state }: &Live, at: usize) -> Self {
        let endpoint = &set.endpoints[at];
        let name: Rc<str> = (&*endpoint.name).into();
        let shown = endpoint.address.as_ref().map(ToString::to_string);
        let shown = shown.map_or_else(|| name.clone(), |shown| shown.as_str().into());
        let state = state.members()[at].clone();
        Self { set: set.clone(), at, link: endpoint.link(), shown, name, state }
    }

    /// The endpoint.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.set.endpoints[self.at]
    }

    /// Its number in its pool, as written or counted.
    pub(crate) fn number(&self) -> u32 {
        self.set.config.endpoints().get(self.at).map_or(0, |endpoint| endpoint.id)
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
        let members = (0..live.set.endpoints.len()).map(|at| Rc::new(Member::new(live, at))).collect();
        Self { chooser, members }
    }

    /// The endpoints whose connections are cut as things stand, and why.
    pub(crate) fn cut_now(&self) -> HashMap<EndpointKey, Cut> {
        let (config, state) = (self.chooser.config(), self.chooser.shared());
        let stands = |at: usize| state.standing(config, at);
        let is_backup = |at: usize| config.endpoints().get(at).is_some_and(|one| one.backup);
        let all = || self.members.iter().map(|member| member.endpoint()).enumerate();
        let relieved =
            all().any(|(at, one)| one.cuts.backups_when_up && !is_backup(at) && stands(at) == Standing::Up);
        let why = |at: usize, one: &Endpoint| match stands(at) {
            Standing::Down | Standing::Maintenance if one.cuts.when_down => Some(Cut::Down),
            _ if relieved && is_backup(at) => Some(Cut::Up),
            _ => None,
        };
        all().filter_map(|(at, one)| Some((one.key, why(at, one)?))).collect()
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
        let at = self.index_of(key)?;
        let lease = self.chooser.take(at, now, selection)?;
        Some((lease, self.members[at.0 as usize].clone()))
    }

    /// The same for one that may be down.
    pub(crate) fn force(
        &mut self,
        key: EndpointKey,
        now: Millis,
        selection: &mut Selection,
    ) -> Option<(Lease, Rc<Member>)> {
        let at = self.index_of(key)?;
        let lease = self.chooser.force(at, now, selection)?;
        Some((lease, self.members[at.0 as usize].clone()))
    }

    fn index_of(&self, key: EndpointKey) -> Option<EndpointIndex> {
        let at = self.members.iter().position(|member| member.endpoint().key == key)?;
        Some(EndpointIndex(u32::try_from(at).ok()?))
    }

    /// Takes a place in the queue, for an endpoint or any. `None`: `most` wait already.
    pub(crate) fn join(&self, wanted: Option<EndpointKey>, most: usize, turn: Turn) -> Option<Place> {
        let state = self.chooser.shared();
        let at = wanted.and_then(|key| u32::try_from(state.index_of(key)?).ok());
        state.join(at.map(EndpointIndex), most, turn)
    }

    /// How many attempts there are by default.
    pub(crate) fn attempts(&self) -> u32 {
        self.chooser.config().attempts()
    }

    /// What the pool bears at the moment, in the whole process.
    pub(crate) fn pressure(&self) -> &Arc<weir_policy::budget::Pressure> {
        self.chooser.shared().pressure()
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

    /// How the endpoint of a name stands, as far as this worker knows or the pool counts.
    pub(crate) fn standing_of(&self, name: &str) -> Option<EndpointStanding> {
        self.standing_at(self.members.iter().position(|member| &*member.name == name)?)
    }

    /// The number of an endpoint, as written or counted.
    pub(crate) fn number_of(&self, name: &str) -> Option<u32> {
        self.members.iter().find(|member| &*member.name == name).map(|member| member.number())
    }

    /// Its endpoints.
    pub(crate) fn keys(&self) -> impl Iterator<Item = EndpointKey> {
        self.members.iter().map(|member| member.endpoint().key)
    }

    /// The endpoint of a name.
    pub(crate) fn key_of(&self, name: &str) -> Option<EndpointKey> {
        self.members.iter().find(|member| &*member.name == name).map(|member| member.endpoint().key)
    }

    /// Exchanges that wait for any of its endpoints.
    pub(crate) fn waiting(&self) -> u64 {
        self.chooser.shared().waiting() as u64
    }

    /// How all its endpoints stand.
    pub(crate) fn standings(&self) -> impl Iterator<Item = EndpointStanding> {
        (0..self.members.len()).filter_map(|at| self.standing_at(at))
    }

    fn standing_at(&self, at: usize) -> Option<EndpointStanding> {
        let (state, config) = (self.chooser.shared(), self.chooser.config());
        let (member, endpoint) = (state.members().get(at)?, config.endpoints().get(at)?);
        Some(EndpointStanding {
            up: matches!(state.standing(config, at), Standing::Up | Standing::Draining),
            waiting: member.waiting(),
            in_flight: self.in_flight_at(at),
            most: endpoint.max_conns,
            most_waiting: self.members.get(at).and_then(|own| own.endpoint().max_queue).unwrap_or(0),
            weight: member.weight().unwrap_or(endpoint.weight),
            full_weight: endpoint.weight,
        })
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
