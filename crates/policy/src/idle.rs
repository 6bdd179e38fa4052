//! Which upstream connections are kept, and which is used next.
//!
//! Owns: the idle connections of one worker and one pool, as tokens of the caller's type.
//! Never: opens, closes or reads a connection; it hands tokens back to be closed.
//! Driven by: the exchange: `take` before connecting, `park` after an answer; a timer: `poll_timeout`, `expire`.
//! Why: the newest is used first, so the old ones can time out; the oldest of all goes when there are too many. That is
//! nginx's `keepalive`, bounded for the pool as a whole. The key that was used last is found without a hash, and a key whose
//! last connection is taken keeps its place: most pools have one key, and a connection comes back with each answer.

use std::hash::Hash;
use std::time::Duration;

use hashbrown::HashMap;

use crate::time::{Millis, millis};

const NONE: u32 = u32::MAX;

/// Keys without a connection that keep their place. Keys may come from requests (an address to connect from), so there must
/// be a bound.
const KEPT_KEYS: usize = 64;

/// Bounds on kept connections. nginx: `keepalive`, `keepalive_requests`, `keepalive_time`, `keepalive_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleConfig {
    /// Most idle ones, over all endpoints; zero keeps none.
    pub most: usize,
    /// Requests after which a connection is not kept; zero is no bound. nginx's default: 1000.
    pub requests: u64,
    /// Age beyond which a connection is not kept; zero is no bound. nginx's default: an hour.
    pub age: Duration,
    /// Idle time after which it is closed; zero is no bound. nginx's default: 60 s.
    pub idle: Duration,
}

impl Default for IdleConfig {
    fn default() -> Self {
        Self { most: 32, requests: 1000, age: Duration::from_secs(3600), idle: Duration::from_secs(60) }
    }
}

/// What is known of a connection beside its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// When it was opened.
    pub opened: Millis,
    /// Requests it has carried.
    pub requests: u64,
}

/// What became of a connection that was parked.
#[derive(Debug, PartialEq, Eq)]
pub enum Parked<T> {
    /// It is kept under this id.
    Kept(IdleId),
    /// It is kept, and this other one, the oldest, is to be closed.
    Replaced(IdleId, T),
    /// It may not be kept: close it.
    Refused(T),
}

/// The name of a parked connection; never reused while the pool lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdleId {
    slot: u32,
    stamp: u64,
}

/// Idle connections by key `K` (endpoint, and whatever else must be equal: TLS name, PROXY header).
#[derive(Debug)]
pub struct IdlePool<K, T> {
    config: IdleConfig,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Connections by key.
    lists: Vec<Option<List<K>>>,
    free_lists: Vec<u32>,
    /// Where each key has its list.
    places: HashMap<K, u32, ahash::RandomState>,
    /// The list that was used last.
    recent: u32,
    newest: u32,
    oldest: u32,
    count: usize,
    stamps: u64,
}

#[derive(Debug)]
struct List<K> {
    key: K,
    newest: u32,
}

#[derive(Debug)]
struct Slot<T> {
    held: Option<Held<T>>,
    stamp: u64,
    /// The list of its key.
    list: u32,
    /// Order over all keys.
    newer: u32,
    older: u32,
    /// Order within the key.
    key_newer: u32,
    key_older: u32,
}

#[derive(Debug)]
struct Held<T> {
    token: T,
    history: History,
    parked: Millis,
}

impl<K: Clone + Eq + Hash, T> IdlePool<K, T> {
    /// An empty pool.
    pub fn new(config: IdleConfig) -> Self {
        Self {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            lists: Vec::new(),
            free_lists: Vec::new(),
            places: HashMap::default(),
            recent: NONE,
            newest: NONE,
            oldest: NONE,
            count: 0,
            stamps: 0,
        }
    }

    /// Idle connections held.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if none is held.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a connection with this history may be parked; ask before sending its last request, to say
    /// `Connection: close` in time.
    pub fn would_keep(&self, now: Millis, history: History) -> bool {
        let IdleConfig { most, requests, age, .. } = self.config;
        let young = age.is_zero() || now.since(history.opened) < millis(age);
        most > 0 && young && (requests == 0 || history.requests < requests)
    }

    /// Keeps a connection that became idle.
    pub fn park(&mut self, now: Millis, key: K, token: T, history: History) -> Parked<T> {
        if !self.would_keep(now, history) {
            return Parked::Refused(token);
        }
        let evicted = if self.count >= self.config.most { self.remove_slot(self.oldest) } else { None };
        let id = self.insert(key, Held { token, history, parked: now });
        match evicted {
            Some(held) => Parked::Replaced(id, held.token),
            None => Parked::Kept(id),
        }
    }

    /// The connection for `key` that was parked last. One that outlived its time is left for [`Self::expire`].
    pub fn take(&mut self, now: Millis, key: &K) -> Option<(T, History)> {
        let slot = self.newest_of(key)?;
        let deadline = self.deadline(slot);
        if deadline.is_some_and(|at| at <= now) {
            // The newest of its key is too old, so all of them are.
            return None;
        }
        let held = self.remove_slot(slot)?;
        Some((held.token, held.history))
    }

