//! The entries of a stick table, for people to look at and to change.
//!
//! Owns: rows, as copies.
//! Never: keeps a lock while a row is shown.
//! Driven by: the runtime commands.

use std::sync::Mutex;

use super::{Key, Shard, StickTable, USERS, expired, key, lock, wrapped};
use crate::time::Millis;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickRow {
    /// Its place in the table.
    pub number: u64,
    /// Its key.
    pub key: Key,
    /// How many track it.
    pub users: u32,
    /// Milliseconds until it expires; zero if it never does.
    pub expires_in: u64,
    /// What it holds, in the order of the table's definition.
    pub values: Vec<u64>,
}

impl StickTable {
    /// Groups of rows, one after another, so that a large table is never held at once.
    pub fn groups(&self) -> usize {
        self.shards.len()
    }

    /// Entries that have not expired.
    pub fn used(&self, now: Millis) -> usize {
        let live = |shard: &Mutex<Shard>| {
            let mut shard = lock(shard);
            let slots: Vec<u32> = shard.entries.slots().collect();
            slots
                .into_iter()
                .filter(|&slot| self.in_use(&mut shard, slot) || !expired(&shard, slot, now))
                .count()
        };
        self.shards.iter().map(live).sum()
    }

    /// The rows of a group whose values are wanted.
    pub fn rows(&self, group: usize, now: Millis, wanted: &dyn Fn(&[u64]) -> bool) -> Vec<StickRow> {
        let Some(shard) = self.shards.get(group) else { return Vec::new() };
        let mut shard = lock(shard);
        let slots: Vec<u32> = shard.entries.slots().collect();
        let rows = slots.into_iter().filter_map(|slot| self.row_at(&mut shard, (group, slot), now));
        rows.filter(|row| wanted(&row.values)).collect()
    }

    /// The row of a key.
    pub fn row(&self, key: &[u8], now: Millis) -> Option<StickRow> {
        let (group, slot) = self.with(key, |shard, hash| shard.entries.find(hash, key));
        // What takes the slot meanwhile has another key.
        let mut shard = lock(self.shards.get(group)?);
        self.row_at(&mut shard, (group, slot?), now).filter(|row| row.key[..] == *key)
    }

    fn row_at(&self, shard: &mut Shard, (group, slot): (usize, u32), now: Millis) -> Option<StickRow> {
        if !self.in_use(shard, slot) && expired(shard, slot, now) {
            return None;
        }
        let deadline = shard.entries.value(slot).map_or(u64::MAX, |deadline| deadline.get());
        let key = Key::from_slice(shard.entries.key(slot));
        let words = &*self.words(shard, slot);
        let values = self.layout.fields().map(|field| field.read(words, wrapped(now)));
        Some(StickRow {
            number: ((group as u64) << 32 | u64::from(slot)) + 1,
            key,
            users: words.get(USERS).copied().unwrap_or_default(),
            expires_in: if deadline == u64::MAX { 0 } else { deadline.saturating_sub(now.0) },
            values: values.collect(),
        })
    }

    /// Makes the entry of `key` if it is missing, and renews it. False if the table is full.
    pub fn touch(&self, key: &[u8], now: Millis) -> bool {
        self.with(key, |shard, hash| self.reach(shard, hash, key, now).is_some()).1
    }

    /// A key as HAProxy writes it.
    pub fn shown(&self, key: &[u8]) -> String {
        key::shown(self.config.key, key)
    }
}
