//! A fleet in simulated time: what methods make of endpoints that are slow, hang, refuse, flap or are far away.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_control::{EndpointKey, PoolId};

use super::*;
use crate::budget::Budget;
use crate::rng::SplitMix;
use crate::time::Millis;

/// What an endpoint does with a request that comes at a time.
type Conduct = fn(u64) -> Does;

enum Does {
    /// Answers after so many milliseconds.
    Answers(u64),
    /// Refuses at once.
    Refuses,
    /// Says nothing, until the request is given up.
    Hangs,
}

const TIMEOUT: u64 = 2_000;

struct Fleet {
    pool: Pool,
    conducts: Vec<Conduct>,
    rng: SplitMix,
    now: u64,
    /// Requests in flight by the moment they end.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    leases: std::collections::HashMap<u64, (Lease, u64, bool)>,
    next: u64,
    served: Vec<u64>,
    times: Vec<u64>,
    failures: u64,
}

impl Fleet {
    fn new(balance: Balance, options: PoolOptions, conducts: &[Conduct]) -> Self {
        let endpoints = (0..conducts.len()).map(|at| {
            let name = format!("10.0.0.{at}:80");
            EndpointConfig { max_fails: 0, ..EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name) }
        });
        Self::of(balance, options, endpoints.collect(), conducts)
    }

    fn of(
        balance: Balance,
        options: PoolOptions,
        endpoints: Vec<EndpointConfig>,
        conducts: &[Conduct],
    ) -> Self {
        let config = Arc::new(PoolConfig::new(balance, options, endpoints));
        let shared = Arc::new(PoolShared::new(&config, None));
        Self {
            pool: Pool::new(config, shared, 7),
            conducts: conducts.to_vec(),
            rng: SplitMix::new(9),
            now: 1,
            ends: BinaryHeap::new(),
            leases: std::collections::HashMap::new(),
            next: 0,
            served: vec![0; conducts.len()],
            times: Vec::new(),
            failures: 0,
        }
    }

    /// Requests come every `every` milliseconds on average for so long.
    fn run(&mut self, every: u32, until: u64) {
        while self.now < until {
            self.now += u64::from(self.rng.below(2 * every)) + u64::from(every == 1);
            self.end(self.now);
            self.begin();
        }
    }

    fn begin(&mut self) {
        let key = self.rng.next().to_be_bytes();
        let Choice::Endpoint(lease) =
            self.pool.choose(Millis(self.now), Key::Bytes(&key), &mut Selection::default())
        else {
            self.failures += 1;
            return;
        };
        let at = lease.index().0 as usize;
        self.served[at] += 1;
        let (takes, answers) = match (self.conducts[at])(self.now) {
            Does::Answers(time) => (time, true),
            Does::Refuses => (0, false),
            Does::Hangs => (TIMEOUT, false),
        };
        self.next += 1;
        self.ends.push(Reverse((self.now + takes, self.next)));
        self.leases.insert(self.next, (lease, takes, answers));
    }

    fn end(&mut self, now: u64) {
        while let Some(Reverse((at, number))) = self.ends.peek().copied()
            && at <= now
        {
            self.ends.pop();
            let Some((lease, took, answered)) = self.leases.remove(&number) else { continue };
            if answered {
                lease.measured(Duration::from_millis(took));
                self.times.push(took);
                lease.succeed();
            } else {
                self.failures += 1;
                lease.fail(Millis(at));
            }
        }
    }

    fn share(&self, at: usize) -> f64 {
        self.served[at] as f64 / self.served.iter().sum::<u64>() as f64
    }

    fn percentile(&mut self, share: f64) -> u64 {
        self.times.sort_unstable();
        self.times[((self.times.len() - 1) as f64 * share) as usize]
    }
}

fn quick(_: u64) -> Does {
    Does::Answers(10)
}

fn slow(_: u64) -> Does {
    Does::Answers(400)
}

fn hangs(_: u64) -> Does {
    Does::Hangs
}

/// Quick, but slow from the tenth to the twentieth second.
fn stalls(now: u64) -> Does {
    Does::Answers(if (10_000..20_000).contains(&now) { 600 } else { 10 })
}

fn flaps(now: u64) -> Does {
    if (now / 500).is_multiple_of(2) { Does::Answers(10) } else { Does::Refuses }
}

fn measured() -> PoolOptions {
    let times = Some(Times { of: Measured::First, in_flight: true });
    PoolOptions { times, ..PoolOptions::default() }
}

