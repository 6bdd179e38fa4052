//! Latency distributions.
//!
//! Owns: log-linear buckets, one writer each.
//! Never: allocates once made; a quiet site has none (see [`Distribution`]).
//! Driven by: the cells that hold it.
//! Why: hdrhistogram cannot be read while it is written without a lock or a recorder hand-over; 448 atomic buckets can,
//! and 16 steps an octave put every quantile within 3.2%.
//!
//! ```text
//!   µs   0 1 2 … 15 | 16 17 … 31 | 32 34 … 62 | 64 68 … 124 | …  to 2³² µs (71 minutes)
//!        one a bucket  16 buckets   16 buckets    16 buckets
//! ```

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use weir_control::snapshot::Latency;

use super::cell::Counter;

/// log₂ of the steps in an octave.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;
/// Longer durations count as this.
const LONGEST_US: u64 = (1 << 32) - 1;
const BUCKETS: usize = STEPS * (32 - STEP_BITS as usize + 1);

/// Upper bounds of the buckets shown to Prometheus, in microseconds: 0.5 ms to 10 s, its usual default with finer ends.
pub const PROMETHEUS_BOUNDS_US: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// A distribution of durations in microseconds. 3.6 KB.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: Counter::default() }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, micros: u64) {
        let bucket = &self.buckets[bucket_of(micros)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.sum.add(micros);
    }
}

/// A histogram that exists once something was recorded.
#[derive(Debug, Default)]
pub struct Distribution(OnceLock<Box<Histogram>>);

impl Distribution {
    /// Counts one duration.
    pub fn record(&self, micros: u64) {
        self.0.get_or_init(Box::default).record(micros);
    }

    /// Forgets what was counted.
    pub(super) fn clear(&self) {
        if let Some(histogram) = self.0.get() {
            histogram.buckets.iter().for_each(|bucket| bucket.store(0, Relaxed));
            histogram.sum.set(0);
        }
    }

    /// Shows each bucket that has something in it.
    pub(super) fn each(&self, mut show: impl FnMut(usize, u64)) {
        let buckets = self.0.get().into_iter().flat_map(|histogram| histogram.buckets.iter().enumerate());
        for (at, bucket) in buckets {
            match bucket.load(Relaxed) {
                0 => {}
                count => show(at, count),
            }
        }
    }

    /// The sum of all that was recorded, in microseconds.
    pub(super) fn sum(&self) -> u64 {
        self.0.get().map_or(0, |histogram| histogram.sum.value())
    }

    /// Begins with these buckets; what is none of them is passed over.
    pub(super) fn inherit(&self, buckets: impl Iterator<Item = (usize, u64)>, sum: u64) {
        let mut buckets = buckets.filter(|(at, _)| *at < BUCKETS).peekable();
        if buckets.peek().is_none() {
            return;
        }
        let histogram = self.0.get_or_init(Box::default);
        buckets.for_each(|(at, count)| histogram.buckets[at].store(count, Relaxed));
        histogram.sum.set(sum);
    }
}

/// How much is told of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Quantiles, and Prometheus' buckets.
    #[default]
    Quantiles,
    /// All buckets that hold something as well (`Latency::steps`).
    Steps,
}

/// Distributions of several workers, added up. What nothing was recorded in takes no memory.
#[derive(Debug, Default)]
pub(super) struct Sum {
    buckets: Option<Box<[u64; BUCKETS]>>,
    sum: u64,
}

