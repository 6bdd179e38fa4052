//! Entries that are tracked.
//!
//! Owns: the guard that keeps an entry while something tracks it, and its count of connections.
//! Never: outlives its table.
//! Driven by: what rules track; dropped at the end of a connection, a request or a session.

use std::sync::Arc;

use weir_expr::StickData;

use super::{Key, StickTable, USERS, lock, wrapped};
use crate::time::Millis;

/// An entry that is tracked: it neither expires nor is purged before this is dropped. It counts as one connection.
#[derive(Debug)]
pub struct Tracked {
    table: Arc<StickTable>,
    shard: usize,
    slot: u32,
}

impl StickTable {
    /// Finds or makes the entry of `key`, counts a connection, and keeps it. `None` if the table is full of entries that
    /// must stay.
    pub fn track(self: &Arc<Self>, key: &[u8], now: Millis) -> Option<Tracked> {
        let (shard, slot) = self.with(key, |shard, hash| {
            let slot = self.reach(shard, hash, key, now)?;
            let words = self.words(shard, slot);
            if let Some(users) = words.get_mut(USERS) {
                *users = users.saturating_add(1);
            }
            for data in [StickData::ConnCur, StickData::ConnCnt, StickData::ConnRate] {
                if let Some(field) = self.layout.field(data) {
                    field.add(words, wrapped(now), 1);
                }
            }
            Some(slot)
        });
        Some(Tracked { table: Arc::clone(self), shard, slot: slot? })
    }
}

impl Tracked {
    /// The table.
    pub fn table(&self) -> &Arc<StickTable> {
        &self.table
    }

    /// The key.
    pub fn key(&self) -> Key {
        let shard = lock(&self.table.shards[self.shard]);
        shard.entries.key(self.slot).into()
    }

    /// How many track the entry.
    pub fn users(&self) -> u32 {
        let mut shard = lock(&self.table.shards[self.shard]);
        self.table.words(&mut shard, self.slot).get(USERS).copied().unwrap_or_default()
    }

    /// Milliseconds until the entry would expire if nobody used it; zero if it never does.
    pub fn expires_in(&self, now: Millis) -> u64 {
        let shard = lock(&self.table.shards[self.shard]);
        let deadline = shard.entries.value(self.slot).map_or(u64::MAX, |deadline| deadline.get());
        if deadline == u64::MAX { 0 } else { deadline.saturating_sub(now.0) }
    }

    /// The value; `None` if it is not stored.
    pub fn read(&self, data: StickData, now: Millis) -> Option<u64> {
        let field = self.table.layout.field(data)?;
        let mut shard = lock(&self.table.shards[self.shard]);
        Some(field.read(self.table.words(&mut shard, self.slot), wrapped(now)))
    }

    /// Counts up, and renews the entry. The new value; `None` if it is not stored.
    pub fn add(&self, data: StickData, now: Millis, by: u64) -> Option<u64> {
        let field = self.table.layout.field(data)?;
        let mut shard = lock(&self.table.shards[self.shard]);
        self.table.renew(&mut shard, self.slot, now);
        let (words, now) = (self.table.words(&mut shard, self.slot), wrapped(now));
        field.add(words, now, by);
        let value = field.read(words, now);
        self.table.note(&mut shard, self.slot);
        Some(value)
    }

    /// Sets a value, and renews the entry. What it was before; `None` if it is not stored.
    pub fn set(&self, data: StickData, now: Millis, value: u64) -> Option<u64> {
        let field = self.table.layout.field(data)?;
        let mut shard = lock(&self.table.shards[self.shard]);
        self.table.renew(&mut shard, self.slot, now);
        let (words, now) = (self.table.words(&mut shard, self.slot), wrapped(now));
        let before = field.read(words, now);
        field.set(words, now, value);
        self.table.note(&mut shard, self.slot);
        Some(before)
    }

    /// Ends what is tracked: the time to expire begins now.
    pub fn end(self, now: Millis) {
        let mut shard = lock(&self.table.shards[self.shard]);
        self.table.renew(&mut shard, self.slot, now);
        self.table.note(&mut shard, self.slot);
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let mut shard = lock(&self.table.shards[self.shard]);
        // The slot is ours while users are counted, and we are one.
        let words = self.table.words(&mut shard, self.slot);
        if let Some(users) = words.get_mut(USERS) {
            *users = users.saturating_sub(1);
        }
        if let Some(field) = self.table.layout.field(StickData::ConnCur) {
            // A count reads no clock.
            let left = field.read(words, 0).saturating_sub(1);
            field.set(words, 0, left);
        }
    }
}
