//! Objects that are under way.
//!
//! Owns: who fetches what, and what is being written to its place.
//! Driven by: the store, under the lock of a shard.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::key::Key;
use crate::store::Store;

/// What is under way in a shard; mostly nothing.
#[derive(Default)]
pub(crate) struct Pending {
    fetched: HashMap<Key, (u64, Instant)>,
    written: HashMap<Key, u32>,
    /// What was removed lately, oldest first.
    removed: VecDeque<(Key, Instant)>,
}

/// Most removals of one shard that are remembered.
const REMOVED: usize = 512;

impl Pending {
    /// Takes the right to fetch, unless somebody has had it for less than `age`.
    pub(crate) fn claim(&mut self, key: &Key, number: u64, age: Duration, now: Instant) -> bool {
        let since = |since: Instant| now.saturating_duration_since(since);
        let taken = self.fetched.get(key).is_some_and(|(_, at)| since(*at) < age);
        if !taken {
            self.fetched.insert(*key, (number, now));
        }
        !taken
    }

    pub(crate) fn release(&mut self, key: &Key, number: u64) {
        if self.fetched.get(key).is_some_and(|(holder, _)| *holder == number) {
            self.fetched.remove(key);
        }
    }

    pub(crate) fn is_fetched(&self, key: &Key) -> bool {
        self.fetched.contains_key(key)
    }

    pub(crate) fn note_removed(&mut self, key: &Key, now: Instant) {
        if self.removed.len() >= REMOVED {
            self.removed.pop_front();
        }
        self.removed.push_back((*key, now));
    }

    /// Whether a name was removed at this time or later.
    pub(crate) fn was_removed(&self, key: &Key, since: Instant) -> bool {
        self.removed.iter().any(|(removed, at)| removed == key && *at >= since)
    }

    pub(crate) fn begin_write(&mut self, key: &Key) {
        *self.written.entry(*key).or_default() += 1;
    }

    pub(crate) fn end_write(&mut self, key: &Key) {
        if let Some(count) = self.written.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.written.remove(key);
            }
        }
    }

    pub(crate) fn is_written(&self, key: &Key) -> bool {
        !self.written.is_empty() && self.written.contains_key(key)
    }
}

/// The right to fetch an object, until it is dropped.
pub struct Fill {
    pub(crate) store: Arc<Store>,
    pub(crate) key: Key,
    pub(crate) number: u64,
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.store.shard(&self.key).pending.release(&self.key, self.number);
    }
}

/// An object is on the way to its place, until this is dropped.
pub(crate) struct Written {
    store: Arc<Store>,
    key: Key,
}

impl Written {
    pub(crate) fn new(store: &Arc<Store>, key: Key) -> Self {
        store.shard(&key).pending.begin_write(&key);
        Self { store: store.clone(), key }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.store.shard(&self.key).pending.end_write(&self.key);
    }
}
