//! How many in a sliding period, as HAProxy's stick tables estimate it.
//!
//! Owns: the count of the period at hand and that of the one before.
//! Never: keeps single events, allocates.
//! Driven by: `StickTable`, which keeps its three words among those of an entry.
//! Why: users tuned thresholds against HAProxy's estimate, so the formula is its:
//!
//! ```text
//! rate = current + previous * remaining / period
//! ```
//!
//! `remaining` is what is left of the period at hand. A period that nobody counted in moves `current` to `previous`, a
//! second one forgets both. A single event of the period before counts as one all along, so that one request a period
//! does not flap between zero and one.

/// Events of two periods. Times are milliseconds that may wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequency {
    start: u32,
    current: u32,
    previous: u32,
}

impl Frequency {
    pub(super) const WORDS: usize = 3;

    pub(super) fn of(words: &[u32]) -> Self {
        let at = |n: usize| words.get(n).copied().unwrap_or_default();
        Self { start: at(0), current: at(1), previous: at(2) }
    }

    pub(super) fn words(self) -> [u32; Self::WORDS] {
        [self.start, self.current, self.previous]
    }

    /// When the period at hand began, its events, and those of the one before.
    pub(super) fn parts(self) -> (u32, u32, u32) {
        (self.start, self.current, self.previous)
    }

    pub(super) fn from_parts(start: u32, current: u32, previous: u32) -> Self {
        Self { start, current, previous }
    }

    pub(super) fn add(&mut self, now: u32, period: u32, events: u32) {
        if self.current == 0 && self.previous == 0 {
            // The first event begins the first period.
            self.start = now;
        }
        let gone = now.wrapping_sub(self.start);
        if gone >= period {
            let next = gone - period < period;
            self.previous = if next { self.current } else { 0 };
            self.start = if next { self.start.wrapping_add(period) } else { now };
            self.current = 0;
        }
        self.current = self.current.saturating_add(events);
    }

    pub(super) fn read(self, now: u32, period: u32) -> u32 {
        let gone = u64::from(now.wrapping_sub(self.start));
        let period = u64::from(period.max(1));
        let (current, previous, remaining) = match gone {
            gone if gone <= period => (self.current, self.previous, period - gone),
            gone if gone <= 2 * period => (0, self.current, 2 * period - gone),
            _ => return 0,
        };
        if current == 0 && previous <= 1 {
            return previous;
        }
        let share = u64::from(previous) * remaining / period;
        u32::try_from(u64::from(current) + share).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_period_before_fades() {
        let mut rate = Frequency::default();
        let at = |ms: u32| (u32::MAX - 50).wrapping_add(ms);
        rate.add(at(10), 1000, 10);
        assert_eq!(rate.read(at(1000), 1000), 10);
        assert_eq!(rate.read(at(1500), 1000), 5);
        rate.add(at(1500), 1000, 2);
        assert_eq!(rate.read(at(1500), 1000), 7);
        assert_eq!(rate.read(at(2500), 1000), 1, "half of two");
        assert_eq!(rate.read(at(3001), 1000), 0);
    }

    #[test]
    fn one_event_does_not_flap() {
        let mut rate = Frequency::default();
        rate.add(0, 1000, 1);
        assert!((0..=2000).all(|now| rate.read(now, 1000) == 1));
        assert_eq!(rate.read(2001, 1000), 0);
    }

    proptest! {
        /// Never more than came in the last two periods, never less than came since the period at hand began.
        #[test]
        fn lies_between_the_counts_of_events(
            period in 1u32..50,
            events in prop::collection::vec((0u32..40, 1u32..5), 1..60),
        ) {
            let (mut rate, mut now, mut seen) = (Frequency::default(), 0, Vec::new());
            for (later, events) in events {
                now += later;
                rate.add(now, period, events);
                seen.push((now, events));
                let most: u32 = seen.iter().filter(|(at, _)| now - at <= 2 * period).map(|(_, n)| n).sum();
                let least: u32 = seen.iter().filter(|(at, _)| *at == now).map(|(_, n)| n).sum();
                let read = rate.read(now, period);
                prop_assert!((least..=most).contains(&read), "{least} <= {read} <= {most}");
            }
        }
    }
}
