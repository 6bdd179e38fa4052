//! HAProxy's stick tables: data by key, shared by all workers.
//!
//! Owns: entries by key, their expiry, their count of users; guards that keep an entry while it is tracked.
//! Never: drops an entry in use; grows past its size; reads keys as anything but bytes.
//! Driven by: rules that track, count, look up and store, through `Arc`s that outlive a plan.
//! Why: one slab of words a shard beside the table of keys, so that a million entries stay small. Tables below 16,384
//! entries are one shard and purge in exact order; larger ones are 16, each bounded by its share.

mod journal;
mod key;
mod layout;
mod rate;
mod rows;
mod tracked;

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use weir_expr::{StickData, StickTableConfig};

pub use journal::{StickEntry, StickValue};
pub use key::Key;
pub use rows::StickRow;
pub use tracked::Tracked;

use self::layout::Layout;
use super::table::{KeyHasher, LruTable};
use crate::time::{Millis, millis};

/// The word that counts users; data follow.
const USERS: usize = 0;
/// Entries in use that are passed over, each time, in search of one to purge.
const LOOKED_AT: usize = 16;

/// A table. Outlives plans: a reload with the same name and definition passes the `Arc` on.
#[derive(Debug)]
pub struct StickTable {
    config: StickTableConfig,
    shards: Box<[Mutex<Shard>]>,
    /// Entries of a shard at most.
    share: usize,
    expire: Option<u64>,
    layout: Layout,
    hasher: KeyHasher,
    /// Who passes changes on, if anybody does.
    follower: OnceLock<journal::Follower>,
    /// The number of the last change that was noted.
    changes: AtomicU64,
}

#[derive(Debug)]
struct Shard {
    /// When each entry expires; `NonZeroU64::MAX` is never.
    entries: LruTable<NonZeroU64>,
    words: Vec<u32>,
    /// Where somebody follows the table.
    journal: Option<Box<journal::Journal>>,
}

impl StickTable {
    /// An empty table. `seed` keeps peers from aiming at one shard.
    pub fn new(config: &StickTableConfig, seed: u64) -> Self {
        // Slots have numbers of 32 bits; memory ends long before.
        let size = usize::try_from(config.size).unwrap_or(usize::MAX).min(1 << 31);
        let count = if size < 16_384 { 1 } else { 16 };
        let shard = || Mutex::new(Shard { entries: LruTable::new(), words: Vec::new(), journal: None });
        Self {
            shards: (0..count).map(|_| shard()).collect(),
            share: size / count,
            expire: config.expire.map(millis),
            layout: Layout::new(&config.store, USERS + 1),
            hasher: KeyHasher::new(seed),
            follower: OnceLock::new(),
            changes: AtomicU64::new(0),
            config: config.clone(),
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

    /// What it was configured as.
    pub fn config(&self) -> &StickTableConfig {
        &self.config
    }

    /// A value as a key of this table; `None` if it cannot be one.
    pub fn key_of(&self, value: &[u8]) -> Option<Key> {
        key::of_value(self.config.key, value)
    }

    /// An address as a key of this table; `None` if it cannot be one.
    pub fn key_of_address(&self, address: IpAddr) -> Option<Key> {
        key::of_address(self.config.key, address)
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

    /// Sets a value to zero if `key` has an entry; what it was before.
    pub fn zero(&self, key: &[u8], data: StickData, now: Millis) -> Option<u64> {
        let field = self.layout.field(data)?;
        self.with(key, |shard, hash| {
            let slot = self.find(shard, hash, key, now)?;
            let words = self.words(shard, slot);
            let before = field.read(words, wrapped(now));
            field.set(words, wrapped(now), 0);
            self.note(shard, slot);
            Some(before)
        })
        .1
    }

    /// How many track `key`; `None` if it has no entry.
    pub fn users(&self, key: &[u8], now: Millis) -> Option<u32> {
        self.with(key, |shard, hash| {
            let slot = self.find(shard, hash, key, now)?;
            self.words(shard, slot).first().copied()
        })
        .1
    }

    /// Milliseconds until the entry of `key` expires; zero if it never does, `None` if there is none.
    pub fn expires_in(&self, key: &[u8], now: Millis) -> Option<u64> {
        self.with(key, |shard, hash| {
            let slot = self.find(shard, hash, key, now)?;
            let deadline = shard.entries.value(slot)?.get();
            Some(if deadline == u64::MAX { 0 } else { deadline.saturating_sub(now.0) })
        })
        .1
    }

    /// Removes the entry of `key`. False if it is in use and stays.
    pub fn clear(&self, key: &[u8]) -> bool {
        self.with(key, |shard, hash| match shard.entries.find(hash, key) {
            Some(slot) if self.in_use(shard, slot) => false,
            Some(slot) => remove(shard, slot),
            None => true,
        })
        .1
    }

    fn with<T>(&self, key: &[u8], run: impl FnOnce(&mut Shard, u64) -> T) -> (usize, T) {
        let hash = self.hasher.hash(key);
        let shard = self.group_of(hash);
        (shard, run(&mut lock(&self.shards[shard]), hash))
    }

    /// The upper bits choose the shard; the table within uses the lower.
    fn group_of(&self, hash: u64) -> usize {
        (hash >> 56) as usize % self.shards.len()
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

    /// The entry of `key`, made if missing, now the newest. It is about to change.
    fn reach(&self, shard: &mut Shard, hash: u64, key: &[u8], now: Millis) -> Option<u32> {
        let slot = self.reach_quietly(shard, hash, key, now)?;
        self.note(shard, slot);
        Some(slot)
    }

    /// As [`StickTable::reach`], of what others changed.
    fn reach_quietly(&self, shard: &mut Shard, hash: u64, key: &[u8], now: Millis) -> Option<u32> {
        if let Some(slot) = self.find(shard, hash, key, now) {
            self.renew(shard, slot, now);
            return Some(slot);
        }
        if let Some(slot) = shard.entries.find(hash, key) {
            remove(shard, slot);
        }
        self.make_room(shard, now);
        if shard.entries.len() >= self.share {
            return None;
        }
        let slot = shard.entries.insert(hash, key, 1, self.deadline(now));
        if let Some(journal) = &mut shard.journal {
            journal.make(slot, self.changes.load(Relaxed));
        }
        let end = (slot as usize + 1) * self.layout.words();
        if shard.words.len() < end {
            shard.words.resize(end, 0);
        }
        self.words(shard, slot).fill(0);
        Some(slot)
    }

    /// Two expired entries go at each new key, and the oldest if the shard is full. Those in use become the newest.
    fn make_room(&self, shard: &mut Shard, now: Millis) {
        let mut removed = 0;
        for _ in 0..LOOKED_AT {
            let Some(slot) = shard.entries.oldest() else { return };
            let full = shard.entries.len() >= self.share;
            let gone = expired(shard, slot, now);
            if !gone && (!full || self.config.nopurge) || removed == 2 && !full {
                return;
            }
            if self.in_use(shard, slot) {
                self.renew(shard, slot, now);
            } else {
                remove(shard, slot);
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

fn remove(shard: &mut Shard, slot: u32) -> bool {
    if let Some(journal) = &mut shard.journal {
        journal.forget(slot);
    }
    shard.entries.remove(slot).is_some()
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
