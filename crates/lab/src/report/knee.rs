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
    /// The limit that the 95th percentile passes, microseconds: median over runs.
    pub limit_us: f64,
    /// Curves that it was sought in.
    pub runs: u32,
}

/// The knee of one curve: its rate, and the limit that was passed. `None` below two points.
///
/// The unloaded time is the smaller 95th percentile of the two lowest rates. The limit is [`TIMES`] that, and at least
/// [`LEAST_US`]. A server keeps up with a rate if its 95th percentile is within the limit and it completes [`REACHED`] of it. The
/// knee lies between the highest rate that it keeps up with and the next one measured: where the straight line between the two,
/// times on a logarithmic scale, passes the limit; or at what was completed, if the limit was not passed.
#[must_use]
pub fn of_curve(points: &[At]) -> Option<(f64, Where, f64)> {
    let mut points: Vec<At> = points.iter().copied().filter(|p| p.p95_us > 0.0).collect();
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let [first, second, ..] = points[..] else { return None };
    let limit = (first.p95_us.min(second.p95_us) * TIMES).max(LEAST_US);
    let Some(last) = points.iter().rposition(|p| p.p95_us <= limit && p.reached >= p.rate * REACHED) else {
        return Some((first.rate, Where::Below, limit));
    };
    let good = points[last];
    let Some(bad) = points.get(last + 1) else { return Some((good.rate, Where::Above, limit)) };
    if bad.p95_us <= limit {
        return Some((bad.reached.clamp(good.rate, bad.rate), Where::Found, limit));
    }
    let share = (limit / good.p95_us).ln() / (bad.p95_us / good.p95_us).ln();
    Some((good.rate + (bad.rate - good.rate) * share, Where::Found, limit))
}

/// The knee over runs: each run (round) has a curve of its own. `None` if none of them has two points.
#[must_use]
pub fn of_runs(curves: &[Vec<At>]) -> Option<Knee> {
    let found: Vec<(f64, Where, f64)> = curves.iter().filter_map(|c| of_curve(c)).collect();
    if found.is_empty() {
        return None;
    }
    let values = |of: fn(&(f64, Where, f64)) -> f64| found.iter().map(of).collect::<Vec<f64>>();
    let rate = estimate(&values(|f| f.0));
    // The place of the run in the middle; runs beyond an end are at that end of the order.
    let count = |place: Where| found.iter().filter(|f| f.1 == place).count() * 2;
    let place = match found.len() {
        n if count(Where::Above) > n => Where::Above,
        n if count(Where::Below) > n => Where::Below,
        _ => Where::Found,
    };
    Some(Knee { rate, place, limit_us: crate::stats::median(&values(|f| f.2)), runs: found.len() as u32 })
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
            let (found, place, _) = of_curve(&points).unwrap();
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
        let (rate, place, limit) = of_curve(&curve(&[(100.0, 1e3), (200.0, 1e3), (300.0, 1e5)])).unwrap();
        assert!((rate - 250.0).abs() < 1e-6 && place == Where::Found && (limit - 1e4).abs() < 1e-6);
        // A short run ends before latency has grown; what was completed tells then.
        let mut short = curve(&[(100.0, 1e3), (200.0, 1e3), (300.0, 5e3)]);
        short[2].reached = 220.0;
        assert_eq!(of_curve(&short).unwrap().0, 220.0);
        // A hiccup below is none: what follows is well again.
        let hiccup = curve(&[(100.0, 1e3), (200.0, 5e4), (300.0, 1e3), (400.0, 1e6)]);
        assert!(of_curve(&hiccup).unwrap().0 > 300.0);
    }

    #[test]
    fn beyond_what_was_measured_it_says_so() {
        assert_eq!(of_curve(&curve(&[(1.0, 900.0), (2.0, 950.0)])), Some((2.0, Where::Above, 9000.0)));
        // Both are far beyond what any limit allows that a third would set.
        assert_eq!(of_curve(&curve(&[(1.0, 1e6)])), None);
        assert_eq!(of_curve(&[]), None);
        let steep = curve(&[(10.0, 100.0), (20.0, 110.0), (30.0, 120.0)]);
        assert_eq!(of_curve(&steep).unwrap().1, Where::Above);
    }

    #[test]
    fn runs_give_an_interval() {
        let run = |knee: f64| curve(&[(100.0, 1e3), (knee, 1e3), (knee + 10.0, 1e7)]);
        let knee = of_runs(&[run(500.0), run(510.0), run(490.0), run(505.0), run(495.0)]).unwrap();
        let (low, high) = knee.rate.span();
        assert!(low < knee.rate.median && knee.rate.median < high, "{knee:?}");
        assert!((490.0..520.0).contains(&low) && (490.0..520.0).contains(&high), "{knee:?}");
        assert_eq!((knee.place, knee.runs), (Where::Found, 5));
        let above =
            of_runs(&[curve(&[(1.0, 10.0), (2.0, 10.0)]), curve(&[(1.0, 10.0), (2.0, 10.0)])]).unwrap();
        assert_eq!(above.place, Where::Above);
        assert_eq!(of_runs(&[]), None);
    }
}
