//! The choice itself.
//!
//! Owns: a worker's view of its pool, its counts and turns where those are not the process's.
//! Never: allocates while choosing; the view is rebuilt only when an endpoint's state changed.
//! Driven by: `engine::exchange`, once per attempt.
//! Why: availability is judged in one place (`Members::judge`), so every method agrees on who may be chosen.

use std::net::IpAddr;
use std::sync::Arc;

use super::config::{BackupUse, Balance, KeyHash, Placement, PoolConfig};
use super::lease::Lease;
use super::rotation::Rotation;
use super::selection::Selection;
use super::shared::{EndpointLoad, PoolShared, Standing, keys};
use super::table::{NearRing, RoundMap, Spread, common_divisor};
use super::{Choice, EndpointIndex, Key};
use crate::hash::{Crc32, avalanche, crc32};
use crate::rng::SplitMix;
use crate::time::{Millis, millis};

/// While any endpoint of a pool can ramp up, weights are multiplied by this, so that weight one has steps to climb.
const RAMP_STEPS: u64 = 64;

/// A pool as one worker runs it.
///
/// Order of calls, for each attempt: [`Pool::choose`] with the exchange's one [`Selection`]; on
/// [`Choice::Endpoint`] use the lease and end it. After a change of plan: [`Pool::reconfigured`].
#[derive(Debug)]
pub struct Pool {
    members: Members,
    rotation: Rotation,
    tables: Tables,
    rng: SplitMix,
}

/// Everything that judging an endpoint needs.
#[derive(Debug)]
struct Members {
    config: Arc<PoolConfig>,
    shared: Arc<PoolShared>,
    loads: Box<[Arc<EndpointLoad>]>,
    view: Box<[View]>,
    epoch: u64,
}

/// What a worker last saw of an endpoint.
#[derive(Clone, Copy, Debug)]
struct View {
    standing: Standing,
    weight: u32,
    up_since: Millis,
}

/// Lookup tables over the endpoints that are up; rebuilt with the view.
#[derive(Debug, Default)]
struct Tables {
    /// The tier that `ring` and `map` were built for.
    tier: usize,
    /// For the random methods, by tier.
    spread: [Spread; 2],
    ring: NearRing,
    map: RoundMap,
}

/// Whether an endpoint may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Free,
    Tried,
    Unavailable,
    Full,
}

/// What a method came to.
enum Pick {
    One(u32),
    Nobody,
    /// HAProxy's hashes: the key names this one, and it is full.
    Wait(u32),
}

impl From<Option<u32>> for Pick {
    fn from(found: Option<u32>) -> Self {
        found.map_or(Pick::Nobody, Pick::One)
    }
}

impl Pool {
    /// A worker's pool. `seed` feeds the random methods; give each worker its own.
    pub fn new(config: Arc<PoolConfig>, shared: Arc<PoolShared>, seed: u64) -> Self {
        let count = config.endpoints().len();
        Self::assemble(config, shared, Rotation::new(count), SplitMix::new(seed), |_| None)
    }

    /// The same pool under a new configuration: counts and turns of endpoints with the same key go on.
    /// `shared` is the new plan's state, made with [`PoolShared::new`] from the old one's.
    pub fn reconfigured(&self, config: Arc<PoolConfig>, shared: Arc<PoolShared>) -> Self {
        let old = keys(&self.members.config);
        let rotation = self.rotation.rekeyed(&old, &keys(&config));
        let was_own = self.members.config.options.counts == Placement::Worker;
        let keep = |key| {
            let at = old.iter().position(|k| *k == key).filter(|_| was_own)?;
            Some(Arc::clone(&self.members.loads[at]))
        };
        Self::assemble(config, shared, rotation, self.rng.clone(), keep)
    }

