//! What is known of a name, and when to ask again.
//!
//! Owns: the addresses in use, how long they serve, the times of look-ups.
//! Never: asks; the caller does, and says what came of it.
//! Driven by: the thread that looks up the names of endpoints: `poll_timeout`, then `answered` or `failed`.
//! Why: nginx keeps what it was last told for as long as its name servers fail; HAProxy only for a time that depends on
//! the failure, and then takes the server out.

use std::time::Duration;

use weir_control::Spot;
use weir_expr::settings::NameHolds;

use crate::time::{Millis, millis};

/// Least time between two look-ups of a name: a TTL of zero asks no more often.
const FLOOR: Duration = Duration::from_secs(1);
/// Longest time that an answer is believed, whatever its TTL (RFC 8767 §4 says a week at most).
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How a name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameConfig {
    /// Time between look-ups, whatever the TTL of answers.
    pub valid: Option<Duration>,
    /// Longest time from a failure to the next look-up.
    pub again: Duration,
    /// How long addresses serve while look-ups fail; `None`: until there are others.
    pub holds: Option<NameHolds>,
}

/// Why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFailure {
    /// It does not exist, or has no address.
    Missing,
    /// The name server refused.
    Refused,
    /// Nobody answered in time.
    Timeout,
    /// Anything else.
    Other,
}

/// A name.
#[derive(Debug)]
pub struct Name {
    config: NameConfig,
    /// Addresses, and when each was last in an answer.
    known: Vec<(Spot, Millis)>,
    last_valid: Option<Millis>,
    failure: Option<NameFailure>,
    failures: u32,
    due: Millis,
    settled: bool,
}

impl Name {
    /// A name that is to be looked up at once. `known`: its addresses as far as they are remembered.
    pub fn new(config: NameConfig, now: Millis, known: Vec<Spot>) -> Self {
        let last_valid = (!known.is_empty()).then_some(now);
        let settled = last_valid.is_some();
        let known = known.into_iter().map(|ip| (ip, now)).collect();
        Self { config, known, last_valid, failure: None, failures: 0, due: now, settled }
    }

    /// When to look it up next.
    pub fn due(&self) -> Millis {
        self.due
    }

    /// When anything is to be done next: to look it up, or to let go of addresses ([`Name::expire`]).
    pub fn poll_timeout(&self) -> Millis {
        self.lapses().map_or(self.due, |at| at.min(self.due))
    }

    /// Whether it is known what there is to be known: there is an answer, or a failure.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Its addresses now; `None`: nothing was ever known of it.
    pub fn addresses(&self) -> Option<Vec<Spot>> {
        self.last_valid.map(|_| self.known.iter().map(|(ip, _)| *ip).collect())
    }

    /// It has these addresses, for so long. True if it had others.
    pub fn answered(&mut self, now: Millis, addresses: &[Spot], ttl: Duration) -> bool {
        let before = self.addresses();
        let obsolete = self.config.holds.map_or(0, |holds| millis(holds.obsolete));
        let mut known: Vec<(Spot, Millis)> = Vec::with_capacity(addresses.len());
        for ip in addresses {
            if !known.iter().any(|(seen, _)| seen == ip) {
                known.push((*ip, now));
            }
        }
        // Order is no news: what was there stays in its place.
        let place = |ip: &Spot| self.known.iter().position(|(old, _)| old == ip).unwrap_or(usize::MAX);
        known.sort_by_key(|(ip, _)| place(ip));
        let kept =
            self.known.iter().filter(|(ip, seen)| !addresses.contains(ip) && now.since(*seen) < obsolete);
        let kept: Vec<_> = kept.copied().collect();
        known.extend(kept);
        self.known = known;
        (self.last_valid, self.failure, self.failures, self.settled) = (Some(now), None, 0, true);
        let wait = self.config.valid.unwrap_or(ttl).clamp(FLOOR, LONGEST);
        self.due = now.plus(wait);
        self.addresses() != before
    }

    /// Nothing came of a look-up. True if its addresses are let go of.
    pub fn failed(&mut self, now: Millis, failure: NameFailure) -> bool {
        self.failure = Some(failure);
        self.failures = self.failures.saturating_add(1);
        self.settled = true;
        // Soon at first: name servers that start beside us come up within moments.
        let wait = FLOOR.saturating_mul(1 << self.failures.saturating_sub(1).min(16)).min(self.config.again);
        self.due = now.plus(wait.max(Duration::from_millis(1)));
        self.expire(now)
    }