const PEAK: Balance = Balance::PeakEwma(Duration::from_secs(10));

#[test]
fn peaks_keep_work_away_from_who_is_slow_or_hangs() {
    let conducts: [Conduct; 5] = [quick, quick, quick, slow, hangs];
    let mut turns = Fleet::new(Balance::RoundRobin, PoolOptions::default(), &conducts);
    turns.run(5, 60_000);
    let mut peaks = Fleet::new(PEAK, measured(), &conducts);
    peaks.run(5, 60_000);
    assert!(turns.share(3) > 0.19 && turns.share(4) > 0.19);
    // The slow one is left with draws of which the other one hangs: two of twenty.
    assert!(peaks.share(3) < 0.11 && peaks.share(4) < 0.01, "{:?}", peaks.served);
    assert!(peaks.failures * 10 < turns.failures, "{} of {}", peaks.failures, turns.failures);
    assert_eq!((turns.percentile(0.99), peaks.percentile(0.89)), (400, 10));
    let even: Vec<f64> = (0..3).map(|at| peaks.share(at)).collect();
    assert!(even.iter().all(|share| (0.25..0.4).contains(share)), "{even:?}");
}

#[test]
fn a_peak_counts_at_once_and_is_forgotten() {
    let mut fleet = Fleet::new(PEAK, measured(), &[quick, quick, stalls]);
    let mut in_the = |until: u64| {
        fleet.served.fill(0);
        fleet.run(5, until);
        fleet.share(2)
    };
    let (before, during) = (in_the(10_000), in_the(20_000));
    let (_, after) = (in_the(100_000), in_the(130_000));
    assert!(before > 0.25, "{before}");
    assert!(during < 0.05, "{during}");
    assert!(after > 0.2, "{after}");
}

#[test]
fn maglev_has_even_shares_and_skips_who_flaps() {
    let conducts: [Conduct; 4] = [quick, quick, quick, flaps];
    let endpoints = (0..4).map(|at| {
        let name = format!("10.0.0.{at}:80");
        EndpointConfig {
            max_fails: 3,
            weight: 1 + u32::from(at == 0),
            ..EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name)
        }
    });
    let mut fleet = Fleet::of(Balance::Maglev, PoolOptions::default(), endpoints.collect(), &conducts);
    fleet.run(2, 60_000);
    let (heavy, light) = (fleet.share(0), fleet.share(1));
    assert!((1.8..2.2).contains(&(heavy / light)), "{heavy} {light}");
    assert!(fleet.share(3) < 0.02, "a failure keeps it out for ten seconds");
}

#[test]
fn near_endpoints_take_all_until_too_few_are_up() {
    let endpoint = |at: u32| {
        let name = format!("10.0.0.{at}:80");
        EndpointConfig { near: at < 3, ..EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name) }
    };
    let methods = [
        Balance::RoundRobin,
        Balance::LeastConn,
        PEAK,
        Balance::Maglev,
        Balance::HashKetama,
        Balance::Random(2),
    ];
    for balance in methods {
        let options = PoolOptions { near_percent: Some(60), ..measured() };
        let mut fleet = Fleet::of(balance, options, (0..6).map(endpoint).collect(), &[quick as Conduct; 6]);
        let near = |fleet: &mut Fleet, until: u64| {
            fleet.served.fill(0);
            fleet.run(2, until);
            (0..3).map(|at| fleet.share(at)).sum::<f64>()
        };
        assert!(near(&mut fleet, 10_000) > 0.999, "{balance:?} {:?}", fleet.served);
        fleet.pool.shared().set_health(0, false, Millis(fleet.now));
        assert!(near(&mut fleet, 20_000) > 0.999, "two of three are 66%: {balance:?} {:?}", fleet.served);
        fleet.pool.shared().set_health(1, false, Millis(fleet.now));
        let left = near(&mut fleet, 30_000);
        assert!((0.15..0.35).contains(&left), "one of four that are up: {balance:?} {left}");
        fleet.pool.shared().set_health(2, false, Millis(fleet.now));
        assert_eq!(near(&mut fleet, 40_000), 0.0);
        assert_eq!(fleet.failures, 0);
    }
}

