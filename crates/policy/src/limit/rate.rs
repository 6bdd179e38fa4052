//! `limit_req`: nginx's leaky bucket, number for number.
//!
//! Owns: zones of buckets, the arithmetic of excess, burst and delay.
//! Never: sleeps a delay; reports it.
//! Driven by: the exchange, once a request, with all limits of its route at once.
//! Why: users tuned their bursts against nginx's integers (thousandths of a request), so those are what we count in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::table::{KeyHasher, LruTable, shard_count, slab_cost};
use crate::time::Millis;

/// A bucket's node in nginx on 64-bit machines, without its key.
const NODE: usize = 80;
/// Keys above this are not limited (nginx logs and skips them).
const MAX_KEY: usize = 65_535;

/// A zone: buckets by key, and the rate at which they leak. Outlives plans; see [`RateZone::retuned`].
#[derive(Debug)]
pub struct RateZone {
    /// Thousandths of a request a second.
    rate: u64,
    table: Arc<Shards>,
}

#[derive(Debug)]
struct Shards {
    shards: Box<[Mutex<LruTable<Bucket>>]>,
    budget: usize,
    hasher: KeyHasher,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Thousandths of a request above the rate.
    excess: u64,
    last: Millis,
}

impl RateZone {
    /// A zone of `bytes` leaking `requests` per `period` (nginx: a second or a minute; at least one request).
    /// One megabyte holds about 8,000 keys of up to 48 bytes. `seed` keeps peers from aiming at one bucket.
    pub fn new(bytes: usize, requests: u64, period: Duration, seed: u64) -> Self {
        let count = shard_count(bytes);
        let shards = (0..count).map(|_| Mutex::new(LruTable::new())).collect();
        let table = Shards { shards, budget: bytes / count, hasher: KeyHasher::new(seed) };
        Self { rate: rate(requests, period), table: Arc::new(table) }
    }

    /// The same buckets at another rate, for a reload. A change of size or key needs a new zone.
    pub fn retuned(&self, requests: u64, period: Duration) -> Self {
        Self { rate: rate(requests, period), table: Arc::clone(&self.table) }
    }

    /// Keys held now.
    pub fn keys(&self) -> usize {
        self.table.shards.iter().map(|shard| lock(shard).len()).sum()
    }
}

fn rate(requests: u64, period: Duration) -> u64 {
    (requests.saturating_mul(1000) / period.as_secs().max(1)).max(1)
}

fn lock(shard: &Mutex<LruTable<Bucket>>) -> MutexGuard<'_, LruTable<Bucket>> {
    // Buckets are plain numbers: a panic cannot have left them inconsistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What becomes of requests within the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateDelay {
    /// All wait their turn.
    #[default]
    All,
    /// Only those beyond so many (`delay=N`).
    Beyond(u32),
    /// None waits (`nodelay`).
    None,
}

/// What one `limit_req` line says beside its zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RateRule {
    /// Requests tolerated above the rate.
    pub burst: u32,
    /// Which of them wait.
    pub delay: RateDelay,
}

/// A rule with its zone and the key of this request. An empty key is not limited.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit<'a> {
    /// Where requests are counted.
    pub zone: &'a RateZone,
    /// The rule.
    pub rule: RateRule,
    /// The value of the zone's key.
    pub key: &'a [u8],
}

/// Why a request was refused: for nginx's log line "limiting requests, excess: 1.234 by zone".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRefusal {
    /// Which of the limits.
    pub limit: usize,
    /// Thousandths of a request above the rate.
    pub excess: u64,
}

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// At once.
    Pass,
    /// After this long.
    Delay {
        /// How long to wait.
        wait: Duration,
        /// Which of the limits asked for the longest wait.
        limit: usize,
        /// Its thousandths of a request above the rate.
        excess: u64,
    },
    /// Not at all. Nothing was counted.
    Reject(RateRefusal),
}