    /// Lets go of addresses whose time is over. True if there were any.
    pub fn expire(&mut self, now: Millis) -> bool {
        let over = self.lapses().is_some_and(|at| at <= now) && !self.known.is_empty();
        if over {
            self.known.clear();
        }
        over
    }

    fn lapses(&self) -> Option<Millis> {
        let (holds, failure, last) = (self.config.holds?, self.failure?, self.last_valid?);
        let hold = match failure {
            NameFailure::Missing => holds.missing,
            NameFailure::Refused => holds.refused,
            NameFailure::Timeout => holds.timeout,
            NameFailure::Other => holds.other,
        };
        (!self.known.is_empty()).then(|| last.plus(hold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ip(last: u8) -> Spot {
        [192, 0, 2, last].into()
    }

    fn config(valid: Option<u64>) -> NameConfig {
        NameConfig { valid: valid.map(Duration::from_secs), again: SECOND * 30, holds: None }
    }

    #[test]
    fn it_is_asked_again_when_its_ttl_is_over_or_as_configured() {
        for (valid, ttl, due) in
            [(None, 5, 5000), (None, 0, 1000), (Some(10), 5, 10_000), (None, 1 << 30, 86_400_000)]
        {
            let mut name = Name::new(config(valid), Millis(0), Vec::new());
            assert_eq!((name.due(), name.addresses(), name.is_settled()), (Millis(0), None, false));
            assert!(name.answered(Millis(0), &[ip(1)], SECOND * ttl));
            assert_eq!((name.due(), name.addresses()), (Millis(due), Some(vec![ip(1)])));
        }
    }

    #[test]
    fn another_order_is_no_news() {
        let mut name = Name::new(config(None), Millis(0), vec![ip(1), ip(2)]);
        assert!(!name.answered(Millis(1), &[ip(2), ip(1), ip(2)], SECOND));
        assert!(name.answered(Millis(2), &[ip(3), ip(2)], SECOND));
        assert_eq!(name.addresses(), Some(vec![ip(2), ip(3)]));
    }

    #[test]
    fn failures_keep_the_last_answer_and_ask_again_ever_later() {
        let mut name = Name::new(config(None), Millis(0), Vec::new());
        name.answered(Millis(0), &[ip(1)], SECOND);
        let waits: Vec<u64> = (0..7)
            .map(|_| {
                let now = name.due();
                assert!(!name.failed(now, NameFailure::Missing));
                name.due().since(now) / 1000
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(name.addresses(), Some(vec![ip(1)]));
    }

    #[test]
    fn holds_say_how_long_a_failure_is_borne() {
        let holds = NameHolds { missing: SECOND * 5, ..NameHolds::default() };
        let config = NameConfig { valid: Some(SECOND * 10), again: SECOND, holds: Some(holds) };
        let mut name = Name::new(config, Millis(0), Vec::new());
        name.answered(Millis(0), &[ip(1)], SECOND);
        assert!(!name.failed(Millis(3000), NameFailure::Missing));
        assert_eq!((name.due(), name.poll_timeout()), (Millis(4000), Millis(4000)));
        assert!(!name.failed(Millis(4000), NameFailure::Missing));
        assert_eq!(name.poll_timeout(), Millis(5000));
        assert!(!name.expire(Millis(4999)));
        assert!(name.expire(Millis(5000)));
        assert_eq!(name.addresses(), Some(Vec::new()));
        assert!(name.answered(Millis(6000), &[ip(1)], SECOND), "it is back");
    }

    #[test]
    fn an_address_that_left_serves_on_while_it_is_held() {
        let holds = NameHolds { obsolete: SECOND * 5, ..NameHolds::default() };
        let config = NameConfig { valid: Some(SECOND), again: SECOND, holds: Some(holds) };
        let mut name = Name::new(config, Millis(0), Vec::new());
        name.answered(Millis(0), &[ip(1)], SECOND);
        assert!(name.answered(Millis(1000), &[ip(2)], SECOND));
        assert_eq!(name.addresses(), Some(vec![ip(2), ip(1)]));
        name.answered(Millis(5000), &[ip(2)], SECOND);
        assert_eq!(name.addresses(), Some(vec![ip(2)]));
    }
}
