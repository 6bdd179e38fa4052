//! Whether a run is what its caller hoped for: `--success` and `--fail-if`.
//!
//! Owns: the words of conditions, and their judgement.
//! Never: doubts a figure (`judge` does); ends a process.
//! Driven by: the command line, with a report.

use std::time::Duration;

use crate::report::{Figures, Report};
use crate::units;

/// `weir load`'s exit status when fewer requests succeeded than `--success` wants.
pub const TOO_FEW: u8 = 3;
/// Its exit status when a condition of `--fail-if` is met.
pub const FAILED_IF: u8 = 4;

/// The share of units that succeeded, 0 to 1: answered below 400 and as asked for, of all that were answered or failed. A
/// machine that was lost succeeded in nothing. 0 where nothing was done.
#[must_use]
pub fn success(report: &Report) -> f64 {
    let (good, bad) = outcome(&report.total);
    let all = report.agents.len().max(1);
    let lost = report.agents.iter().filter(|agent| agent.report.is_none()).count();
    let share = if good + bad > 0 { good as f64 / (good + bad) as f64 } else { 0.0 };
    share * (all - lost) as f64 / all as f64
}

/// Units that succeeded and that did not. One that was answered late did.
fn outcome(figures: &Figures) -> (u64, u64) {
    let errors = &figures.errors;
    let refused = figures.failed() + errors.not_as_asked;
    let failed = errors.connect + errors.tls + errors.read + errors.write + errors.malformed + errors.reset;
    (figures.requests.saturating_sub(refused), refused + failed)
}

/// A condition under which a run has failed, such as `p99>50ms`, `errors>0.1%` or `rate<990`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    metric: Metric,
    above: bool,
    /// Whether the limit itself fails too.
    or_equal: bool,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    /// Microseconds.
    Percentile(f64),
    Mean,
    Max,
    /// Completed units a second.
    Rate,
    /// Those below 400.
    Goodput,
    /// Failed and late units, and answers of 400 and above.
    Errors,
    /// The same, of a hundred.
    ErrorShare,
}

/// What may be compared, for messages.
const METRICS: &str =
    "p50, p99.9 and the like, mean, max (with a time), rate, goodput (a second), errors (a number or %)";

impl Condition {
    /// Reads `METRIC>LIMIT`, or with `>=`, `<`, `<=`.
    ///
    /// # Errors
    /// A sentence that says what is wanted.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or("METRIC>LIMIT or METRIC<LIMIT is wanted, such as p99>50ms")?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let above = rest.starts_with('>');
        let limit = rest[1..].strip_prefix('=').unwrap_or(&rest[1..]);
        let or_equal = limit.len() + 1 < rest.len();
        let limit = limit.trim();
        let (metric, limit) = match name {
            "mean" => (Metric::Mean, time(limit)?),
            "max" => (Metric::Max, time(limit)?),
            "rate" => (Metric::Rate, units::rate(limit)?),
            "goodput" => (Metric::Goodput, units::rate(limit)?),
            "errors" => match limit.strip_suffix('%') {
                Some(share) => (Metric::ErrorShare, number(share)?),
                None => (Metric::Errors, number(limit)?),
            },
            _ => match name.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok()) {
                Some(percentile) if percentile > 0.0 && percentile <= 100.0 => {
                    (Metric::Percentile(percentile), time(limit)?)
                }
                _ => return Err(format!("`{name}` is no figure of a run; there are {METRICS}")),
            },
        };
        Ok(Self { text: text.trim().to_owned(), metric, above, or_equal, limit })
    }

    /// Where a report meets it: a sentence for its figures as a whole, or for each step that does. Percentiles of a run
    /// that completed nothing are above every limit.
    #[must_use]
    pub fn failures(&self, report: &Report) -> Vec<String> {
        let each =
            if report.steps.is_empty() { std::slice::from_ref(&report.total) } else { &report.steps[..] };
        let met = each.iter().filter_map(|figures| Some((figures, self.met(figures)?)));
        met.map(|(figures, found)| {
            let step = match figures.rate_wanted {
                Some(rate) if !report.steps.is_empty() => format!(" at {} requests/s", units::metric(rate)),
                _ => String::new(),
            };
            format!("{}: it was {}{step}", self.text, self.metric.form(found))
        })
        .collect()
    }

    /// What was found, if it is what must not be.
    fn met(&self, figures: &Figures) -> Option<f64> {
        let found = self.metric.of(figures);
        let met = match (self.above, self.or_equal) {
            (true, true) => found >= self.limit,
            (true, false) => found > self.limit,
            (false, true) => found <= self.limit,
            (false, false) => found < self.limit,
        };
        met.then_some(found)
    }
}

