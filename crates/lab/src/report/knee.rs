//! The knee of a curve of latency against rate: where a server no longer keeps up.
//!
//! Owns: the definition, and its interval over runs.
//! Never: sees anything but rates and times.
//! Driven by: `report`, for measured and published curves alike.
//! Why: with requests that come at a rate whatever happens, latency beyond capacity grows as long as the run lasts, by factors
//! of a thousand. So the exact limit matters little, as long as it is far above noise: [`TIMES`] the unloaded 95th percentile.
//! On the published curves of B1 this finds the published knees within a tenth.

use crate::stats::{Estimate, estimate};
use serde::{Deserialize, Serialize};

/// So many times the unloaded 95th percentile is too much.
pub const TIMES: f64 = 10.0;
/// A server that does less than this share of a rate does not keep up with it, whatever its latency: a short run ends early.
pub const REACHED: f64 = 0.98;
/// No limit is below this, microseconds: on a fast path a scheduler's hiccup is many times the unloaded time.
pub const LEAST_US: f64 = 5_000.0;

/// A point of one curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// Requests a second, as wanted.
    pub rate: f64,
    /// Requests a second, as completed.
    pub reached: f64,
    /// The 95th percentile of response times, microseconds.
    pub p95_us: f64,
}

/// Where a knee lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Between measured rates.
    Found,
    /// Not within the measured rates: the server kept up with all of them. The figure is the highest.
    Above,
    /// Below them: the server kept up with none. The figure is the lowest.
    Below,
}

/// A knee, requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The median over runs, and its interval. Of a run whose knee is not within the measured rates, their end counts.
    pub rate: Estimate,
    /// Whether the median is a knee, or an end of what was measured.
    pub place: Where,
    /// The limit that the 95th percentile passes, microseconds: one for all that are compared.
    pub limit_us: f64,
    /// Curves that it was sought in.
    pub runs: u32,
}

/// The unloaded time of a curve: the smaller 95th percentile of its two lowest rates. `None` below two points.
#[must_use]
pub fn unloaded_us(points: &[At]) -> Option<f64> {
    let points = sorted(points);
    let [first, second, ..] = points[..] else { return None };
    Some(first.p95_us.min(second.p95_us))
}

/// The limit for all curves that are compared: [`TIMES`] the shortest of their unloaded times, and at least [`LEAST_US`]. With
/// limits of their own a slow server would be allowed more.
#[must_use]
pub fn limit_us(unloaded: impl IntoIterator<Item = f64>) -> f64 {
    let shortest = unloaded.into_iter().fold(f64::INFINITY, f64::min);
    if shortest.is_finite() { (shortest * TIMES).max(LEAST_US) } else { LEAST_US }
}

fn sorted(points: &[At]) -> Vec<At> {
    let mut points: Vec<At> = points.iter().copied().filter(|p| p.p95_us > 0.0).collect();
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    points
}

/// The knee of one curve, where the 95th percentile may be `limit` microseconds. `None` below two points.
///
/// A server keeps up with a rate if its 95th percentile is within the limit and it completes [`REACHED`] of it. The
/// knee lies between the highest rate that it keeps up with and the next one measured: where the straight line between the two,
/// times on a logarithmic scale, passes the limit; or at what was completed, if the limit was not passed.
#[must_use]
pub fn of_curve(points: &[At], limit: f64) -> Option<(f64, Where)> {
    let points = sorted(points);
    let [first, _, ..] = points[..] else { return None };
    let Some(last) = points.iter().rposition(|p| p.p95_us <= limit && p.reached >= p.rate * REACHED) else {
        return Some((first.rate, Where::Below));
    };
    let good = points[last];
    let Some(bad) = points.get(last + 1) else { return Some((good.rate, Where::Above)) };
    if bad.p95_us <= limit {
        return Some((bad.reached.clamp(good.rate, bad.rate), Where::Found));
    }
    let share = (limit / good.p95_us).ln() / (bad.p95_us / good.p95_us).ln();
    Some((good.rate + (bad.rate - good.rate) * share, Where::Found))
}

