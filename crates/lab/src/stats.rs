//! Medians of paired ratios, with an interval.
//!
//! Owns: median, bootstrap, geometric mean.
//! Never: reads a clock or a random device: the same samples give the same interval.
//! Driven by: the report, once a figure.

/// The middle value; of an even number, the mean of the middle two. 0 for none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match (n, n % 2) {
        (0, _) => 0.0,
        (_, 1) => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The mean; 0 for none.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Fewer values than these have no interval: even the whole range of five covers the median in 94 of 100 cases only
/// (1 − 2^(1−n)).
pub const ENOUGH: usize = 6;

/// A median, the 95% interval that resampling gives it, and the extremes.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The middle value.
    pub median: f64,
    /// The lower end of the interval; `None`: there are fewer than [`ENOUGH`] values.
    #[serde(default)]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(default)]
    pub high: Option<f64>,
    /// The least value.
    #[serde(default)]
    pub min: f64,
    /// The greatest.
    #[serde(default)]
    pub max: f64,
    /// The mean, as most published figures are.
    #[serde(default)]
    pub mean: f64,
}

impl Estimate {
    /// Both ends of the interval, if it has one.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// The interval, or the extremes where there is none.
    #[must_use]
    pub fn span(&self) -> (f64, f64) {
        self.interval().unwrap_or((self.min, self.max))
    }

    /// Whether the interval lies above a value; never without one.
    #[must_use]
    pub fn is_above(&self, value: f64) -> bool {
        self.low.is_some_and(|low| low > value)
    }

    /// Whether it lies below.
    #[must_use]
    pub fn is_below(&self, value: f64) -> bool {
        self.high.is_some_and(|high| high < value)
    }

    /// The same in another unit.
    #[must_use]
    pub fn scaled(&self, scale: f64) -> Self {
        Self {
            median: self.median * scale,
            low: self.low.map(|low| low * scale),
            high: self.high.map(|high| high * scale),
            min: self.min * scale,
            max: self.max * scale,
            mean: self.mean * scale,
        }
    }
}

const RESAMPLES: usize = 10_000;

/// The median of `values`, with the percentile bootstrap's 95% interval of it if there are [`ENOUGH`]. Zeros for none.
#[must_use]
pub fn estimate(values: &[f64]) -> Estimate {
    if values.is_empty() {
        return Estimate::default();
    }
    let (min, max) = (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let plain = Estimate { median: median(values), low: None, high: None, min, max, mean: mean(values) };
    if values.len() < ENOUGH {
        return plain;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sample: Vec<f64> = values.iter().map(|_| values[random.below(values.len())]).collect();
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |q: f64| medians[((RESAMPLES - 1) as f64 * q) as usize];
    Estimate { low: Some(at(0.025)), high: Some(at(0.975)), ..plain }
}

/// The geometric mean; `None` for no values.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// xorshift64*: even enough for picking samples.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        high as usize % n.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn intervals_hold_the_median_and_narrow() {
        let e = estimate(&[0.5, 0.6, 0.55, 0.52, 0.58, 0.54, 0.56, 0.53, 0.57]);
        let (low, high) = e.interval().unwrap();
        assert!(low <= e.median && e.median <= high);
        assert!(low >= 0.5 && high <= 0.6);
        assert!(e.is_below(0.7) && e.is_above(0.4) && !e.is_above(0.55));
        assert_eq!(estimate(&[0.7; 9]).interval(), Some((0.7, 0.7)));
    }

    #[test]
    fn few_values_have_no_interval_and_show_no_difference() {
        let e = estimate(&[2.7, 2.9, 2.8, 2.85, 2.79]);
        assert_eq!((e.median, e.interval(), e.span()), (2.8, None, (2.7, 2.9)));
        assert!(!e.is_above(1.0) && !e.is_below(100.0));
        assert!(estimate(&[2.7, 2.9, 2.8, 2.85, 2.79, 2.81]).is_above(1.0));
    }

    #[test]
    fn means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
    }
}
