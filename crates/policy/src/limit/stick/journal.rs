//! What changed in a stick table, for whoever passes it on to other processes.
//!
//! Owns: the order in which entries changed last; entries as they are sent and learnt.
//! Never: sends anything; is there unless somebody follows the table.
//! Driven by: peers, which ask for what changed since they last asked, and give what they learnt.
//! Why: an entry that changes a thousand times between two looks is passed on once, as it is then, so what waits is never
//! more than the table.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Mutex, PoisonError};

use weir_expr::StickData;

use super::rate::Frequency;
use super::{Key, Shard, StickTable, expired, lock, wrapped};
use crate::time::Millis;

/// A value as it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickValue {
    /// A count, or what a rule set.
    Count(u64),
    /// A rate: milliseconds since the period at hand began, what it counted so far, and what the one before counted.
    Rate {
        /// Milliseconds.
        age: u32,
        /// Events.
        current: u32,
        /// Events of the period before.
        previous: u32,
    },
}

/// An entry as it is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickEntry {
    /// Grows with each change of the table.
    pub change: u64,
    /// Its key.
    pub key: Key,
    /// Milliseconds until it expires; `None`: it does not.
    pub expires_in: Option<u64>,
    /// What it holds, in the order of [`StickTable::kinds`].
    pub values: Vec<StickValue>,
}

/// Changes of the entries of a shard, each entry once, by its last one.
#[derive(Debug, Default)]
pub(super) struct Journal {
    by_change: BTreeMap<u64, u32>,
    /// The last change of each slot; zero: none.
    of_slot: Vec<u64>,
    /// The last change of the table before the entry of each slot was made.
    made: Vec<u64>,
}

impl Journal {
    /// The entry of this slot is new.
    pub(super) fn make(&mut self, slot: u32, last_change: u64) {
        let at = slot as usize;
        if self.made.len() <= at {
            self.made.resize(at + 1, 0);
        }
        self.made[at] = last_change;
    }

    /// Whether the entry of this slot was there at that change of the table, and has changed here since.
    fn changed_since(&self, slot: u32, then: u64) -> bool {
        let of = |all: &[u64]| all.get(slot as usize).copied().unwrap_or(0);
        of(&self.made) <= then && of(&self.of_slot) > then
    }

    fn note(&mut self, slot: u32, change: u64) {
        self.forget(slot);
        let at = slot as usize;
        if self.of_slot.len() <= at {
            self.of_slot.resize(at + 1, 0);
        }
        self.of_slot[at] = change;
        self.by_change.insert(change, slot);
    }

    /// The entry of this slot is gone.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(last) = self.of_slot.get_mut(slot as usize)
            && *last != 0
        {
            self.by_change.remove(&std::mem::take(last));
        }
    }
}

/// Who is told that something changed. Told once, until it has looked.
pub(super) struct Follower {
    told: AtomicBool,
    tell: Mutex<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follower")
    }
}

impl StickTable {
    /// Has changes noted from now on, and `tell` called when there are new ones: once, until [`StickTable::look`]. Whoever
    /// followed the table before is told no more.
    pub fn follow(&self, tell: impl Fn() + Send + Sync + 'static) {
        let tell: Box<dyn Fn() + Send + Sync> = Box::new(tell);
        let first = Follower { told: AtomicBool::new(false), tell: Mutex::new(Box::new(|| ())) };
        let follower = self.follower.get_or_init(|| first);
        *follower.tell.lock().unwrap_or_else(PoisonError::into_inner) = tell;
        for shard in &self.shards {
            lock(shard).journal.get_or_insert_default();
        }
    }

    /// New changes are told of again.
    pub fn look(&self) {
        if let Some(follower) = self.follower.get() {
            follower.told.store(false, Relaxed);
        }
    }

    /// Notes that the entry at a slot changed here.
    pub(super) fn note(&self, shard: &mut Shard, slot: u32) {
        let Some(journal) = &mut shard.journal else { return };
        journal.note(slot, self.changes.fetch_add(1, Relaxed) + 1);
        if let Some(follower) = self.follower.get()
            && !follower.told.swap(true, AcqRel)
        {
            (follower.tell.lock().unwrap_or_else(PoisonError::into_inner))();
        }
    }