/// The knee over runs: each run (round) has a curve of its own. `None` if none of them has two points.
#[must_use]
pub fn of_runs(curves: &[Vec<At>], limit: f64) -> Option<Knee> {
    let found: Vec<(f64, Where)> = curves.iter().filter_map(|c| of_curve(c, limit)).collect();
    if found.is_empty() {
        return None;
    }
    let rate = estimate(&found.iter().map(|f| f.0).collect::<Vec<f64>>());
    // The place of the run in the middle; runs beyond an end are at that end of the order.
    let count = |place: Where| found.iter().filter(|f| f.1 == place).count() * 2;
    let place = match found.len() {
        n if count(Where::Above) > n => Where::Above,
        n if count(Where::Below) > n => Where::Below,
        _ => Where::Found,
    };
    Some(Knee { rate, place, limit_us: limit, runs: found.len() as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::published::{Quantity, published};

    fn curve(points: &[(f64, f64)]) -> Vec<At> {
        points.iter().map(|&(rate, p95_us)| At { rate, reached: rate, p95_us }).collect()
    }

    #[test]
    fn the_published_knees_are_found_on_the_published_curves() {
        let b1 = published("B1").unwrap();
        let mut checked = 0;
        for line in b1.curves.iter().filter(|c| c.quantity == Quantity::P95Ms) {
            let points: Vec<At> =
                line.points.iter().map(|&(rate, ms)| At { rate, reached: rate, p95_us: ms * 1e3 }).collect();
            let limit = limit_us(unloaded_us(&points));
            let (found, place) = of_curve(&points, limit).unwrap();
            let told =
                b1.knees.iter().find(|k| k.who == line.who && Some(&k.size) == line.size.as_ref()).unwrap();
            assert_eq!(place, Where::Found);
            assert!(
                (found / told.rate - 1.0).abs() < 0.1,
                "{} {}: {found} and {}",
                line.label,
                told.size,
                told.rate
            );
            checked += 1;
        }
        assert_eq!(checked, 4);
    }

    #[test]
    fn it_lies_where_the_limit_is_passed() {
        // Unloaded 1 ms, limit 10 ms: halfway, on the logarithmic scale, between 1 and 100.
        let points = curve(&[(100.0, 1e3), (200.0, 1e3), (300.0, 1e5)]);
        let limit = limit_us(unloaded_us(&points));
        let (rate, place) = of_curve(&points, limit).unwrap();
        assert!((rate - 250.0).abs() < 1e-6 && place == Where::Found && (limit - 1e4).abs() < 1e-6);
        // A short run ends before latency has grown; what was completed tells then.
        let mut short = curve(&[(100.0, 1e3), (200.0, 1e3), (300.0, 5e3)]);
        short[2].reached = 220.0;
        assert_eq!(of_curve(&short, limit).unwrap().0, 220.0);
        // A hiccup below is none: what follows is well again.
        let hiccup = curve(&[(100.0, 1e3), (200.0, 5e4), (300.0, 1e3), (400.0, 1e6)]);
        assert!(of_curve(&hiccup, limit).unwrap().0 > 300.0);
    }

    #[test]
    fn beyond_what_was_measured_it_says_so() {
        assert_eq!(of_curve(&curve(&[(1.0, 900.0), (2.0, 950.0)]), 9000.0), Some((2.0, Where::Above)));
        // Both are far beyond what any limit allows that a third would set.
        assert_eq!(of_curve(&curve(&[(1.0, 1e6)]), LEAST_US), None);
        assert_eq!(of_curve(&[], LEAST_US), None);
        let steep = curve(&[(10.0, 100.0), (20.0, 110.0), (30.0, 120.0)]);
        assert_eq!(of_curve(&steep, LEAST_US).unwrap().1, Where::Above);
    }

    #[test]
    fn runs_give_an_interval() {
        let run = |knee: f64| curve(&[(100.0, 1e3), (knee, 1e3), (knee + 10.0, 1e7)]);
        let knee = of_runs(&[run(500.0), run(510.0), run(490.0), run(505.0), run(495.0)], 1e4).unwrap();
        let (low, high) = knee.rate.span();
        assert!(low < knee.rate.median && knee.rate.median < high, "{knee:?}");
        assert!((490.0..520.0).contains(&low) && (490.0..520.0).contains(&high), "{knee:?}");
        assert_eq!((knee.place, knee.runs), (Where::Found, 5));
        let above =
            of_runs(&[curve(&[(1.0, 10.0), (2.0, 10.0)]), curve(&[(1.0, 10.0), (2.0, 10.0)])], 1e4).unwrap();
        assert_eq!(above.place, Where::Above);
        assert_eq!(of_runs(&[], 1e4), None);
    }

    #[test]
    fn one_limit_holds_for_all_that_are_compared() {
        let quick = curve(&[(100.0, 1e3), (200.0, 1e3), (300.0, 5e4)]);
        let slow = curve(&[(100.0, 6e3), (200.0, 6e3), (300.0, 5e4)]);
        let limit = limit_us([&quick, &slow].into_iter().filter_map(|c| unloaded_us(c)));
        assert!((limit - 1e4).abs() < 1e-6, "{limit}");
        // By a limit of its own, 60 ms, the slow one would have kept up with all.
        assert!(of_curve(&slow, limit).unwrap().0 < 300.0);
        assert!((limit_us([]) - LEAST_US).abs() < 1e-9 && (limit_us([100.0]) - LEAST_US).abs() < 1e-9);
    }
}
