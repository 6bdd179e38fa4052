//! The entries of a stick table, for people to look at and to change.
//!
//! Owns: rows, as copies.
//! Never: keeps a lock while a row is shown.
//! Driven by: the runtime commands.

use weir_expr::StickData;

use super::{Key, Shard, StickTable, USERS, expired, key, lock, wrapped};
use crate::time::Millis;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickRow {
    /// Its key.
    pub key: Key,
    /// How many track it.
    pub users: u32,
    /// Milliseconds until it expires; zero if it never does.
    pub expires_in: u64,
    /// What it holds: the kind, the period of rates in milliseconds, the value.
    pub values: Vec<(StickData, Option<u32>, u64)>,
}

impl StickTable {
    /// Groups of rows, one after another, so that a large table is never held at once.
    pub fn groups(&self) -> usize {
        self.shards.len()
    }

    /// The rows of a group.
    pub fn rows(&self, group: usize, now: Millis) -> Vec<StickRow> {
        let Some(shard) = self.shards.get(group) else { return Vec::new() };
        let mut shard = lock(shard);
        let slots: Vec<u32> = shard.entries.slots().collect();
        slots.into_iter().filter_map(|slot| self.row_at(&mut shard, slot, now)).collect()
    }

    /// The row of a key.
    pub fn row(&self, key: &[u8], now: Millis) -> Option<StickRow> {
        self.with(key, |shard, hash| {
            let slot = shard.entries.find(hash, key)?;
            self.row_at(shard, slot, now)
        })
        .1
    }

    fn row_at(&self, shard: &mut Shard, slot: u32, now: Millis) -> Option<StickRow> {
        if !self.in_use(shard, slot) && expired(shard, slot, now) {
            return None;
        }
        let deadline = shard.entries.value(slot).map_or(u64::MAX, |deadline| deadline.get());
        let key = Key::from_slice(shard.entries.key(slot));
        let words = &*self.words(shard, slot);
        let values = self.layout.fields().map(|field| {
            let period = field.data().is_rate().then(|| field.period());
            (field.data(), period, field.read(words, wrapped(now)))
        });
        Some(StickRow {
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
