//! Whose turn it is.
//!
//! Owns: nginx's current weights, the order of last use, the cursor into HAProxy's map.
//! Never: knows weights or availability; both come with the call.
//! Driven by: `Pool`, from its own copy or from the process-wide one.
//! Why: the same few numbers serve per-worker and process-wide turns, and move with their endpoints at a reload.

use hashbrown::HashMap;
use weir_control::EndpointKey;

/// A candidate in a round of smooth weighted turns: index and weight for this turn.
pub(super) type Candidate = (u32, i64);

/// Turns of one pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Rotation {
    current: Vec<i64>,
    used: Vec<u64>,
    turn: u64,
    pub(super) cursor: usize,
}

impl Rotation {
    pub(super) fn new(members: usize) -> Self {
        Self { current: vec![0; members], used: vec![0; members], turn: 0, cursor: 0 }
    }

    /// nginx's smooth weighted round robin over `candidates`: each gains its weight, the richest is chosen (the first
    /// of equals) and pays the total.
    pub(super) fn smooth(&mut self, candidates: impl Iterator<Item = Candidate>) -> Option<u32> {
        let mut best: Option<(u32, i64)> = None;
        let mut total = 0;
        for (index, weight) in candidates {
            let current = &mut self.current[index as usize];
            *current += weight;
            total += weight;
            if best.is_none_or(|(_, top)| *current > top) {
                best = Some((index, *current));
            }
        }
        let (index, _) = best?;
        self.current[index as usize] -= total;
        Some(index)
    }

    /// Of `candidates` (index, cost) the cheapest; of equals the one used longest ago.
    pub(super) fn cheapest(&mut self, candidates: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
        let (index, _) = candidates.min_by_key(|&(index, cost)| (cost, self.used[index as usize]))?;
        self.turn += 1;
        self.used[index as usize] = self.turn;
        Some(index)
    }

    /// The same turns for another set of members; what has no key in `old` starts at zero.
    pub(super) fn rekeyed(&self, old: &[EndpointKey], new: &[EndpointKey]) -> Self {
        let places: HashMap<EndpointKey, usize, ahash::RandomState> =
            old.iter().copied().enumerate().map(|(at, key)| (key, at)).collect();
        let place = |key: &EndpointKey| places.get(key).copied();
        Self {
            current: new.iter().map(|k| place(k).map_or(0, |at| self.current[at])).collect(),
            used: new.iter().map(|k| place(k).map_or(0, |at| self.used[at])).collect(),
            turn: self.turn,
            cursor: self.cursor,
        }
    }
}
