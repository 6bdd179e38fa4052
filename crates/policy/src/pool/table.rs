//! Tables that turn a number into an endpoint.
//!
//! Owns: weighted ranges, nginx's ketama ring, HAProxy's ring and map.
//! Never: knows whether an endpoint is available; it says who would be next.
//! Driven by: `PoolConfig` and `Pool`, which build them; the methods, which look up.
//! Why: each reproduces another server's placement to the point, so that a migration moves no session.

use hashbrown::HashMap;

use super::config::EndpointConfig;
use crate::hash::{Crc32, avalanche, mix, placement};

/// Points on nginx's ring for each unit of weight.
const KETAMA_POINTS: u32 = 160;
/// HAProxy scales weights by this, and lays so many ring points for each unit.
const RING_SCALE: u32 = 16;
/// HAProxy numbers a server's ring points from its id times this.
const RING_IDS: u32 = 4096;

/// Weights laid end to end; a number below their sum names an endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    /// (first number beyond this endpoint, endpoint)
    ends: Vec<(u32, u32)>,
}

impl Spread {
    pub(super) fn new(weights: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut spread = Self::default();
        spread.refill(weights);
        spread
    }

    pub(super) fn refill(&mut self, weights: impl Iterator<Item = (u32, u32)>) {
        self.ends.clear();
        let mut end = 0u32;
        for (index, weight) in weights {
            end = end.saturating_add(weight);
            self.ends.push((end, index));
        }
    }

    pub(super) fn total(&self) -> u32 {
        self.ends.last().map_or(0, |last| last.0)
    }

    /// The endpoint on whose stretch `number` lies; `None` if it is not below the total.
    pub(super) fn at(&self, number: u32) -> Option<u32> {
        let place = self.ends.partition_point(|&(end, _)| end <= number);
        self.ends.get(place).map(|&(_, index)| index)
    }
}

/// Endpoints that share one configured name: the addresses that a DNS name gave.
#[derive(Debug)]
pub(super) struct Groups {
    of: Box<[u32]>,
}

impl Groups {
    pub(super) fn new(endpoints: &[EndpointConfig]) -> Self {
        let mut first: HashMap<&str, u32, ahash::RandomState> = HashMap::default();
        let of = (0u32..).zip(endpoints).map(|(i, e)| *first.entry(&e.name).or_insert(i)).collect();
        Self { of }
    }

    /// The group of an endpoint: the lowest index that carries its name.
    pub(super) fn of(&self, index: u32) -> u32 {
        self.of[index as usize]
    }
}

/// nginx's consistent hash: sorted points, each belonging to a group.
#[derive(Debug)]
pub(super) struct KetamaRing {
    points: Box<[(u32, u32)]>,
}

impl KetamaRing {
    pub(super) fn new(endpoints: &[EndpointConfig], tier: &[u32], groups: &Groups) -> Self {
        let mut points = Vec::new();
        for &index in tier {
            let endpoint = &endpoints[index as usize];
            let base = ketama_base(&endpoint.name);
            let mut previous = 0u32;
            for _ in 0..endpoint.weight.saturating_mul(KETAMA_POINTS) {
                previous = base.update(&previous.to_le_bytes()).finish();
                points.push((previous, groups.of(index)));
            }
        }
        // Stable, and the first of equal points stays: nginx keeps one of them too.
        points.sort_by_key(|&(hash, _)| hash);
        points.dedup_by_key(|&mut (hash, _)| hash);
        Self { points: points.into() }
    }

    /// The place of the first point at or after `hash`; may be one past the last, which wraps in [`Self::group`].
    pub(super) fn place(&self, hash: u32) -> u32 {
        u32::try_from(self.points.partition_point(|&(point, _)| point < hash)).unwrap_or(0)
    }

    pub(super) fn group(&self, place: u32) -> Option<u32> {
        let len = self.points.len();
        (len > 0).then(|| self.points[place as usize % len].1)
    }
}

/// The sum that begins each point of a server: host, a zero byte, port (Cache::Memcached::Fast's rule).
fn ketama_base(name: &str) -> Crc32 {
    let (host, port) = match name.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("unix:") => (&name[5..], ""),
        _ => match name.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (name, ""),
        },
    };
    Crc32::new().update(host.as_bytes()).update(&[0]).update(port.as_bytes())
}

/// Slots of a Maglev table: primes, the larger one where the smaller one's slots are too few for even shares.
const MAGLEV_SIZES: [u32; 2] = [65_537, 655_373];
/// So many slots an endpoint keep shares within a few percent.
const MAGLEV_SLOTS: u32 = 100;

/// Google's Maglev: slots that endpoints took in turns, each along an order of its own. A key names a slot; that of an endpoint
/// that is out goes on to the next one, which is anybody's, so that all share what it had and no other key moves.
#[derive(Debug)]
pub(super) struct Maglev {
    slots: Box<[u32]>,
}

