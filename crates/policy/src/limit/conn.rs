//! `limit_conn`: how many at a time for each key.
//!
//! Owns: zones of counts by key; guards that give a place back.
//! Never: forgets a key in use, whatever the pressure.
//! Driven by: the exchange; the guard lives as long as the exchange does.
//! Why: exact across workers, because one client's connections are spread over all of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::table::{KeyHasher, LruTable, shard_count, slab_cost};

/// A count's node in nginx on 64-bit machines, without its key.
const NODE: usize = 36;
/// Keys above this are not limited (nginx: one byte of length).
const MAX_KEY: usize = 255;

/// A zone of counts. Outlives plans: a reload with the same name, size and key passes the `Arc` on.
#[derive(Debug)]
pub struct ConnZone {
    shards: Box<[Mutex<LruTable<u32>>]>,
    budget: usize,
    hasher: KeyHasher,
}

/// A place taken; dropping it gives it back.
#[derive(Debug)]
pub struct ConnGuard {
    /// `None` for keys that are not limited.
    place: Option<(Arc<ConnZone>, u32, u32)>,
}

impl ConnZone {
    /// A zone of `bytes`: one megabyte holds about 16,000 keys of up to 28 bytes.
    pub fn new(bytes: usize, seed: u64) -> Self {
        let count = shard_count(bytes);
        let shards = (0..count).map(|_| Mutex::new(LruTable::new())).collect();
        Self { shards, budget: bytes / count, hasher: KeyHasher::new(seed) }
    }

    /// Takes a place for `key` if fewer than `most` are taken. `None`: refused, for that or because the zone is full
    /// of keys in use (nginx refuses then too). Empty and overlong keys are not limited.
    pub fn enter(self: &Arc<Self>, key: &[u8], most: u32) -> Option<ConnGuard> {
        if key.is_empty() || key.len() > MAX_KEY {
            return Some(ConnGuard { place: None });
        }
        let hash = self.hasher.hash(key);
        let shard = (hash >> 56) as usize % self.shards.len();
        let mut table = lock(&self.shards[shard]);
        let slot = match table.find(hash, key) {
            Some(slot) => {
                let count = table.value_mut(slot)?;
                if *count >= most {
                    return None;
                }
                *count += 1;
                slot
            }
            None => {
                let cost = slab_cost(NODE + key.len());
                if most == 0 || table.used() + cost > self.budget {
                    return None;
                }
                table.insert(hash, key, cost, 1)
            }
        };
        drop(table);
        #[expect(clippy::cast_possible_truncation, reason = "there are some dozens of shards")]
        let shard = shard as u32;
        Some(ConnGuard { place: Some((Arc::clone(self), shard, slot)) })
    }

    /// Places taken for `key`.
    pub fn taken(&self, key: &[u8]) -> u32 {
        let hash = self.hasher.hash(key);
        let table = lock(&self.shards[(hash >> 56) as usize % self.shards.len()]);
        table.find(hash, key).and_then(|slot| table.value(slot)).copied().unwrap_or(0)
    }
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        let Some((zone, shard, slot)) = self.place.take() else { return };
        let mut table = lock(&zone.shards[shard as usize]);
        // The slot is ours while the count is above zero, and it is: we are in it.
        if let Some(count) = table.value_mut(slot) {
            *count -= 1;
            if *count == 0 {
                table.remove(slot);
            }
        }
    }
}

fn lock(shard: &Mutex<LruTable<u32>>) -> MutexGuard<'_, LruTable<u32>> {
    // Counts change in one statement: a panic cannot have left them inconsistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_key_and_given_back() {
        let zone = Arc::new(ConnZone::new(1 << 20, 1));
        let first = zone.enter(b"a", 2);
        let second = zone.enter(b"a", 2);
        assert!(first.is_some() && second.is_some() && zone.enter(b"a", 2).is_none());
        assert!(zone.enter(b"b", 2).is_some(), "another key, given back at once");
        drop(first);
        assert_eq!(zone.taken(b"a"), 1);
        assert!(zone.enter(b"a", 2).is_some());
        drop(second);
        assert_eq!((zone.taken(b"a"), zone.taken(b"b")), (0, 0));
    }

    #[test]
    fn a_zone_full_of_live_keys_refuses() {
        let zone = Arc::new(ConnZone::new(64 * 3, 1));
        let held: Vec<_> = (0..3u8).map(|k| zone.enter(&[k], 1).unwrap()).collect();
        assert!(zone.enter(&[9], 1).is_none());
        drop(held);
        assert!(zone.enter(&[9], 1).is_some());
    }

    #[test]
    fn odd_keys_are_not_limited() {
        let zone = Arc::new(ConnZone::new(1 << 20, 1));
        let held: Vec<_> = (0..3).map(|_| zone.enter(b"", 1)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(zone.enter(&[b'x'; 300], 0).is_some());
    }

    #[test]
    fn exact_over_threads() {
        let zone = Arc::new(ConnZone::new(1 << 20, 1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        let guard = zone.enter(b"k", 3);
                        assert!(zone.taken(b"k") <= 3);
                        drop(guard);
                    }
                });
            }
        });
        assert_eq!(zone.taken(b"k"), 0);
    }
}
