//! How much of what costs us, and its sender next to nothing, a peer may send.
//!
//! Owns: a bucket of tokens that fills with time and with useful work.
//! Never: reads a clock. Driven by: `receive`.
//! Why buckets: a count for ever punishes long connections, and a count for each second lets a paced flood through.

use weir_rt::Instant;

/// How many at once, and how many each second from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// At once. 0 allows none but what is earned.
    pub burst: u32,
    /// More of them each second.
    pub per_second: u32,
}

/// An allowance, and what is left of it in thousandths.
#[derive(Debug)]
pub(crate) struct Budget {
    allowance: Allowance,
    left: u64,
    at: Option<Instant>,
}

impl Budget {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self { allowance, left: u64::from(allowance.burst) * 1000, at: None }
    }

    /// Takes one; false when there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let most = u64::from(self.allowance.burst) * 1000;
        if self.left < most {
            let passed = self.at.map_or(0, |at| now.saturating_duration_since(at).as_millis());
            let passed = u64::try_from(passed).unwrap_or(u64::MAX);
            if passed > 0 {
                let earned = passed.saturating_mul(u64::from(self.allowance.per_second));
                self.left = self.left.saturating_add(earned).min(most);
                self.at = Some(now);
            }
        }
        self.at.get_or_insert(now);
        match self.left.checked_sub(1000) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Gives back `n` for useful work.
    pub(crate) fn earn(&mut self, n: u64) {
        let most = u64::from(self.allowance.burst) * 1000;
        self.left = (self.left + n * 1000).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_and_then_a_pace() {
        let begin = Instant::now();
        let mut budget = Budget::new(Allowance { burst: 3, per_second: 2 });
        let mut taken = |ms| {
            let now = begin + Duration::from_millis(ms);
            (0..10).take_while(|_| budget.take(now)).count()
        };
        assert_eq!([taken(0), taken(400), taken(500), taken(1000), taken(60_000)], [3, 0, 1, 1, 3]);
        let mut budget = Budget::new(Allowance { burst: 1, per_second: 0 });
        assert!(budget.take(begin) && !budget.take(begin));
        budget.earn(5);
        assert!(budget.take(begin) && !budget.take(begin));
    }
}
