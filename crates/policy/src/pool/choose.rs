//! A pool as one worker runs it: the tiers, the queue's precedence, the lease.
//!
//! Owns: a worker's view of its pool, its counts and turns where those are not the process's.
//! Never: allocates while choosing; the view is rebuilt only when an endpoint's state changed.
//! Driven by: `engine::exchange`, once per attempt.
//! Why: primaries, backups and redispatch are the same for every method, so they are decided around it.

use std::sync::Arc;

use hashbrown::HashMap;
use weir_control::EndpointKey;

use super::config::{BackupUse, Placement, PoolConfig};
use super::lease::Lease;
use super::members::{Members, Tables, View};
use super::method::{Method, Pick};
use super::rotation::Rotation;
use super::selection::Selection;
use super::shared::{EndpointLoad, PoolShared, Standing, keys};
use super::{Choice, EndpointIndex, Key};
use crate::rng::SplitMix;
use crate::time::Millis;

/// A pool as one worker runs it.
///
/// Order of calls, for each attempt: [`Pool::choose`] with the exchange's one [`Selection`]; on
/// [`Choice::Endpoint`] use the lease and end it. After a change of plan or of endpoints: [`Pool::reconfigured`].
#[derive(Debug)]
pub struct Pool {
    members: Members,
    rotation: Rotation,
    tables: Tables,
    rng: SplitMix,
    /// Which set of endpoints it is, counted from one.
    generation: u32,
}

impl Pool {
    /// A worker's pool. `seed` feeds the random methods; give each worker its own.
    pub fn new(config: Arc<PoolConfig>, shared: Arc<PoolShared>, seed: u64) -> Self {
        let count = config.endpoints().len();
        Self::assemble(config, shared, Rotation::new(count), SplitMix::new(seed), 1, |_| None)
    }

    /// The same pool under a new configuration: counts and turns of endpoints with the same key go on.
    /// `shared` is the new plan's state, made with [`PoolShared::new`] from the old one's.
    pub fn reconfigured(&self, config: Arc<PoolConfig>, shared: Arc<PoolShared>) -> Self {
        let old = keys(&self.members.config);
        let rotation = self.rotation.rekeyed(&old, &keys(&config));
        let was_own = self.members.config.options.counts == Placement::Worker;
        let loads = self.members.loads.iter().filter(|_| was_own).map(Arc::clone);
        let loads: HashMap<_, _, ahash::RandomState> = old.into_iter().zip(loads).collect();
        let keep = |key| loads.get(&key).map(Arc::clone);
        let generation = self.generation.checked_add(1).unwrap_or(1);
        Self::assemble(config, shared, rotation, self.rng.clone(), generation, keep)
    }

    fn assemble(
        config: Arc<PoolConfig>,
        shared: Arc<PoolShared>,
        rotation: Rotation,
        rng: SplitMix,
        generation: u32,
        keep: impl Fn(EndpointKey) -> Option<Arc<EndpointLoad>>,
    ) -> Self {
        let own = config.options.counts == Placement::Worker;
        let load = |member: &Arc<super::EndpointShared>| match own {
            true => keep(member.key()).unwrap_or_else(|| Arc::new(EndpointLoad::exclusive())),
            false => Arc::clone(member.load()),
        };
        let loads = shared.members().iter().map(load).collect();
        let unseen = View { standing: Standing::Maintenance, weight: 0, max_conns: 0, up_since: Millis(0) };
        let view = vec![unseen; config.endpoints().len()].into();
        let members =
            Members { config, shared, loads, view, epoch: 0, prefers_near: [false; 2], narrow: false };
        let mut pool = Self { members, rotation, tables: Tables::default(), rng, generation };
        pool.refresh();
        pool
    }

    /// The configuration it runs.
    pub fn config(&self) -> &Arc<PoolConfig> {
        &self.members.config
    }

    /// The process-wide state it shares.
    pub fn shared(&self) -> &Arc<PoolShared> {
        &self.members.shared
    }

    /// This worker's counts of endpoint `index`: its own, or the process's, as the pool's options say.
    pub fn load(&self, index: EndpointIndex) -> Option<&Arc<EndpointLoad>> {
        self.members.loads.get(index.0 as usize)
    }

    /// Whether endpoint `index` is out through failures at `now`.
    pub fn failed(&self, index: EndpointIndex, now: Millis) -> bool {
        (index.0 as usize) < self.members.loads.len()
            && !self.members.config.lone()
            && self.members.failed(index.0, now)
    }

