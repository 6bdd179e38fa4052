//! What one exchange remembers between its attempts.
//!
//! Owns: the endpoints tried, the place on the ring, the tier.
//! Never: outlives its exchange; believes an index of endpoints that were replaced.
//! Driven by: `Pool::choose`, which reads and writes it.
//! Why: nginx's hashes go on from where the last attempt stopped; only the exchange knows where that was.

use weir_control::EndpointKey;

use super::EndpointIndex;

/// A set of endpoint indices; the first 64 of them without an allocation.
#[derive(Clone, Debug, Default)]
pub struct TriedSet {
    first: u64,
    more: Vec<u64>,
}

impl TriedSet {
    /// Adds an endpoint.
    pub fn insert(&mut self, index: EndpointIndex) {
        let (word, bit) = (index.0 as usize / 64, 1 << (index.0 % 64));
        let Some(word) = word.checked_sub(1) else {
            self.first |= bit;
            return;
        };
        if self.more.len() <= word {
            self.more.resize(word + 1, 0);
        }
        self.more[word] |= bit;
    }

    /// True if the endpoint was added.
    pub fn contains(&self, index: EndpointIndex) -> bool {
        let word = match (index.0 as usize / 64).checked_sub(1) {
            None => self.first,
            Some(word) => self.more.get(word).copied().unwrap_or(0),
        };
        word >> (index.0 % 64) & 1 == 1
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.first == 0 && self.more.iter().all(|&word| word == 0)
    }

    /// How many were added.
    pub fn len(&self) -> u32 {
        self.first.count_ones() + self.more.iter().map(|word| word.count_ones()).sum::<u32>()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.first = 0;
        self.more.clear();
    }
}

/// The state of choosing for one exchange. Begin with `default()`, pass the same one to every attempt.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub(super) tried: TriedSet,
    pub(super) last: Option<EndpointIndex>,
    pub(super) hash: u32,
    pub(super) rehash: u32,
    /// Misses of a hash or of random draws; beyond 20 turns decide (nginx).
    pub(super) misses: u8,
    pub(super) placed: bool,
    pub(super) queued: bool,
    /// The set of endpoints that the indices count in; zero: none was met yet.
    generation: u32,
    last_key: Option<EndpointKey>,
}

impl Selection {
    /// The endpoints tried so far.
    pub fn tried(&self) -> &TriedSet {
        &self.tried
    }

    /// The endpoint of the last attempt.
    pub fn last(&self) -> Option<EndpointIndex> {
        self.last
    }

    /// This exchange was called from the pool's queue: it goes before newcomers.
    pub fn queued(&mut self) {
        self.queued = true;
    }

    pub(super) fn took(&mut self, index: EndpointIndex, key: EndpointKey) {
        self.tried.insert(index);
        self.last = Some(index);
        self.last_key = Some(key);
    }

    /// Called before each choice. Indices of endpoints that were replaced meanwhile mean others now: all is forgotten but
    /// the endpoint of the last attempt, if it is still there.
    #[inline]
    pub(super) fn meet(
        &mut self,
        generation: u32,
        place_of: impl FnOnce(EndpointKey) -> Option<EndpointIndex>,
    ) {
        if self.generation == generation {
            return;
        }
        if self.generation != 0 {
            self.tried.clear();
            self.last = self.last_key.and_then(place_of);
            self.last.into_iter().for_each(|last| self.tried.insert(last));
        }
        self.generation = generation;
    }

    /// Counts a miss; true once there were too many.
    pub(super) fn missed(&mut self) -> bool {
        self.misses = self.misses.saturating_add(1);
        self.misses > 20
    }

    pub(super) fn exhausted(&self) -> bool {
        self.misses > 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tried_holds_what_was_put_in() {
        let mut tried = TriedSet::default();
        assert!(tried.is_empty());
        for index in [0, 63, 64, 200] {
            tried.insert(EndpointIndex(index));
        }
        assert_eq!(tried.len(), 4);
        assert!(tried.contains(EndpointIndex(200)) && !tried.contains(EndpointIndex(1)));
        assert!(!tried.contains(EndpointIndex(100_000)));
        tried.clear();
        assert!(tried.is_empty());
    }
}