impl RateVerdict {
    /// Judges a request by all limits of its route. It counts in every zone, or, refused, in none. For nginx's
    /// `dry_run` the caller ignores the verdict.
    pub fn of(limits: &[RateLimit<'_>], now: Millis) -> Self {
        // nginx's order: look into all, the last one counts as it looks; only then the others count.
        let limited = |limit: &&RateLimit<'_>| !limit.key.is_empty() && limit.key.len() <= MAX_KEY;
        let last = limits.iter().rposition(|limit| limited(&limit));
        for (at, limit) in limits.iter().enumerate().filter(|(_, l)| limited(l)) {
            if let Err(excess) = limit.pour(now, Some(at) == last, true) {
                return Self::Reject(RateRefusal { limit: at, excess });
            }
        }
        let mut verdict = Self::Pass;
        let mut longest = 0;
        for (at, limit) in limits.iter().enumerate().rev().filter(|(_, l)| limited(l)) {
            // The last was counted above: read what it came to. The others count now, whatever came meanwhile.
            let count = Some(at) != last;
            let excess = match count {
                true => limit.pour(now, true, false).unwrap_or_else(|excess| excess),
                false => limit.level(),
            };
            let wait = limit.wait(excess);
            if wait > longest {
                longest = wait;
                verdict = Self::Delay { wait: Duration::from_millis(wait), limit: at, excess };
            }
        }
        verdict
    }
}

impl<'a> RateLimit<'a> {
    fn shard(&self) -> (u64, MutexGuard<'a, LruTable<Bucket>>) {
        let table = &self.zone.table;
        let hash = table.hasher.hash(self.key);
        // The upper bits choose the shard; the table within uses the lower.
        (hash, lock(&table.shards[(hash >> 56) as usize % table.shards.len()]))
    }

    /// One request into the bucket of the key; its excess, or `Err` with it if beyond the burst (and `bounded`).
    fn pour(&self, now: Millis, count: bool, bounded: bool) -> Result<u64, u64> {
        let key = self.key;
        let (hash, mut table) = self.shard();
        let Some(slot) = table.find(hash, key) else {
            make_room(&mut table, self.zone.table.budget, self.zone.rate, slab_cost(NODE + key.len()), now);
            // Uncounted, it is empty since ever: the request itself is added when it counts.
            let last = if count { now } else { Millis(0) };
            table.insert(hash, key, slab_cost(NODE + key.len()), Bucket { excess: 0, last });
            return Ok(0);
        };
        table.touch(slot);
        let Some(bucket) = table.value_mut(slot) else { return Ok(0) };
        let excess = bucket.excess_with_one(self.zone.rate, now);
        if bounded && excess > u64::from(self.rule.burst) * 1000 {
            return Err(excess);
        }
        if count {
            bucket.excess = excess;
            bucket.last = bucket.last.max(now);
        }
        Ok(excess)
    }

    fn level(&self) -> u64 {
        let (hash, table) = self.shard();
        let bucket = table.find(hash, self.key).and_then(|slot| table.value(slot));
        bucket.map_or(0, |bucket| bucket.excess)
    }

    fn wait(&self, excess: u64) -> u64 {
        let free = match self.rule.delay {
            RateDelay::All => 0,
            RateDelay::Beyond(requests) => u64::from(requests) * 1000,
            RateDelay::None => return 0,
        };
        excess.saturating_sub(free) * 1000 / self.zone.rate
    }
}

impl Bucket {
    fn excess_with_one(&self, rate: u64, now: Millis) -> u64 {
        let leaked = rate.saturating_mul(now.since(self.last)) / 1000;
        (self.excess + 1000).saturating_sub(leaked)
    }