impl Metric {
    fn of(self, figures: &Figures) -> f64 {
        let latency = &figures.latency;
        match self {
            Self::Percentile(_) | Self::Mean | Self::Max if latency.count == 0 => f64::INFINITY,
            Self::Percentile(percentile) => {
                latency.decode().map_or(f64::INFINITY, |all| all.value_at_percentile(percentile) as f64 / 1e3)
            }
            Self::Mean => latency.mean_us,
            Self::Max => latency.max_us,
            Self::Rate => figures.rate,
            Self::Goodput => figures.goodput,
            Self::Errors => (figures.errors.sum() + figures.failed()) as f64,
            Self::ErrorShare => {
                let (good, bad) = outcome(figures);
                let late = figures.errors.timeout.min(good);
                (bad + late) as f64 / (good + bad).max(1) as f64 * 100.0
            }
        }
    }

    fn form(self, found: f64) -> String {
        match self {
            Self::Percentile(_) | Self::Mean | Self::Max if found.is_infinite() => "not measured".into(),
            Self::Percentile(_) | Self::Mean | Self::Max => units::micros(found),
            Self::Rate | Self::Goodput => format!("{found:.1}/s"),
            Self::Errors => format!("{found:.0}"),
            Self::ErrorShare => format!("{found:.3}%"),
        }
    }
}

/// A time, in microseconds.
fn time(text: &str) -> Result<f64, String> {
    units::time(text).map(|time: Duration| time.as_secs_f64() * 1e6)
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Agent, Errors, Latency, empty_histogram};

    fn figures() -> Figures {
        let mut histogram = empty_histogram();
        (1..=1000_u64).for_each(|n| histogram.saturating_record(n * 100_000));
        let mut figures = Figures {
            elapsed_s: 10.0,
            requests: 1000,
            latency: Latency::of(&histogram),
            errors: Errors { read: 4, timeout: 2, ..Errors::default() },
            ..Figures::default()
        };
        figures.status.add(200, 994);
        figures.status.add(503, 6);
        figures.rates();
        figures
    }

    #[test]
    fn conditions_are_judged_by_the_figures_that_they_name() {
        let report = Report { total: figures(), ..Report::default() };
        let failed = |text: &str| !Condition::parse(text).unwrap().failures(&report).is_empty();
        for text in [
            "p99>98ms",
            "p50 > 49.9ms",
            "p99.9>99ms",
            "mean>50ms",
            "max>=100ms",
            "rate<100.1",
            "goodput<99.5",
        ] {
            assert!(failed(text), "{text}");
        }
        for text in ["p99>99.5ms", "p50<49ms", "mean>51ms", "max>101ms", "rate<100", "rate>100", "goodput<99"]
        {
            assert!(!failed(text), "{text}");
        }
        // 4 reads, 2 late, 6 of 503, among 1,004.
        assert!(failed("errors>11") && !failed("errors>12") && failed("errors>=12") && failed("errors>1%"));
        assert!(!failed("errors>1.2%"));
        let said = Condition::parse("p99>50ms").unwrap().failures(&report);
        assert_eq!(said, ["p99>50ms: it was 99.02ms"]);
    }

    #[test]
    fn each_step_is_judged_for_itself() {
        let slow = Figures { rate_wanted: Some(2000.0), ..figures() };
        let quick =
            Figures { rate_wanted: Some(1000.0), latency: Latency::of(&empty_histogram()), ..figures() };
        let report = Report { total: figures(), steps: vec![quick, slow], ..Report::default() };
        let said = Condition::parse("max>1ms").unwrap().failures(&report);
        assert_eq!(
            said,
            [
                "max>1ms: it was not measured at 1.00k requests/s",
                "max>1ms: it was 100.01ms at 2.00k requests/s"
            ]
        );
    }

    #[test]
    fn what_is_no_condition_is_told_what_is() {
        let said = |text| Condition::parse(text).unwrap_err();
        assert!(said("p99=5ms").contains("p99>50ms"));
        assert!(said("p0>5ms").contains("`p0` is no figure") && said("speed<5").contains("goodput"));
        assert!(said("errors>many").contains("`many` is no number"));
        assert!(Condition::parse("p99>soon").is_err() && Condition::parse("rate<").is_err());
    }

    #[test]
    fn success_is_of_what_was_tried_by_all_machines() {
        let mut report = Report { total: figures(), ..Report::default() };
        assert!((success(&report) - 994.0 / 1004.0).abs() < 1e-9);
        let there = Agent { report: Some(Box::default()), ..Agent::default() };
        report.agents = vec![there.clone(), there, Agent::default(), Agent::default()];
        assert!((success(&report) - 994.0 / 2008.0).abs() < 1e-9);
        assert!(success(&Report::default()).abs() < f64::EPSILON);
    }
}
