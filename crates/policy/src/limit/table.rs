//! A bounded table of states by key, oldest out first.
//!
//! Owns: entries, their order of use, a budget in bytes.
//! Never: allocates for short keys once warm.
//! Driven by: the zones, each shard behind its own mutex.
//! Why: a zone's size is what bounds memory against a flood of keys; what nginx's zones hold, ours hold.

use hashbrown::HashTable;
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;

/// One shard of a zone.
#[derive(Debug)]
pub(super) struct LruTable<V> {
    index: HashTable<u32>,
    slots: Vec<Slot<V>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    used: usize,
}

#[derive(Debug)]
struct Slot<V> {
    key: SmallVec<[u8; 24]>,
    hash: u64,
    cost: usize,
    newer: u32,
    older: u32,
    value: Option<V>,
}

/// The bytes that nginx's slab takes for a node of `size` bytes: the next power of two, at least eight.
pub(super) fn slab_cost(size: usize) -> usize {
    size.next_power_of_two().max(8)
}

impl<V> LruTable<V> {
    pub(super) fn new() -> Self {
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            used: 0,
        }
    }

    /// Bytes that the entries count for.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes taken from the heap, keys above 24 bytes excluded.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<V>>() + self.index.allocation_size() + self.free.capacity() * 4
    }

    /// The slot of `key`, if present. Does not count as use.
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |&at| self.slots[at as usize].key[..] == *key).copied()
    }

    /// Slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.index.iter().copied()
    }

    /// The key of a slot; empty where nothing is.
    pub(super) fn key(&self, slot: u32) -> &[u8] {
        self.slots.get(slot as usize).map_or(&[], |entry| &entry.key)
    }

    pub(super) fn value(&self, slot: u32) -> Option<&V> {
        self.slots.get(slot as usize)?.value.as_ref()
    }

    pub(super) fn value_mut(&mut self, slot: u32) -> Option<&mut V> {
        self.slots.get_mut(slot as usize)?.value.as_mut()
    }

    /// Makes `slot` the newest.
    pub(super) fn touch(&mut self, slot: u32) {
        self.unlink(slot);
        self.link_newest(slot);
    }

    /// Adds a key that is not present.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8], cost: usize, value: V) -> u32 {
        let entry = Slot { key: key.into(), hash, cost, newer: NONE, older: NONE, value: Some(value) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "2³² entries need 300 GB; the budget ends long before"
                )]
                {
                    (self.slots.len() - 1) as u32
                }
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&at| slots[at as usize].hash);
        self.link_newest(slot);
        self.used += cost;
        slot
    }

    /// The slot used longest ago.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, slot: u32) -> Option<V> {
        let entry = self.slots.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        let (hash, cost) = (entry.hash, entry.cost);
        if let Ok(found) = self.index.find_entry(hash, |&at| at == slot) {
            found.remove();
        }
        self.unlink(slot);
        self.used -= cost;
        self.free.push(slot);
        Some(value)
    }

    fn link_newest(&mut self, slot: u32) {
        let before = self.newest;
        let entry = &mut self.slots[slot as usize];
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.slots[before as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.slots[slot as usize].newer, self.slots[slot as usize].older);
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

/// How a zone of `bytes` is split: up to 16 shards, none below 64 KiB, so that small zones keep one exact order of use.
pub(super) fn shard_count(bytes: usize) -> usize {
    let most = (bytes / (64 * 1024)).clamp(1, 16);
    // Round down to a power of two.
    1 << most.ilog2()
}

/// The hash of a key: seeded once a zone, so that a peer cannot aim at one bucket or one shard.
#[derive(Debug)]
pub(super) struct KeyHasher(ahash::RandomState);

impl KeyHasher {
    pub(super) fn new(seed: u64) -> Self {
        Self(ahash::RandomState::with_seeds(seed, !seed, seed.rotate_left(32), 0x5bd1_e995))
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a queue of keys, oldest first.
        #[test]
        fn behaves_as_a_queue_of_keys(actions in prop::collection::vec((0u8..4, 0u8..12), 0..200)) {
            let hasher = KeyHasher::new(1);
            let mut table = LruTable::new();
            let mut shadow: VecDeque<u8> = VecDeque::new();
            for (action, key) in actions {
                let bytes = [key];
                let hash = hasher.hash(&bytes);
                let found = table.find(hash, &bytes);
                prop_assert_eq!(found.is_some(), shadow.contains(&key));
                match (action, found) {
                    (0, None) => {
                        table.insert(hash, &bytes, 64, key);
                        shadow.push_back(key);
                    }
                    (1, Some(slot)) => {
                        table.touch(slot);
                        shadow.retain(|&k| k != key);
                        shadow.push_back(key);
                    }
                    (2, Some(slot)) => {
                        prop_assert_eq!(table.remove(slot), Some(key));
                        shadow.retain(|&k| k != key);
                    }
                    _ => {
                        let oldest = table.oldest().and_then(|slot| table.value(slot).copied());
                        prop_assert_eq!(oldest, shadow.front().copied());
                    }
                }
                prop_assert_eq!(table.len(), shadow.len());
                prop_assert_eq!(table.used(), shadow.len() * 64);
            }
        }
    }
}