    fn idle(&self, rate: u64, now: Millis) -> bool {
        let gone = now.since(self.last);
        gone >= 60_000 && self.excess <= rate.saturating_mul(gone) / 1000
    }
}

/// As nginx: two buckets that ran empty a minute ago go at each new key, and the oldest go while there is no room.
fn make_room(table: &mut LruTable<Bucket>, budget: usize, rate: u64, cost: usize, now: Millis) {
    for _ in 0..2 {
        let idle = table.oldest().filter(|&slot| table.value(slot).is_none_or(|b| b.idle(rate, now)));
        let Some(slot) = idle else { break };
        table.remove(slot);
    }
    while table.used() + cost > budget {
        let Some(slot) = table.oldest() else { return };
        table.remove(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: usize = 1 << 20;

    /// A zone, and one rule about it.
    struct Ruled {
        zone: RateZone,
        rule: RateRule,
    }

    impl Ruled {
        fn asked<'a>(&'a self, key: &'a [u8]) -> RateLimit<'a> {
            RateLimit { zone: &self.zone, rule: self.rule, key }
        }
    }

    fn rule(rate: u64, burst: u32, delay: RateDelay) -> Ruled {
        let zone = RateZone::new(MEGABYTE, rate, Duration::from_secs(1), 1);
        Ruled { zone, rule: RateRule { burst, delay } }
    }

    fn ask(rule: &Ruled, key: &[u8], now: u64) -> RateVerdict {
        RateVerdict::of(&[rule.asked(key)], Millis(now))
    }

    fn waits(rule: &Ruled, times: &[u64]) -> Vec<Option<u64>> {
        let wait = |verdict| match verdict {
            RateVerdict::Pass => Some(0),
            RateVerdict::Delay { wait, .. } => Some(wait.as_millis() as u64),
            RateVerdict::Reject(_) => None,
        };
        times.iter().map(|&t| wait(ask(rule, b"k", 100_000 + t))).collect()
    }

    #[test]
    fn without_burst_one_request_a_slot() {
        let plain = rule(10, 0, RateDelay::All);
        assert_eq!(waits(&plain, &[0, 50, 99, 100, 150]), [Some(0), None, None, Some(0), None]);
    }

    #[test]
    fn burst_waits_its_turn() {
        let burst = rule(10, 2, RateDelay::All);
        assert_eq!(waits(&burst, &[0, 0, 0, 0]), [Some(0), Some(100), Some(200), None]);
        assert_eq!(waits(&burst, &[100]), [Some(200)]);
    }

    #[test]
    fn nodelay_and_delay_shorten_the_wait_only() {
        let now = rule(10, 2, RateDelay::None);
        assert_eq!(waits(&now, &[0, 0, 0, 0]), [Some(0), Some(0), Some(0), None]);
        let some = rule(10, 3, RateDelay::Beyond(1));
        assert_eq!(waits(&some, &[0, 0, 0, 0, 0]), [Some(0), Some(0), Some(100), Some(200), None]);
    }

    #[test]
    fn refusals_tell_the_excess_and_cost_nothing() {
        let rule = rule(1, 0, RateDelay::All);
        assert_eq!(ask(&rule, b"k", 1000), RateVerdict::Pass);
        let refusal = |excess| RateVerdict::Reject(RateRefusal { limit: 0, excess });
        assert_eq!(ask(&rule, b"k", 1250), refusal(750));
        assert_eq!(ask(&rule, b"k", 1500), refusal(500));
        assert_eq!(ask(&rule, b"k", 2000), RateVerdict::Pass);
    }

    #[test]
    fn rates_a_minute_are_thousandths_a_second() {
        assert_eq!(rate(30, Duration::from_secs(60)), 500);
        assert_eq!(rate(1, Duration::from_secs(60)), 16);
    }

    #[test]
    fn several_limits_count_all_or_nothing() {
        let (wide, narrow) = (rule(10, 5, RateDelay::All), rule(1, 1, RateDelay::None));
        let both = |now| {
            let limits = [wide.asked(b"k"), narrow.asked(b"k")];
            RateVerdict::of(&limits, Millis(now))
        };
        assert_eq!(both(1000), RateVerdict::Pass);
        assert!(matches!(both(1000), RateVerdict::Delay { limit: 0, excess: 1000, .. }));
        let before = wide.asked(b"k").level();
        assert!(matches!(both(1000), RateVerdict::Reject(RateRefusal { limit: 1, .. })));
        assert_eq!(wide.asked(b"k").level(), before);
    }

    #[test]
    fn empty_keys_are_not_limited_and_keys_do_not_meet() {
        let rule = rule(1, 0, RateDelay::All);
        for _ in 0..3 {
            assert_eq!(ask(&rule, b"", 1000), RateVerdict::Pass);
        }
        assert_eq!(ask(&rule, b"a", 1000), RateVerdict::Pass);
        assert_eq!(ask(&rule, b"b", 1000), RateVerdict::Pass);
    }

    #[test]
    fn a_full_zone_forgets_the_oldest() {
        let zone = RateZone::new(128 * 10, 1, Duration::from_secs(1), 1);
        let rule = Ruled { zone, rule: RateRule::default() };
        for key in 0..100u32 {
            assert_eq!(ask(&rule, &key.to_le_bytes(), 1000), RateVerdict::Pass);
        }
        assert_eq!(rule.zone.keys(), 10);
        assert!(matches!(ask(&rule, &99u32.to_le_bytes(), 1000), RateVerdict::Reject(_)));
        assert_eq!(ask(&rule, &0u32.to_le_bytes(), 1000), RateVerdict::Pass);
    }

    #[test]
    fn idle_buckets_go_first() {
        // Small enough for one shard: each clears only itself.
        let zone = RateZone::new(64 * 1024, 1, Duration::from_secs(1), 1);
        let rule = Ruled { zone, rule: RateRule::default() };
        ask(&rule, b"a", 1000);
        ask(&rule, b"b", 1000);
        ask(&rule, b"c", 62_000);
        assert_eq!(rule.zone.keys(), 1);
    }

    #[test]
    fn a_reload_keeps_the_buckets() {
        let old = rule(1, 0, RateDelay::All);
        assert_eq!(ask(&old, b"k", 1000), RateVerdict::Pass);
        let new = Ruled { zone: old.zone.retuned(10, Duration::from_secs(1)), ..old };
        assert!(matches!(ask(&new, b"k", 1050), RateVerdict::Reject(_)));
        assert_eq!(ask(&new, b"k", 1100), RateVerdict::Pass);
    }
}