    fn assemble(
        config: Arc<PoolConfig>,
        shared: Arc<PoolShared>,
        rotation: Rotation,
        rng: SplitMix,
        keep: impl Fn(weir_control::EndpointKey) -> Option<Arc<EndpointLoad>>,
    ) -> Self {
        let own = config.options.counts == Placement::Worker;
        let load = |member: &Arc<super::EndpointShared>| match own {
            true => keep(member.key()).unwrap_or_else(|| Arc::new(EndpointLoad::exclusive())),
            false => Arc::clone(member.load()),
        };
        let loads = shared.members().iter().map(load).collect();
        let unseen = View { standing: Standing::Maintenance, weight: 0, up_since: Millis(0) };
        let view = vec![unseen; config.endpoints().len()].into();
        let members = Members { config, shared, loads, view, epoch: 0 };
        let mut pool = Self { members, rotation, tables: Tables::default(), rng };
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
        if self.members.epoch != self.members.shared.epoch() {
            self.refresh();
        }
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
                        selection.took(EndpointIndex(index));
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
        if self.members.epoch != self.members.shared.epoch() {
            self.refresh();
        }
        let view = self.members.view.get(index.0 as usize)?;
        let usable = matches!(view.standing, Standing::Up | Standing::Draining);
        if !usable || (!self.members.config.lone() && self.members.failed(index.0, now)) {
            return None;
        }
        let lease = self.members.lease(index.0, now)?;
        selection.took(index);
        Some(lease)
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
        let Self { members, rotation, tables, rng } = self;
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
            view.weight = member.weight().unwrap_or(members.config.endpoints[at].weight);
            view.up_since = member.up_since();
        }
        self.tables.refill(&self.members);
    }
}

impl Tables {
    fn refill(&mut self, members: &Members) {
        let config = &members.config;
        let tier = usize::from(!members.any_up(0));
        self.tier = tier;
        match config.balance {
            Balance::Random(_) => {
                for (tier, spread) in self.spread.iter_mut().enumerate() {
                    spread.refill(members.up(tier).map(|i| (i, members.view[i as usize].weight)));
                }
            }
            Balance::Ring(_) => {
                let point = |i: u32| (i, config.endpoints[i as usize].id, members.view[i as usize].weight);
                self.ring.refill(members.up(tier).map(point));
            }
            Balance::Map(_) | Balance::StaticRoundRobin => {
                let up: Vec<_> = members.up(tier).map(|i| (i, members.view[i as usize].weight)).collect();
                let divisor = common_divisor(config.endpoints.iter().map(|e| e.weight));
                self.map.refill(&up, divisor);
            }
            _ => {}
        }
    }
}

