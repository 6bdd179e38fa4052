//! A distribution of times, as figures and as an encoded histogram.
//!
//! Owns: the range and precision of all histograms here; the percentiles that are told.
//! Never: loses what would be needed to merge: the histogram travels with the figures.
//! Driven by: `report` and everything that records a latency.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The least time that is told from zero, nanoseconds.
pub const LOWEST_NS: u64 = 1;
/// The longest time that is told from longer ones, nanoseconds: a day.
pub const HIGHEST_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Three significant digits, as wrk2 keeps them.
const DIGITS: u8 = 3;

/// Percentiles that are worth a line each.
const TOLD: [f64; 13] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// A histogram of the one range and precision, in nanoseconds.
///
/// # Panics
/// Never: the range is a constant that is in order.
#[must_use]
pub fn empty_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds: {error}"),
    }
}

/// A distribution of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were recorded.
    pub count: u64,
    /// The shortest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The standard deviation.
    pub stdev_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Percentiles, rising.
    pub percentiles: Vec<Percentile>,
    /// The whole distribution: an HdrHistogram in nanoseconds with three significant digits, in the format "V2, deflate",
    /// base64. Any HdrHistogram library reads it, and sums of several are exact.
    pub histogram: String,
}

/// So many of a hundred took no longer than this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0 to 100.
    pub percentile: f64,
    /// The time.
    pub us: f64,
}

/// An encoded histogram that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHistogram(String);

impl std::fmt::Display for BadHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not an encoded histogram: {}", self.0)
    }
}

impl std::error::Error for BadHistogram {}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl Latency {
    /// The figures of a histogram in nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let mut bytes = Vec::new();
        // Writing to memory does not fail, and the counts are far below what the format holds.
        let encoded = V2DeflateSerializer::new().serialize(histogram, &mut bytes).is_ok();
        Self {
            count: histogram.len(),
            min_us: us(histogram.min()),
            mean_us: histogram.mean() / 1e3,
            stdev_us: histogram.stdev() / 1e3,
            max_us: us(histogram.max()),
            percentiles: TOLD
                .iter()
                .map(|&percentile| Percentile {
                    percentile,
                    us: us(histogram.value_at_percentile(percentile)).min(us(histogram.max())),
                })
                .collect(),
            histogram: if encoded { BASE64_STANDARD.encode(bytes) } else { String::new() },
        }
    }

    /// The histogram, in nanoseconds.
    ///
    /// # Errors
    /// [`Latency::histogram`] is not what it should be.
    pub fn decode(&self) -> Result<Histogram<u64>, BadHistogram> {
        if self.histogram.is_empty() {
            return Ok(empty_histogram());
        }
        let bytes =
            BASE64_STANDARD.decode(&self.histogram).map_err(|error| BadHistogram(error.to_string()))?;
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| BadHistogram(error.to_string()))
    }

    /// The figures of this and another distribution together.
    ///
    /// # Errors
    /// One of the histograms cannot be read.
    pub fn merged(&self, other: &Self) -> Result<Self, BadHistogram> {
        if other.count == 0 {
            return Ok(self.clone());
        }
        let mut sum = empty_histogram();
        for part in [self.decode()?, other.decode()?] {
            sum.add(part).map_err(|error| BadHistogram(error.to_string()))?;
        }
        Ok(Self::of(&sum))
    }

    /// The time that `percentile` of a hundred did not exceed, microseconds; none if it is not among those told.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|told| (told.percentile - percentile).abs() < 1e-9).map(|told| told.us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_times() {
        let mut histogram = empty_histogram();
        (1..=1000).for_each(|n| histogram.saturating_record(n * 10_000));
        let latency = Latency::of(&histogram);
        let near = |a: f64, b: f64| (a - b).abs() / b < 0.002;
        assert!(near(latency.at(50.0).unwrap(), 5000.0), "{latency:?}");
        assert!(near(latency.at(99.0).unwrap(), 9900.0), "{latency:?}");
        assert!(near(latency.max_us, 10_000.0), "{latency:?}");
        assert_eq!(latency.decode().unwrap(), histogram);
    }

    #[test]
    fn short_and_very_long_times_are_kept() {
        let mut histogram = empty_histogram();
        histogram.saturating_record(250);
        histogram.saturating_record(u64::MAX);
        let latency = Latency::of(&histogram);
        assert!((latency.min_us - 0.25).abs() < 0.001, "{latency:?}");
        assert!(latency.max_us >= us(HIGHEST_NS), "{latency:?}");
    }

    #[test]
    fn nonsense_is_refused_not_merged() {
        let good = Latency::of(&empty_histogram());
        let bad = Latency { count: 1, histogram: "bm90IG9uZQ==".into(), ..Latency::default() };
        assert!(good.merged(&bad).is_err());
    }
}
