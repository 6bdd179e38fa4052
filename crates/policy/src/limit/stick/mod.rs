//! HAProxy's stick tables: data by key, shared by all workers.
//!
//! Owns: entries by key, their expiry, their count of users; guards that keep an entry while it is tracked.
//! Never: drops an entry in use; grows past its size; reads keys as anything but bytes.
//! Driven by: rules that track, count, look up and store, through `Arc`s that outlive a plan.
//! Why: one slab of words a shard beside the table of keys, so that a million entries stay small. Tables below 16,384
//! entries are one shard and purge in exact order; larger ones are 16, each bounded by its share.

mod layout;
mod rate;

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use layout::{StickData, Stored};

use self::layout::Layout;
use super::table::{KeyHasher, LruTable};
use crate::time::{Millis, millis};

/// The word that counts users; data follow.
const USERS: usize = 0;
/// Entries in use that are passed over, each time, in search of one to purge.
const LOOKED_AT: usize = 16;

/// What `stick-table` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickConfig {
    /// Entries at most.
    pub size: usize,
    /// Unused entries go after this long.
    pub expire: Option<Duration>,
    /// A full table takes no new key, where it otherwise purges the oldest.
    pub nopurge: bool,
    /// What each entry holds.
    pub store: Vec<Stored>,
}

/// A table. Outlives plans: a reload with the same name and definition passes the `Arc` on.
#[derive(Debug)]
pub struct StickTable {
    shards: Box<[Mutex<Shard>]>,
    /// Entries of a shard at most.
    share: usize,
    expire: Option<u64>,
    nopurge: bool,
    layout: Layout,
    hasher: KeyHasher,
}

#[derive(Debug)]
struct Shard {
    /// When each entry expires; `NonZeroU64::MAX` is never.
    entries: LruTable<NonZeroU64>,
    words: Vec<u32>,
}

/// An entry that is tracked: it neither expires nor is purged before this is dropped.
#[derive(Debug)]
pub struct Tracked {
    table: Arc<StickTable>,
    shard: usize,
    slot: u32,
}

impl StickTable {
    /// An empty table. `seed` keeps peers from aiming at one shard.
    pub fn new(config: &StickConfig, seed: u64) -> Self {
        let count = if config.size < 16_384 { 1 } else { 16 };
        let shard = || Mutex::new(Shard { entries: LruTable::new(), words: Vec::new() });
        Self {
            shards: (0..count).map(|_| shard()).collect(),
            share: config.size / count,
            expire: config.expire.map(millis),
            nopurge: config.nopurge,
            layout: Layout::new(&config.store, USERS + 1),
            hasher: KeyHasher::new(seed),
        }
    }

    /// Entries held, those included that expired and were not met since.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).entries.len()).sum()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if entries hold `data`.
    pub fn stores(&self, data: StickData) -> bool {
        self.layout.field(data).is_some()
    }

    /// Finds or makes the entry of `key` and keeps it. `None` if the table is full of entries that must stay.
    pub fn track(self: &Arc<Self>, key: &[u8], now: Millis) -> Option<Tracked> {
        let (shard, slot) = self.with(key, |shard, hash| {
            let slot = self.reach(shard, hash, key, now)?;
            if let Some(users) = self.words(shard, slot).first_mut() {
                *users = users.saturating_add(1);
            }
            Some(slot)
        });
        Some(Tracked { table: Arc::clone(self), shard, slot: slot? })
    }

    /// The value of `key`'s entry; `None` if there is no entry or `data` is not stored. Does not count as use.
    pub fn read(&self, key: &[u8], data: StickData, now: Millis) -> Option<u64> {
        let field = self.layout.field(data)?;
        self.with(key, |shard, hash| {
            let slot = self.find(shard, hash, key, now)?;
            Some(field.read(self.words(shard, slot), wrapped(now)))
        })
        .1
    }

    /// True if `key` has an entry.
    pub fn contains(&self, key: &[u8], now: Millis) -> bool {
        self.with(key, |shard, hash| self.find(shard, hash, key, now).is_some()).1
    }

    /// Counts up in the entry of `key`, which is made if missing. The new value, if there is one.
    pub fn add(&self, key: &[u8], data: StickData, now: Millis, by: u64) -> Option<u64> {
        let field = self.layout.field(data)?;
        self.with(key, |shard, hash| {
            let slot = self.reach(shard, hash, key, now)?;
            let words = self.words(shard, slot);
            field.add(words, wrapped(now), by);
            Some(field.read(words, wrapped(now)))
        })
        .1
    }

    /// Sets a value in the entry of `key`, which is made if missing. False if the table is full or does not store it.
    pub fn set(&self, key: &[u8], data: StickData, now: Millis, value: u64) -> bool {
        let Some(field) = self.layout.field(data) else { return false };
        self.with(key, |shard, hash| {
            let slot = self.reach(shard, hash, key, now)?;
            field.set(self.words(shard, slot), wrapped(now), value);
            Some(())
        })
        .1
        .is_some()
    }

    /// Removes the entry of `key`. False if it is in use and stays.
    pub fn clear(&self, key: &[u8]) -> bool {
        self.with(key, |shard, hash| match shard.entries.find(hash, key) {
            Some(slot) if self.in_use(shard, slot) => false,
            Some(slot) => shard.entries.remove(slot).is_some(),
            None => true,
        })
        .1
    }

