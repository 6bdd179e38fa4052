//! How much more work than was asked for may be made of trouble: retries, and how many may wait for an answer.
//!
//! Owns: counts of requests and of what was added to them, over the last seconds; who waits now.
//! Never: reads a clock, or decides what is worth another attempt (`retry`).
//! Driven by: the loop of attempts, for pools that have a bound.
//! Why: a fleet that is slow answers no sooner for being asked twice. A share of the requests bounds what retries add however many
//! fail, where a number of tries multiplies all of them.
//!
//! ```text
//!   now ── window 6 ── slot 0: begun, added        allowed: added in two windows < share of begun in two windows + least
//!          window 5 ── slot 1: begun, added
//! ```

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::time::Millis;

/// A window in milliseconds; the share is of this one and the one before.
const WINDOW: u64 = 5_000;
/// Bits of a slot's word for each count.
const COUNT: u32 = 24;
const MOST: u64 = (1 << COUNT) - 1;

/// Extra attempts as a share of requests, for the process.
#[derive(Debug, Default)]
pub struct Budget {
    /// The number of its window (16 bits), begun and added (24 each), in one word, so that a window turns at once.
    slots: [AtomicU64; 2],
}

/// A slot's word.
#[derive(Clone, Copy)]
struct Slot {
    window: u64,
    begun: u64,
    added: u64,
}

impl Slot {
    fn of(word: u64) -> Self {
        Self { window: word >> (2 * COUNT), begun: word >> COUNT & MOST, added: word & MOST }
    }

    fn word(self) -> u64 {
        self.window << (2 * COUNT) | self.begun.min(MOST) << COUNT | self.added.min(MOST)
    }
}

fn window(now: Millis) -> u64 {
    (now.0 / WINDOW) & 0xffff
}

impl Budget {
    /// A request began.
    pub fn begin(&self, now: Millis) {
        self.change(now, |slot| Some(Slot { begun: slot.begun + 1, ..slot }));
    }

    /// Whether one more attempt is within `percent` of the requests, or within `least` a second.
    pub fn allows(&self, now: Millis, percent: u8, least: u32) -> bool {
        let (begun, added) = self.both(now);
        added < begun * u64::from(percent) / 100 + u64::from(least) * (2 * WINDOW / 1000)
    }

    /// Takes one more attempt; false: it is beyond the budget.
    pub fn take(&self, now: Millis, percent: u8, least: u32) -> bool {
        self.change(now, |slot| {
            self.allows(now, percent, least).then_some(Slot { added: slot.added + 1, ..slot })
        })
    }

    /// What was counted in this window and the one before.
    fn both(&self, now: Millis) -> (u64, u64) {
        let at = window(now);
        let before = at.wrapping_sub(1) & 0xffff;
        let slots = self.slots.iter().map(|slot| Slot::of(slot.load(Acquire)));
        let counted = slots.filter(|slot| slot.window == at || slot.window == before);
        counted.fold((0, 0), |(begun, added), slot| (begun + slot.begun, added + slot.added))
    }

    fn change(&self, now: Millis, with: impl Fn(Slot) -> Option<Slot>) -> bool {
        let at = window(now);
        let slot = &self.slots[(at % 2) as usize];
        let changed = slot.fetch_update(AcqRel, Relaxed, |word| {
            let old = Slot::of(word);
            let slot = if old.window == at { old } else { Slot { window: at, begun: 0, added: 0 } };
            with(slot).map(Slot::word)
        });
        changed.is_ok()
    }
}

/// What a pool bears at the moment, for the process.
#[derive(Debug, Default)]
pub struct Pressure {
    /// Exchanges that wait for an answer.
    pub pending: Pending,
    /// Attempts made again.
    pub retries: Budget,
}

/// Exchanges that wait for an answer to begin.
#[derive(Debug, Default)]
pub struct Pending(AtomicU64);

impl Pending {
    /// One more waits, unless `most` do.
    pub fn enter(&self, most: u32) -> bool {
        self.0.fetch_update(AcqRel, Relaxed, |now| (now < u64::from(most)).then_some(now + 1)).is_ok()
    }

    /// One waits no more, of those that entered.
    pub fn leave(&self) {
        self.0.fetch_sub(1, AcqRel);
    }

    /// How many wait.
    pub fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_of_what_began_lately() {
        let budget = Budget::default();
        let at = |second: u64| Millis(second * 1000 + 1);
        assert!(!budget.take(at(10), 20, 0), "nothing began");
        (0..10).for_each(|_| budget.begin(at(10)));
        assert!(budget.take(at(11), 20, 0) && budget.take(at(12), 20, 0));
        assert!(!budget.allows(at(12), 20, 0) && !budget.take(at(12), 20, 0));
        assert!(!budget.take(at(17), 20, 0), "the window before counts");
        assert!(budget.take(at(17), 20, 1), "so many a second may always be");
        (0..10).for_each(|_| budget.begin(at(21)));
        assert!(budget.take(at(21), 20, 0), "two windows on all is forgotten but the one of 17");
        assert!(!budget.take(at(21), 20, 0));
    }

    #[test]
    fn who_waits_is_bounded() {
        let pending = Pending::default();
        assert!(pending.enter(2) && pending.enter(2) && !pending.enter(2));
        pending.leave();
        assert!(pending.enter(2) && pending.now() == 2);
    }

    proptest! {
        /// Whatever comes when: in any two windows no more is added than the share of what began in them, and the least.
        #[test]
        fn never_more_than_the_share(
            percent in 0u8..=100,
            least in 0u32..3,
            steps in proptest::collection::vec((0u64..700, any::<bool>()), 1..400),
        ) {
            let budget = Budget::default();
            let (mut now, mut begun, mut added) = (1u64, Vec::new(), Vec::new());
            for (pause, retry) in steps {
                now += pause;
                if retry {
                    if budget.take(Millis(now), percent, least) {
                        added.push(now);
                    }
                } else {
                    budget.begin(Millis(now));
                    begun.push(now);
                }
                let from = (now / WINDOW).saturating_sub(1) * WINDOW;
                let count = |all: &[u64]| all.iter().filter(|&&at| at >= from).count() as u64;
                // What a share allowed a window ago may be more than the share of what is left to count.
                let bound = begun.len() as u64 * u64::from(percent) / 100 + u64::from(least) * 10;
                prop_assert!(count(&added) <= bound);
            }
        }
    }
}