    /// Chooses an endpoint for the next attempt of an exchange.
    pub fn choose(&mut self, now: Millis, key: Key<'_>, selection: &mut Selection) -> Choice {
        self.meet(selection);
        loop {
            let (tier, strict) = match self.members.config.options.backups {
                BackupUse::WhenNoneChosen => (0, false),
                _ => (usize::from(!self.members.any_up(0)), true),
            };
            let pick = match self.pick(tier, now, key, selection) {
                Pick::Nobody if !strict => self.pick(1, now, key, selection),
                Pick::Nobody => self.pick_again(tier, now, key, selection),
                found => found,
            };
            match pick {
                Pick::One(index) => {
                    if let Some(lease) = self.members.lease(index, now) {
                        selection.took(EndpointIndex(index), lease.key());
                        return Choice::Endpoint(lease);
                    }
                    // Another worker took the last slot or the probe in between; it is no candidate any more.
                }
                Pick::Wait(index) => return Choice::AllBusy { wanted: Some(EndpointIndex(index)) },
                Pick::Nobody if self.members.any_full(now, strict.then_some(tier)) => {
                    return Choice::AllBusy { wanted: None };
                }
                Pick::Nobody => return Choice::NoneLive,
            }
        }
    }

    /// Takes a particular endpoint: for persistence, which may use a draining one, and for a retry on the same.
    /// `None` if it is down, failed or full.
    pub fn take(&mut self, index: EndpointIndex, now: Millis, selection: &mut Selection) -> Option<Lease> {
        self.meet(selection);
        let view = self.members.view.get(index.0 as usize)?;
        let usable = matches!(view.standing, Standing::Up | Standing::Draining);
        if !usable || (!self.members.config.lone() && self.members.failed(index.0, now)) {
            return None;
        }
        let lease = self.members.lease(index.0, now)?;
        selection.took(index, lease.key());
        Some(lease)
    }

    /// Takes a particular endpoint although it may be down: rules want its clients there. `None` if it is full.
    pub fn force(&mut self, index: EndpointIndex, now: Millis, selection: &mut Selection) -> Option<Lease> {
        self.meet(selection);
        self.members.view.get(index.0 as usize)?;
        let lease = self.members.lease(index.0, now)?;
        selection.took(index, lease.key());
        Some(lease)
    }

    /// Before a choice: what changed since the last one is taken up.
    fn meet(&mut self, selection: &mut Selection) {
        if self.members.epoch != self.members.shared.epoch() {
            self.refresh();
        }
        let shared = &self.members.shared;
        let place_of = |key| Some(EndpointIndex(u32::try_from(shared.index_of(key)?).ok()?));
        selection.meet(self.generation, place_of);
    }

    /// Everybody who could be chosen was tried: HAProxy's redispatch then begins again, avoiding only the last.
    fn pick_again(&mut self, tier: usize, now: Millis, key: Key<'_>, selection: &mut Selection) -> Pick {
        let Some(last) = selection.last else { return Pick::Nobody };
        selection.tried.clear();
        selection.tried.insert(last);
        match self.pick(tier, now, key, selection) {
            Pick::Nobody => {
                selection.tried.clear();
                let again = self.pick(tier, now, key, selection);
                selection.tried.insert(last);
                again
            }
            found => found,
        }
    }

    fn pick(&mut self, tier: usize, now: Millis, key: Key<'_>, selection: &mut Selection) -> Pick {
        if self.members.prefers_near[tier] {
            self.members.narrow = true;
            let near = self.pick_of(tier, now, key, selection);
            self.members.narrow = false;
            if !matches!(near, Pick::Nobody) {
                return near;
            }
        }
        self.pick_of(tier, now, key, selection)
    }

    fn pick_of(&mut self, tier: usize, now: Millis, key: Key<'_>, selection: &mut Selection) -> Pick {
        let Self { members, rotation, tables, rng, .. } = self;
        if members.config.tiers[tier].is_empty() {
            return Pick::Nobody;
        }
        if members.config.options.rotation == Placement::Process {
            let mut turns = members.shared.rotation();
            return Method { members, tables, rng, tier, now }.pick(&mut turns, key, selection);
        }
        Method { members, tables, rng, tier, now }.pick(rotation, key, selection)
    }

    /// Reads the members' state anew, and rebuilds what follows from it.
    fn refresh(&mut self) {
        let members = &mut self.members;
        // Before the states: a change made meanwhile moves the epoch on, and is read next time.
        members.epoch = members.shared.epoch();
        for (at, view) in members.view.iter_mut().enumerate() {
            let member = &members.shared.members()[at];
            view.standing = members.shared.standing(&members.config, at);
            let configured = &members.config.endpoints[at];
            view.weight = member.weight().unwrap_or(configured.weight);
            view.max_conns = member.max_conns().unwrap_or(configured.max_conns);
            view.up_since = member.up_since();
        }
        members.panic();
        members.find_near();
        self.tables.refill(&self.members);
    }
}