    fn with<T>(&self, key: &[u8], run: impl FnOnce(&mut Shard, u64) -> T) -> (usize, T) {
        let hash = self.hasher.hash(key);
        // The upper bits choose the shard; the table within uses the lower.
        let shard = (hash >> 56) as usize % self.shards.len();
        (shard, run(&mut lock(&self.shards[shard]), hash))
    }

    fn words<'a>(&self, shard: &'a mut Shard, slot: u32) -> &'a mut [u32] {
        let first = slot as usize * self.layout.words();
        shard.words.get_mut(first..first + self.layout.words()).unwrap_or_default()
    }

    fn in_use(&self, shard: &mut Shard, slot: u32) -> bool {
        self.words(shard, slot).first().is_some_and(|&users| users > 0)
    }

    /// The entry of `key`, unless it expired.
    fn find(&self, shard: &mut Shard, hash: u64, key: &[u8], now: Millis) -> Option<u32> {
        let slot = shard.entries.find(hash, key)?;
        (self.in_use(shard, slot) || !expired(shard, slot, now)).then_some(slot)
    }

    /// The entry of `key`, made if missing, now the newest.
    fn reach(&self, shard: &mut Shard, hash: u64, key: &[u8], now: Millis) -> Option<u32> {
        if let Some(slot) = self.find(shard, hash, key, now) {
            self.renew(shard, slot, now);
            return Some(slot);
        }
        if let Some(slot) = shard.entries.find(hash, key) {
            shard.entries.remove(slot);
        }
        self.make_room(shard, now);
        if shard.entries.len() >= self.share {
            return None;
        }
        let slot = shard.entries.insert(hash, key, 1, self.deadline(now));
        let end = (slot as usize + 1) * self.layout.words();
        if shard.words.len() < end {
            shard.words.resize(end, 0);
        }
        self.layout.clear(self.words(shard, slot), wrapped(now));
        Some(slot)
    }

    /// Two expired entries go at each new key, and the oldest if the shard is full. Those in use become the newest.
    fn make_room(&self, shard: &mut Shard, now: Millis) {
        let mut removed = 0;
        for _ in 0..LOOKED_AT {
            let Some(slot) = shard.entries.oldest() else { return };
            let full = shard.entries.len() >= self.share;
            let gone = expired(shard, slot, now);
            if !gone && (!full || self.nopurge) || removed == 2 && !full {
                return;
            }
            if self.in_use(shard, slot) {
                self.renew(shard, slot, now);
            } else {
                shard.entries.remove(slot);
                removed += 1;
            }
        }
    }

    fn renew(&self, shard: &mut Shard, slot: u32, now: Millis) {
        shard.entries.touch(slot);
        if let Some(deadline) = shard.entries.value_mut(slot) {
            *deadline = self.deadline(now);
        }
    }

    fn deadline(&self, now: Millis) -> NonZeroU64 {
        self.expire
            .and_then(|expire| NonZeroU64::new(now.0.saturating_add(expire)))
            .unwrap_or(NonZeroU64::MAX)
    }
}

impl Tracked {
    /// The value; `None` if it is not stored.
    pub fn read(&self, data: StickData, now: Millis) -> Option<u64> {
        let field = self.table.layout.field(data)?;
        let mut shard = lock(&self.table.shards[self.shard]);
        Some(field.read(self.table.words(&mut shard, self.slot), wrapped(now)))
    }

    /// Counts up, and renews the entry. The new value; `None` if it is not stored.
    pub fn add(&self, data: StickData, now: Millis, by: u64) -> Option<u64> {
        self.change(data, now, |before| before.saturating_add(by), Some(by))
    }

    /// Counts one down, for what was counted up before: `conn_cur`.
    pub fn leave(&self, data: StickData, now: Millis) -> Option<u64> {
        self.change(data, now, |before| before.saturating_sub(1), None)
    }

    /// Sets a value, and renews the entry. The new value; `None` if it is not stored.
    pub fn set(&self, data: StickData, now: Millis, value: u64) -> Option<u64> {
        self.change(data, now, |_| value, None)
    }

    fn change(
        &self,
        data: StickData,
        now: Millis,
        to: impl FnOnce(u64) -> u64,
        by: Option<u64>,
    ) -> Option<u64> {
        let field = self.table.layout.field(data)?;
        let mut shard = lock(&self.table.shards[self.shard]);
        self.table.renew(&mut shard, self.slot, now);
        let (words, now) = (self.table.words(&mut shard, self.slot), wrapped(now));
        match by {
            // A rate adds events to its period; set, it would restart.
            Some(by) => field.add(words, now, by),
            None => field.set(words, now, to(field.read(words, now))),
        }
        Some(field.read(words, now))
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let mut shard = lock(&self.table.shards[self.shard]);
        // The slot is ours while users are counted, and we are one.
        if let Some(users) = self.table.words(&mut shard, self.slot).first_mut() {
            *users = users.saturating_sub(1);
        }
    }
}

fn expired(shard: &Shard, slot: u32, now: Millis) -> bool {
    shard.entries.value(slot).is_none_or(|deadline| deadline.get() <= now.0)
}

fn wrapped(now: Millis) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "rates look at differences, which wrap")]
    {
        now.0 as u32
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Entries are plain numbers: a panic cannot have left them inconsistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