impl Sum {
    pub(super) fn add(&mut self, distribution: &Distribution) {
        let Some(histogram) = distribution.0.get() else { return };
        let buckets = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (sum, bucket) in buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Relaxed);
        }
        self.sum += histogram.sum.value();
    }

    pub(super) fn show(&self, detail: Detail) -> Latency {
        match detail {
            Detail::Quantiles => self.latency(),
            Detail::Steps => self.fine(),
        }
    }

    fn latency(&self) -> Latency {
        let Some(buckets) = &self.buckets else { return Latency::default() };
        let count = buckets.iter().sum();
        Latency {
            count,
            sum_us: self.sum,
            p50_us: quantile(buckets, count, 50),
            p95_us: quantile(buckets, count, 95),
            p99_us: quantile(buckets, count, 99),
            buckets: PROMETHEUS_BOUNDS_US.iter().map(|&bound| (bound, at_most(buckets, bound))).collect(),
            steps: Vec::new(),
        }
    }

    /// As [`Sum::latency`], with every bucket that holds something.
    fn fine(&self) -> Latency {
        let filled = self.buckets.iter().flat_map(|buckets| buckets.iter().enumerate());
        let filled = filled.filter(|&(_, &count)| count > 0);
        Latency {
            steps: filled.map(|(at, &count)| (floor_of(at + 1) - 1, count)).collect(),
            ..self.latency()
        }
    }
}

/// The middle of the bucket that holds the value of rank `hundredths` of `count`.
fn quantile(buckets: &[u64; BUCKETS], count: u64, hundredths: u64) -> u64 {
    let rank = (count * hundredths).div_ceil(100).max(1);
    let mut seen = 0;
    for (at, &bucket) in buckets.iter().enumerate() {
        seen += bucket;
        if seen >= rank {
            return (floor_of(at) + floor_of(at + 1) - 1) / 2;
        }
    }
    0
}

/// How many were at most `bound`; the bucket that straddles it is shared out evenly.
fn at_most(buckets: &[u64; BUCKETS], bound: u64) -> u64 {
    let straddling = bucket_of(bound);
    let below: u64 = buckets[..straddling].iter().sum();
    let (floor, end) = (floor_of(straddling), floor_of(straddling + 1));
    below + buckets[straddling] * (bound + 1 - floor) / (end - floor)
}

fn bucket_of(micros: u64) -> usize {
    let micros = micros.min(LONGEST_US);
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let octave = micros.ilog2() - STEP_BITS;
    (octave as usize) * STEPS + (micros >> octave) as usize
}

/// The least value that falls into a bucket.
fn floor_of(bucket: usize) -> u64 {
    if bucket < 2 * STEPS {
        return bucket as u64;
    }
    let octave = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS) as u64) << octave
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_meet_without_gap() {
        for bucket in 0..BUCKETS {
            let (floor, next) = (floor_of(bucket), floor_of(bucket + 1));
            assert_eq!(bucket_of(floor), bucket);
            assert_eq!(bucket_of(next - 1), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_five_hundredths(mut values in prop::collection::vec(0u64..20_000_000, 1..400)) {
            let (one, two) = (Distribution::default(), Distribution::default());
            for (at, &value) in values.iter().enumerate() {
                if at % 2 == 0 { one.record(value) } else { two.record(value) }
            }
            let mut sum = Sum::default();
            sum.add(&one);
            sum.add(&two);
            let latency = sum.latency();
            values.sort_unstable();
            prop_assert_eq!(latency.count as usize, values.len());
            prop_assert_eq!(latency.sum_us, values.iter().sum::<u64>());
            for (hundredths, got) in [(50, latency.p50_us), (95, latency.p95_us), (99, latency.p99_us)] {
                let true_value = values[(values.len() * hundredths).div_ceil(100).max(1) - 1];
                prop_assert!(got.abs_diff(true_value) as f64 <= true_value as f64 * 0.05 + 1.0);
            }
            let mut last = 0;
            for &(_, at_most) in &latency.buckets {
                prop_assert!(at_most >= last && at_most <= latency.count);
                last = at_most;
            }
            let fine = sum.fine();
            prop_assert_eq!(fine.steps.iter().map(|(_, count)| count).sum::<u64>(), latency.count);
            for pair in fine.steps.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 > 0);
            }
            let beyond = values.iter().filter(|&&value| value > fine.steps.last().unwrap().0).count();
            prop_assert_eq!((beyond, fine.p99_us), (0, latency.p99_us));
        }
    }

    #[test]
    fn nothing_recorded_is_nothing_shown() {
        assert_eq!(Sum::default().fine(), Latency::default());
    }
}