impl Maglev {
    pub(super) fn new(endpoints: &[EndpointConfig], tier: &[u32]) -> Self {
        // One that is drained keeps its slots: who is bound to it still gets there, and nobody else's keys move.
        let weight = |endpoint: &EndpointConfig| u64::from(endpoint.drains.unwrap_or(endpoint.weight));
        let members: Vec<_> = tier
            .iter()
            .map(|&index| (index, &endpoints[index as usize]))
            .filter(|(_, endpoint)| weight(endpoint) > 0)
            .collect();
        let Some(heaviest) = members.iter().map(|(_, endpoint)| weight(endpoint)).max() else {
            return Self { slots: Box::default() };
        };
        let few = members.len() <= (MAGLEV_SIZES[0] / MAGLEV_SLOTS) as usize;
        let slots = MAGLEV_SIZES[usize::from(!few)];
        let size = u64::from(slots);
        // Where its order is, by how much it goes on, and when it is due: the heaviest takes a slot each round.
        let mut turns: Vec<_> = members
            .iter()
            .map(|(index, endpoint)| {
                let hash = mix(endpoint.key.0);
                (*index, weight(endpoint), hash % size, mix(!hash) % (size - 1) + 1, 0u64)
            })
            .collect();
        let mut slots = vec![u32::MAX; slots as usize];
        let (mut free, mut round) = (size, 0u64);
        'all: loop {
            round += 1;
            for (index, weight, place, step, due) in &mut turns {
                if round * *weight < *due {
                    continue;
                }
                *due += heaviest;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a place is below the number of slots, a u32"
                )]
                let at = |place: u64| place as usize;
                while slots[at(*place)] != u32::MAX {
                    *place = (*place + *step) % size;
                }
                slots[at(*place)] = *index;
                free -= 1;
                if free == 0 {
                    break 'all;
                }
            }
        }
        Self { slots: slots.into() }
    }

    /// The slot of a key; counting on from it gives the others.
    pub(super) fn place(&self, key: &[u8]) -> u32 {
        u32::try_from(placement(key) % (self.slots.len().max(1) as u64)).unwrap_or(0)
    }

    pub(super) fn at(&self, place: u32) -> Option<u32> {
        let len = self.slots.len();
        (len > 0).then(|| self.slots[place as usize % len])
    }
}

/// HAProxy's consistent hash ring over the endpoints that are usable now.
#[derive(Debug, Default)]
pub(super) struct NearRing {
    points: Vec<(u32, u32)>,
}

impl NearRing {
    /// `members`: index, id, weight.
    pub(super) fn refill(&mut self, members: impl Iterator<Item = (u32, u32, u32)>) {
        self.points.clear();
        for (index, id, weight) in members {
            let first = id.wrapping_mul(RING_IDS);
            let points = 0..weight.saturating_mul(RING_SCALE).min(RING_IDS);
            self.points.extend(points.map(|n| (avalanche(first.wrapping_add(n)), index)));
        }
        self.points.sort_by_key(|&(hash, _)| hash);
    }

    /// Endpoints from the one nearest to `hash` onwards, each point once.
    pub(super) fn from(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let len = self.points.len();
        let start = self.nearest(hash);
        (0..len).map(move |step| self.points[(start + step) % len].1)
    }

    fn nearest(&self, hash: u32) -> usize {
        let len = self.points.len();
        if len == 0 {
            return 0;
        }
        let next = self.points.partition_point(|&(point, _)| point < hash) % len;
        let before = (next + len - 1) % len;
        let (from_before, to_next) =
            (hash.wrapping_sub(self.points[before].0), self.points[next].0.wrapping_sub(hash));
        let same = self.points[before].1 == self.points[next].1;
        if !same && from_before <= to_next { before } else { next }
    }
}

/// HAProxy's map: endpoints repeated by weight and spread evenly.
#[derive(Debug, Default)]
pub(super) struct RoundMap {
    slots: Vec<u32>,
    scores: Vec<i64>,
}

impl RoundMap {
    /// `members`: index and weight of the usable; `divisor`: the greatest common divisor of all configured weights.
    pub(super) fn refill(&mut self, members: &[(u32, u32)], divisor: u32) {
        let divisor = divisor.max(1);
        let weight = |w: u32| i64::from(w.div_ceil(divisor));
        let total: i64 = members.iter().map(|&(_, w)| weight(w)).sum();
        self.slots.clear();
        self.scores.clear();
        self.scores.resize(members.len(), 0);
        for _ in 0..total {
            let mut best: Option<(usize, i64)> = None;
            for (at, &(_, w)) in members.iter().enumerate().filter(|(_, m)| m.1 > 0) {
                self.scores[at] += weight(w);
                let rank = (self.scores[at] + total) / total;
                if best.is_none_or(|(_, top)| rank > top) {
                    best = Some((at, rank));
                }
            }
            let Some((at, _)) = best else { return };
            self.scores[at] -= total;
            self.slots.push(members[at].0);
        }
    }

    pub(super) fn slots(&self) -> &[u32] {
        &self.slots
    }
}

/// Greatest common divisor of the weights that are not zero; one if there are none.
pub(super) fn common_divisor(weights: impl Iterator<Item = u32>) -> u32 {
    let divide = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    weights.filter(|&w| w > 0).fold(0, divide).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_names_each_stretch() {
        let spread = Spread::new([(0, 5), (1, 0), (2, 1)].into_iter());
        assert_eq!(spread.total(), 6);
        let all: Vec<_> = (0..7).map(|n| spread.at(n)).collect();
        assert_eq!(all, [Some(0), Some(0), Some(0), Some(0), Some(0), Some(2), None]);
    }

    #[test]
    fn map_starts_with_the_first_and_keeps_shares() {
        let mut map = RoundMap::default();
        map.refill(&[(0, 1), (1, 1), (2, 1)], 1);
        assert_eq!(map.slots(), [0, 1, 2]);
        map.refill(&[(0, 20), (1, 10)], 10);
        assert_eq!(map.slots().len(), 3);
        assert_eq!(map.slots().iter().filter(|&&i| i == 0).count(), 2);
        map.refill(&[], 1);
        assert!(map.slots().is_empty());
    }

    #[test]
    fn divisor_ignores_zero() {
        assert_eq!(common_divisor([0, 20, 30].into_iter()), 10);
        assert_eq!(common_divisor([0, 0].into_iter()), 1);
    }
}