    /// The number of the last change.
    pub fn last_change(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Entries that changed here after those of `since`, the oldest change first, and up to which change that is; at most `most`
    /// of each group. Those that expired meanwhile are left out.
    pub fn changed(&self, group: usize, since: u64, most: usize, now: Millis) -> (Vec<StickEntry>, u64) {
        let Some(shard) = self.shards.get(group) else { return (Vec::new(), since) };
        let mut shard = lock(shard);
        let Some(journal) = &shard.journal else { return (Vec::new(), since) };
        let later = journal.by_change.range(since + 1..).take(most);
        let slots: Vec<(u64, u32)> = later.map(|(change, slot)| (*change, *slot)).collect();
        let last = slots.last().map_or(since, |(change, _)| *change);
        let entries =
            slots.into_iter().filter_map(|(change, slot)| self.entry(&mut shard, slot, change, now));
        (entries.collect(), last)
    }

    /// All entries of a group, whoever changed them, and the last change of the table until then.
    pub fn entries(&self, group: usize, now: Millis) -> (Vec<StickEntry>, u64) {
        let Some(shard) = self.shards.get(group) else { return (Vec::new(), 0) };
        let mut shard = lock(shard);
        let slots: Vec<u32> = shard.entries.slots().collect();
        let entries = slots.into_iter().filter_map(|slot| self.entry(&mut shard, slot, 0, now)).collect();
        (entries, self.last_change())
    }

    fn entry(&self, shard: &mut Shard, slot: u32, change: u64, now: Millis) -> Option<StickEntry> {
        if !self.in_use(shard, slot) && expired(shard, slot, now) {
            return None;
        }
        let deadline = shard.entries.value(slot)?.get();
        let key = Key::from_slice(shard.entries.key(slot));
        let words = &*self.words(shard, slot);
        let values = self.layout.fields().map(|field| match field.data().is_rate() {
            true => {
                let (start, current, previous) = Frequency::of(field.of(words)).parts();
                StickValue::Rate { age: wrapped(now).wrapping_sub(start), current, previous }
            }
            false => StickValue::Count(field.read(words, wrapped(now))),
        });
        let values = values.collect();
        let expires_in = (deadline != u64::MAX).then(|| deadline.saturating_sub(now.0));
        Some(StickEntry { change, key, expires_in, values })
    }

    /// What each entry holds, in order.
    pub fn kinds(&self) -> impl Iterator<Item = StickData> {
        self.layout.fields().map(|field| field.data())
    }

    /// Takes over what another process has of `key`. It does not count as a change here. What counts connections that are
    /// open is everyone's own. `told`: up to which change the other one was told all entries of each group; what changed here
    /// since, of an entry that it was told, is newer than what it has of it. False: that, the table is full, or such a key
    /// cannot be in it.
    pub fn learn(
        &self,
        key: &[u8],
        expires_in: Option<u64>,
        values: &[(StickData, StickValue)],
        told: &[Option<u64>],
        now: Millis,
    ) -> bool {
        if !super::key::fits(self.config.key, key) {
            return false;
        }
        self.with(key, |shard, hash| {
            if let Some(then) = told.get(self.group_of(hash)).copied().flatten()
                && let (Some(slot), Some(journal)) = (shard.entries.find(hash, key), &shard.journal)
                && journal.changed_since(slot, then)
            {
                return None;
            }
            let slot = self.reach_quietly(shard, hash, key, now)?;
            if let (Some(left), Some(deadline)) = (expires_in, shard.entries.value_mut(slot))
                && self.expire.is_some()
            {
                let longest = self.expire.unwrap_or(u64::MAX);
                *deadline = NonZeroU64::new(now.0 + left.min(longest)).unwrap_or(NonZeroU64::MAX);
            }
            let words = self.words(shard, slot);
            for (data, value) in values.iter().filter(|(data, _)| *data != StickData::ConnCur) {
                let Some(field) = self.layout.field(*data) else { continue };
                match *value {
                    StickValue::Count(count) if !data.is_rate() => field.set(words, wrapped(now), count),
                    StickValue::Rate { age, current, previous } if data.is_rate() => {
                        let rate = Frequency::from_parts(wrapped(now).wrapping_sub(age), current, previous);
                        field.put(words, &rate.words());
                    }
                    _ => {}
                }
            }
            Some(())
        })
        .1
        .is_some()
    }
}
