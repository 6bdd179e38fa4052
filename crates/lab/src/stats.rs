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

/// A median and the 95% interval that resampling gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The middle value.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

const RESAMPLES: usize = 10_000;

/// The median of `values`, and the percentile bootstrap's 95% interval of it. Zeros for none.
#[must_use]
pub fn estimate(values: &[f64]) -> Estimate {
    if values.is_empty() {
        return Estimate::default();
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
    Estimate { median: median(values), low: at(0.025), high: at(0.975) }
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
        assert!(e.low <= e.median && e.median <= e.high);
        assert!(e.low >= 0.5 && e.high <= 0.6);
        assert_eq!(estimate(&[0.7; 9]), Estimate { median: 0.7, low: 0.7, high: 0.7 });
    }

    #[test]
    fn means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
    }
}