impl Members {
    /// The endpoints of a tier that are up; one only, where the first backup takes all.
    fn up(&self, tier: usize) -> impl Iterator<Item = u32> + '_ {
        let first_only = tier == 1 && self.config.options.backups == BackupUse::FirstWhenDown;
        let most = if first_only { 1 } else { usize::MAX };
        let tier = &self.config.tiers[tier];
        tier.iter().copied().filter(|&i| self.view[i as usize].standing == Standing::Up).take(most)
    }

    fn any_up(&self, tier: usize) -> bool {
        self.up(tier).next().is_some()
    }

    fn any_full(&self, now: Millis, tier: Option<usize>) -> bool {
        let nothing_tried = Selection::default();
        let full = |tier| self.up(tier).any(|i| self.judge(i, now, &nothing_tried) == Verdict::Full);
        tier.map_or_else(|| full(0) || full(1), full)
    }

    fn failed(&self, index: u32, now: Millis) -> bool {
        let at = index as usize;
        self.loads[at].failed(self.config.endpoints[at].max_fails, self.config.fail_timeouts[at], now)
    }

    fn judge(&self, index: u32, now: Millis, selection: &Selection) -> Verdict {
        let at = index as usize;
        let endpoint = &self.config.endpoints[at];
        if selection.tried.contains(EndpointIndex(index)) {
            Verdict::Tried
        } else if self.view[at].standing != Standing::Up || (!self.config.lone() && self.failed(index, now)) {
            Verdict::Unavailable
        } else if endpoint.max_conns > 0
            && (self.loads[at].in_flight() >= endpoint.max_conns || self.others_wait(index, selection))
        {
            Verdict::Full
        } else {
            Verdict::Free
        }
    }

    /// A bound that holds for the process, so that there is a queue for it.
    fn bounded(&self, index: u32) -> bool {
        self.config.options.counts == Placement::Process
            && self.config.endpoints[index as usize].max_conns > 0
    }

    /// Those who wait come before newcomers.
    fn others_wait(&self, index: u32, selection: &Selection) -> bool {
        let member = &self.shared.members()[index as usize];
        let waiting = || self.shared.queue().someone_for_any() || member.waiting() > 0;
        !selection.queued && self.bounded(index) && waiting()
    }

    fn free<'a>(
        &'a self,
        tier: usize,
        now: Millis,
        selection: &'a Selection,
    ) -> impl Iterator<Item = u32> + Clone + 'a {
        let first_only = tier == 1 && self.config.options.backups == BackupUse::FirstWhenDown;
        let only = if first_only { self.up(1).next() } else { None };
        let wanted = move |&i: &u32| !first_only || Some(i) == only;
        let tier = self.config.tiers[tier].iter().copied();
        tier.filter(wanted).filter(move |&i| self.judge(i, now, selection) == Verdict::Free)
    }

    fn in_flight(&self, index: u32) -> u64 {
        u64::from(self.loads[index as usize].in_flight())
    }

    fn weight(&self, index: u32) -> u64 {
        u64::from(self.view[index as usize].weight)
    }

    /// The weight for one smooth turn: less what failures took, of which one comes back; growing after a slow start.
    fn turn_weight(&self, index: u32, now: Millis) -> i64 {
        let load = &self.loads[index as usize];
        let penalty = load.penalty();
        if penalty > 0 {
            load.forgive_one();
        }
        let weight = self.weight(index).saturating_sub(u64::from(penalty));
        i64::try_from(self.ramped(index, weight, now)).unwrap_or(i64::MAX)
    }

    fn ramped(&self, index: u32, weight: u64, now: Millis) -> u64 {
        if !self.config.ramps {
            return weight;
        }
        let full = millis(self.config.endpoints[index as usize].slow_start);
        let since = self.view[index as usize].up_since;
        let gone = if since == Millis(0) { full } else { now.since(since) };
        let steps = weight * RAMP_STEPS;
        if gone >= full { steps } else { (steps.saturating_mul(gone) / full).max(1) }
    }

    fn lease(&self, index: u32, now: Millis) -> Option<Lease> {
        let at = index as usize;
        let (endpoint, load) = (&self.config.endpoints[at], &self.loads[at]);
        if !load.enter(endpoint.max_conns) {
            return None;
        }
        let lease = Lease {
            index: EndpointIndex(index),
            key: endpoint.key,
            load: Arc::clone(load),
            weight: self.view[at].weight,
            max_fails: endpoint.max_fails,
            lone: self.config.lone(),
            queue: self.bounded(index).then(|| Arc::clone(self.shared.queue())),
        };
        let won = lease.lone || load.begin_window(endpoint.max_fails, self.config.fail_timeouts[at], now);
        won.then_some(lease)
    }
}

/// One run of the pool's method over one tier.
struct Method<'a> {
    members: &'a Members,
    tables: &'a Tables,
    rng: &'a mut SplitMix,
    tier: usize,
    now: Millis,
}