#[test]
fn a_near_endpoint_that_is_full_or_tried_is_no_reason_to_refuse() {
    let endpoint = |at: u32| {
        let name = format!("10.0.0.{at}:80");
        EndpointConfig {
            near: at == 0,
            max_conns: u32::from(at == 0),
            ..EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name)
        }
    };
    let options = PoolOptions { near_percent: Some(50), ..PoolOptions::default() };
    let config = Arc::new(PoolConfig::new(Balance::RoundRobin, options, (0..2).map(endpoint).collect()));
    let mut pool = Pool::new(config.clone(), Arc::new(PoolShared::new(&config, None)), 1);
    let mut selection = Selection::default();
    let mut choose = |selection: &mut Selection| match pool.choose(Millis(1), Key::None, selection) {
        Choice::Endpoint(lease) => lease,
        other => panic!("{other:?}"),
    };
    let first = choose(&mut selection);
    assert_eq!(first.index(), EndpointIndex(0));
    assert_eq!(choose(&mut Selection::default()).index(), EndpointIndex(1), "it is full");
    drop(first);
    assert_eq!(choose(&mut selection).index(), EndpointIndex(1), "it was tried");
}

/// Requests that fail are tried twice more: without a budget a fleet that is down is asked three times as much.
#[test]
fn a_budget_bounds_what_retries_add() {
    let budget = Budget::default();
    let (mut asked, mut requests) = (0u64, 0u64);
    for now in (1..60_000u64).step_by(2) {
        requests += 1;
        asked += 1;
        budget.begin(Millis(now));
        let dead = (20_000..40_000).contains(&now);
        for _ in 0..2 {
            if dead && budget.take(Millis(now), 20, 1) {
                asked += 1;
            }
        }
    }
    let added = asked - requests;
    assert!(added > 1500 && added <= 10_000 / 5 * 3 / 2 + 40, "{added}");
}

proptest! {
    // A table is 65,537 slots.
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Of Maglev's keys that do not lead to the endpoint that leaves, none moves; of one that comes, little more than its share.
    #[test]
    fn maglev_moves_few_keys(count in 2usize..12, out in 0usize..12, seed in any::<u64>()) {
        let out = out % count;
        let pool_of = |down: Option<usize>, count: usize| {
            let endpoints = (0..count).map(|at| {
                let name = format!("{seed}-{at}");
                let key = EndpointKey::of(PoolId(1), &name);
                EndpointConfig { down: down == Some(at), ..EndpointConfig::new(key, &name) }
            });
            let config = Arc::new(PoolConfig::new(Balance::Maglev, PoolOptions::default(), endpoints.collect()));
            Pool::new(config.clone(), Arc::new(PoolShared::new(&config, None)), 1)
        };
        let place = |pool: &mut Pool, key: u32| {
            match pool.choose(Millis(1), Key::Bytes(&key.to_be_bytes()), &mut Selection::default()) {
                Choice::Endpoint(lease) => lease.index().0 as usize,
                _ => usize::MAX,
            }
        };
        let (mut all, mut less, mut more) = (pool_of(None, count), pool_of(Some(out), count), pool_of(None, count + 1));
        let mut moved = 0;
        for key in 0..400 {
            let before = place(&mut all, key);
            prop_assert!(before < count);
            let without = place(&mut less, key);
            prop_assert!(without != out && (before == out || without == before));
            let with = place(&mut more, key);
            moved += u32::from(with != before);
        }
        let fair = 400 / (count as u32 + 1);
        prop_assert!(moved <= fair * 2 + 40, "{moved} of 400 moved, {fair} are fair");
    }

    /// With a bound, no endpoint has more in flight than its share of all, rounded up.
    #[test]
    fn maglev_keeps_its_bound(count in 2u32..8, percent in 110u16..200, keys in proptest::collection::vec(0u32..3, 1..200)) {
        let endpoints = (0..count).map(|at| {
            let name = format!("e{at}");
            EndpointConfig::new(EndpointKey::of(PoolId(1), &name), &name)
        });
        let options = PoolOptions { load_percent: percent, ..PoolOptions::default() };
        let config = Arc::new(PoolConfig::new(Balance::Maglev, options, endpoints.collect()));
        let mut pool = Pool::new(config.clone(), Arc::new(PoolShared::new(&config, None)), 1);
        let mut leases = Vec::new();
        for key in keys {
            let Choice::Endpoint(lease) =
                pool.choose(Millis(1), Key::Bytes(&key.to_be_bytes()), &mut Selection::default()) else {
                panic!("there is always one");
            };
            leases.push(lease);
            let most = (leases.len() as u64 * u64::from(percent)).div_ceil(100).div_ceil(u64::from(count));
            for at in 0..count {
                let has = leases.iter().filter(|lease| lease.index().0 == at).count() as u64;
                prop_assert!(has <= most, "{has} of at most {most}");
            }
        }
    }
}