    /// Takes out a particular connection, because its peer closed it.
    pub fn remove(&mut self, id: IdleId) -> Option<T> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.stamp != id.stamp {
            return None;
        }
        self.remove_slot(id.slot).map(|held| held.token)
    }

    /// One connection whose idle time is over, to be closed; call until `None`.
    pub fn expire(&mut self, now: Millis) -> Option<T> {
        let oldest = self.oldest;
        if self.deadline(oldest)? > now {
            return None;
        }
        self.remove_slot(oldest).map(|held| held.token)
    }

    /// When [`Self::expire`] will next have one.
    pub fn poll_timeout(&self) -> Option<Millis> {
        self.deadline(self.oldest)
    }

    /// Takes out one connection of any key, oldest first: to give descriptors back under pressure, or at the end.
    pub fn evict(&mut self) -> Option<T> {
        self.remove_slot(self.oldest).map(|held| held.token)
    }

    /// Takes out what is not to be used any more and gives it to `dropped`.
    pub fn retain(&mut self, keep: impl Fn(&K, &T) -> bool, mut dropped: impl FnMut(T)) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let list = self.lists.get(slot.list as usize).and_then(Option::as_ref);
            let stays = slot.held.as_ref().zip(list).is_none_or(|(held, list)| keep(&list.key, &held.token));
            if !stays && let Some(held) = u32::try_from(at).ok().and_then(|at| self.remove_slot(at)) {
                dropped(held.token);
            }
        }
    }

    /// New bounds. Call [`Self::evict`] while [`Self::overfull`] says so.
    pub fn reconfigure(&mut self, config: IdleConfig) {
        self.config = config;
    }

    /// True if more are held than the bounds allow.
    pub fn overfull(&self) -> bool {
        self.count > self.config.most
    }

    fn deadline(&self, slot: u32) -> Option<Millis> {
        let held = self.slots.get(slot as usize)?.held.as_ref()?;
        (!self.config.idle.is_zero()).then(|| held.parked.plus(self.config.idle))
    }

    /// The list of a key, if it has one.
    fn find(&mut self, key: &K) -> Option<u32> {
        let recent = self.lists.get(self.recent as usize).and_then(Option::as_ref);
        if recent.is_none_or(|list| list.key != *key) {
            self.recent = *self.places.get(key)?;
        }
        Some(self.recent)
    }

    fn newest_of(&mut self, key: &K) -> Option<u32> {
        let list = self.find(key)?;
        let newest = self.lists[list as usize].as_ref()?.newest;
        (newest != NONE).then_some(newest)
    }

    /// A list for a key that has none.
    fn make_list(&mut self, key: K) -> u32 {
        let list = Some(List { key: key.clone(), newest: NONE });
        let at = match self.free_lists.pop() {
            Some(at) => {
                self.lists[at as usize] = list;
                at
            }
            None => {
                self.lists.push(list);
                #[expect(clippy::cast_possible_truncation, reason = "no more lists than slots")]
                {
                    (self.lists.len() - 1) as u32
                }
            }
        };
        self.places.insert(key, at);
        self.recent = at;
        at
    }

    /// Says which connection is the newest of a list; one without any gives up its place if there are many.
    fn set_newest(&mut self, at: u32, newest: u32) {
        let many = self.places.len() > KEPT_KEYS;
        let Some(place) = self.lists.get_mut(at as usize) else { return };
        if newest == NONE && many {
            if let Some(list) = place.take() {
                self.places.remove(&list.key);
                self.free_lists.push(at);
            }
        } else if let Some(list) = place {
            list.newest = newest;
        }
    }

    fn insert(&mut self, key: K, held: Held<T>) -> IdleId {
        self.stamps += 1;
        let list = match self.find(&key) {
            Some(list) => list,
            None => self.make_list(key),
        };
        let key_older = self.lists[list as usize].as_ref().map_or(NONE, |list| list.newest);
        let entry = Slot {
            held: Some(held),
            stamp: self.stamps,
            list,
            newer: NONE,
            older: self.newest,
            key_newer: NONE,
            key_older,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "bounded by `most`, and by descriptors long before 2³²"
                )]
                {
                    (self.slots.len() - 1) as u32
                }
            }
        };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].newer = slot,
        }
        self.newest = slot;
        if key_older != NONE {
            self.slots[key_older as usize].key_newer = slot;
        }
        self.set_newest(list, slot);
        self.count += 1;
        IdleId { slot, stamp: self.stamps }
    }

    fn remove_slot(&mut self, at: u32) -> Option<Held<T>> {
        let slot = self.slots.get_mut(at as usize)?;
        let held = slot.held.take()?;
        let Slot { newer, older, key_newer, key_older, list, .. } = *slot;
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        if key_older != NONE {
            self.slots[key_older as usize].key_newer = key_newer;
        }
        match key_newer {
            NONE => self.set_newest(list, key_older),
            newer => self.slots[newer as usize].key_older = key_older,
        }
        self.free.push(at);
        self.count -= 1;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRESH: History = History { opened: Millis(0), requests: 1 };

    fn pool(most: usize) -> IdlePool<u8, u32> {
        IdlePool::new(IdleConfig { most, ..IdleConfig::default() })
    }

    #[test]
    fn newest_first_and_oldest_out() {
        let mut pool = pool(3);
        for (at, key, token) in [(1, 1, 10), (2, 1, 11), (3, 2, 20)] {
            assert!(matches!(pool.park(Millis(at), key, token, FRESH), Parked::Kept(_)));
        }
        assert!(matches!(pool.park(Millis(4), 2, 21, FRESH), Parked::Replaced(_, 10)));
        assert_eq!(pool.take(Millis(5), &2).map(|t| t.0), Some(21));
        assert_eq!(pool.take(Millis(5), &1).map(|t| t.0), Some(11));
        assert_eq!(pool.take(Millis(5), &1), None);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn bounds_on_requests_age_and_idleness() {
        let mut pool = pool(3);
        let used_up = History { requests: 1000, ..FRESH };
        assert_eq!(pool.park(Millis(1), 1, 1, used_up), Parked::Refused(1));
        assert_eq!(pool.park(Millis(3_600_000), 1, 2, FRESH), Parked::Refused(2));
        assert!(matches!(pool.park(Millis(5), 1, 3, FRESH), Parked::Kept(_)));
        assert_eq!(pool.poll_timeout(), Some(Millis(60_005)));
        assert_eq!(pool.expire(Millis(60_004)), None);
        assert_eq!(pool.take(Millis(60_005), &1), None, "too old to use");
        assert_eq!(pool.expire(Millis(60_005)), Some(3));
        assert_eq!(pool.poll_timeout(), None);
    }

    #[test]
    fn ids_name_one_connection_only() {
        let mut pool = pool(1);
        let Parked::Kept(first) = pool.park(Millis(1), 1, 1, FRESH) else { panic!("refused") };
        let Parked::Replaced(second, 1) = pool.park(Millis(2), 1, 2, FRESH) else { panic!("kept") };
        assert_eq!(pool.remove(first), None);
        assert_eq!(pool.remove(second), Some(2));
        assert!(pool.is_empty());
    }

    #[test]
    fn keys_without_connections_do_not_pile_up() {
        let mut pool: IdlePool<u32, u32> = IdlePool::new(IdleConfig::default());
        for key in 0..100_000 {
            assert!(matches!(pool.park(Millis(1), key, key, FRESH), Parked::Kept(_)));
            assert_eq!(pool.take(Millis(1), &key).map(|t| t.0), Some(key));
        }
        assert!(pool.places.len() <= KEPT_KEYS + 1 && pool.lists.len() <= KEPT_KEYS + 1);
        assert_eq!(pool.take(Millis(1), &99_999), None);
    }

    #[test]
    fn none_kept_when_told_so() {
        assert_eq!(pool(0).park(Millis(1), 1, 7, FRESH), Parked::Refused(7));
    }

    proptest! {
        /// Against a plain list, oldest first.
        #[test]
        fn behaves_as_a_list(actions in prop::collection::vec((0u8..6, 0u8..4), 0..300), most in 1usize..6) {
            let mut pool = pool(most);
            let mut shadow: Vec<(u8, u32, IdleId)> = Vec::new();
            for (now, (action, key)) in (1u32..).zip(actions) {
                match action {
                    0 | 1 => match pool.park(Millis(now.into()), key, now, FRESH) {
                        Parked::Kept(id) => shadow.push((key, now, id)),
                        Parked::Replaced(id, token) => {
                            prop_assert_eq!(shadow.remove(0).1, token);
                            shadow.push((key, now, id));
                        }
                        Parked::Refused(_) => prop_assert!(false),
                    },
                    2 => {
                        let want = shadow.iter().rposition(|s| s.0 == key).map(|at| shadow.remove(at).1);
                        prop_assert_eq!(pool.take(Millis(now.into()), &key).map(|t| t.0), want);
                    }
                    5 => {
                        let mut gone = Vec::new();
                        pool.retain(|k, token| *k != key || token % 2 == 0, |token| gone.push(token));
                        let (stay, go) = shadow.into_iter().partition(|s| s.0 != key || s.1 % 2 == 0);
                        shadow = stay;
                        let mut want: Vec<u32> = Vec::from_iter(go).into_iter().map(|s: (u8, u32, IdleId)| s.1).collect();
                        gone.sort_unstable();
                        want.sort_unstable();
                        prop_assert_eq!(gone, want);
                    }
                    3 => {
                        let want = (!shadow.is_empty()).then(|| shadow.remove(shadow.len() / 2));
                        prop_assert_eq!(want.and_then(|w| pool.remove(w.2)), want.map(|w| w.1));
                    }
                    _ => {
                        let want = (!shadow.is_empty()).then(|| shadow.remove(0).1);
                        prop_assert_eq!(pool.evict(), want);
                    }
                }
                prop_assert_eq!(pool.len(), shadow.len());
            }
        }
    }
}