impl Method<'_> {
    fn pick(mut self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Pick {
        // nginx's modulo hashes know primaries only; backups, reached when they gave up, take turns.
        let first_tier = self.tier == 0;
        match self.members.config.balance {
            Balance::RoundRobin => self.round_robin(turns, selection).into(),
            Balance::StaticRoundRobin | Balance::Map(_) | Balance::Ring(_)
                if self.tier != self.tables.tier =>
            {
                self.round_robin(turns, selection).into()
            }
            Balance::StaticRoundRobin => self.map_turn(turns, selection).into(),
            Balance::LeastConn => self.least_conn(turns, selection).into(),
            Balance::LeastConnOldest => self.least_conn_oldest(turns, selection).into(),
            Balance::First => self.members.free(self.tier, self.now, selection).next().into(),
            Balance::IpHash if first_tier => self.ip_hash(turns, key, selection).into(),
            Balance::HashModulo if first_tier => self.hash_modulo(turns, key, selection).into(),
            Balance::HashKetama if first_tier => self.ketama(turns, key, selection).into(),
            Balance::IpHash | Balance::HashModulo | Balance::HashKetama => {
                self.round_robin(turns, selection).into()
            }
            Balance::Random(draws) => self.random(draws, turns, selection).into(),
            Balance::Map(hash) => self.map_hash(hash, turns, key, selection),
            Balance::Ring(hash) => self.ring_hash(hash, turns, key, selection),
        }
    }

    fn verdict(&self, index: u32, selection: &Selection) -> Verdict {
        self.members.judge(index, self.now, selection)
    }

    fn round_robin(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let free = self.members.free(self.tier, self.now, selection);
        turns.smooth(free.map(|i| (i, self.members.turn_weight(i, self.now))))
    }

    fn least_conn(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let (members, now) = (self.members, self.now);
        let free = members.free(self.tier, now, selection);
        // a/wa against b/wb without division.
        let load = |i: u32, other: u32| members.in_flight(i) * members.weight(other).max(1);
        let best = free.clone().reduce(|best, i| if load(i, best) < load(best, i) { i } else { best })?;
        let mut equal = free.filter(|&i| load(i, best) == load(best, i));
        if equal.clone().nth(1).is_none() {
            return equal.next();
        }
        turns.smooth(equal.map(|i| (i, members.turn_weight(i, now))))
    }

    fn least_conn_oldest(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let members = self.members;
        let cost = |i: u32| {
            let weight = members.ramped(i, members.weight(i), self.now).max(1);
            match members.in_flight(i) {
                0 => 0,
                // Scaled as HAProxy does, in integers, so that near equals are equal.
                busy => (busy + 1) * 256 * if members.config.ramps { RAMP_STEPS } else { 1 } / weight,
            }
        };
        turns.cheapest(members.free(self.tier, self.now, selection).map(|i| (i, cost(i))))
    }

    fn ip_hash(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let spread = &self.members.config.spread;
        if self.members.config.lone() || spread.total() == 0 {
            return self.round_robin(turns, selection);
        }
        let (bytes, len) = ip_hash_bytes(key);
        if !selection.placed {
            (selection.hash, selection.placed) = (89, true);
        }
        while !selection.exhausted() {
            for &byte in &bytes[..len] {
                selection.hash = (selection.hash * 113 + u32::from(byte)) % 6271;
            }
            let index = spread.at(selection.hash % spread.total())?;
            if self.verdict(index, selection) == Verdict::Free {
                return Some(index);
            }
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn hash_modulo(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let spread = &self.members.config.spread;
        let bytes = key_bytes(&key);
        if self.members.config.lone() || spread.total() == 0 || bytes.is_empty() {
            return self.round_robin(turns, selection);
        }
        while !selection.exhausted() {
            let mut sum = Crc32::new();
            if selection.rehash > 0 {
                sum = sum.update(decimal(selection.rehash, &mut [0; 10]));
            }
            let hash = (sum.update(bytes).finish() >> 16) & 0x7fff;
            selection.hash = selection.hash.wrapping_add(hash);
            selection.rehash += 1;
            let index = spread.at(selection.hash % spread.total())?;
            if self.verdict(index, selection) == Verdict::Free {
                return Some(index);
            }
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn ketama(&self, turns: &mut Rotation, key: Key<'_>, selection: &mut Selection) -> Option<u32> {
        let config = &self.members.config;
        let bytes = key_bytes(&key);
        let Some(ring) = config.ketama.as_ref().filter(|_| !config.lone() && !bytes.is_empty()) else {
            return self.round_robin(turns, selection);
        };
        if !selection.placed {
            (selection.hash, selection.placed) = (ring.place(crc32(bytes)), true);
        }
        while !selection.exhausted() {
            let group = ring.group(selection.hash)?;
            let free = self.members.free(self.tier, self.now, selection);
            let of_group = free.filter(|&i| config.groups.of(i) == group);
            let found = turns.smooth(of_group.map(|i| (i, self.members.turn_weight(i, self.now))));
            if found.is_some() {
                return found;
            }
            selection.hash = selection.hash.wrapping_add(1);
            selection.missed();
        }
        self.round_robin(turns, selection)
    }

    fn random(&mut self, draws: u8, turns: &mut Rotation, selection: &mut Selection) -> Option<u32> {
        let members = self.members;
        let spread = &self.tables.spread[self.tier];
        if spread.total() == 0 || members.config.lone() {
            return self.round_robin(turns, selection);
        }
        let mut best: Option<u32> = None;
        let mut wanted = draws.max(1);
        while wanted > 0 && !selection.exhausted() {
            let drawn = spread.at(self.rng.below(spread.total()))?;
            if Some(drawn) == best || self.verdict(drawn, selection) != Verdict::Free {
                selection.missed();
                continue;
            }
            wanted -= 1;
            let load = |i: u32, other: u32| members.in_flight(i) * members.weight(other).max(1);
            let keep = |held: u32| if load(drawn, held) > load(held, drawn) { held } else { drawn };
            best = Some(best.map_or(drawn, keep));
        }
        best.or_else(|| self.round_robin(turns, selection))
    }

    /// The next slot of HAProxy's map that is free.
    fn map_turn(&self, turns: &mut Rotation, selection: &Selection) -> Option<u32> {
        let slots = self.tables.map.slots();
        let start = if turns.cursor < slots.len() { turns.cursor } else { 0 };
        let order = (start..slots.len()).chain(0..start);
        let at = order.into_iter().find(|&at| self.verdict(slots[at], selection) == Verdict::Free)?;
        turns.cursor = at + 1;
        Some(slots[at])
    }

    fn map_hash(&self, hash: KeyHash, turns: &mut Rotation, key: Key<'_>, selection: &Selection) -> Pick {
        let slots = self.tables.map.slots();
        let (Some(number), false) = (key_number(hash, key), slots.is_empty()) else {
            return self.map_turn(turns, selection).into();
        };
        let index = slots[number as usize % slots.len()];
        match self.verdict(index, selection) {
            Verdict::Free => Pick::One(index),
            Verdict::Full => Pick::Wait(index),
            Verdict::Tried | Verdict::Unavailable => self.map_turn(turns, selection).into(),
        }
    }

    fn ring_hash(
        &mut self,
        hash: KeyHash,
        turns: &mut Rotation,
        key: Key<'_>,
        selection: &Selection,
    ) -> Pick {
        let Some(number) = key_number(hash, key) else {
            return self.round_robin(turns, selection).into();
        };
        for index in self.tables.ring.from(number) {
            match self.verdict(index, selection) {
                Verdict::Free => return Pick::One(index),
                Verdict::Full => return Pick::Wait(index),
                Verdict::Tried | Verdict::Unavailable => {}
            }
        }
        Pick::Nobody
    }
}

/// What nginx's `ip_hash` folds in: a /24 of IPv4, all of IPv6, zeros for a client without address.
fn ip_hash_bytes(key: Key<'_>) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    match key {
        Key::Client(IpAddr::V4(address)) => {
            bytes[..4].copy_from_slice(&address.octets());
            (bytes, 3)
        }
        Key::Client(IpAddr::V6(address)) => (address.octets(), 16),
        Key::None | Key::Bytes(_) => (bytes, 3),
    }
}

fn key_bytes<'a>(key: &Key<'a>) -> &'a [u8] {
    match key {
        Key::Bytes(bytes) => bytes,
        Key::None | Key::Client(_) => &[],
    }
}

/// HAProxy's number for a key: addresses fold their words by exclusive or, strings go through the function.
fn key_number(hash: KeyHash, key: Key<'_>) -> Option<u32> {
    let fold = |octets: &[u8]| {
        octets
            .chunks_exact(4)
            .fold(0, |sum, word| sum ^ u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    };
    let number = match key {
        Key::None => return None,
        Key::Client(IpAddr::V4(address)) => fold(&address.octets()),
        Key::Client(IpAddr::V6(address)) => fold(&address.octets()),
        Key::Bytes(bytes) => hash.function.hash(bytes),
    };
    Some(if hash.avalanche { avalanche(number) } else { number })
}

/// `number` in decimal, without allocating.
fn decimal(mut number: u32, room: &mut [u8; 10]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}
