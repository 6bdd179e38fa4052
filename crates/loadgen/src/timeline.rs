//! A run second by second, for its report.
//!
//! Owns: the stretches that a run is told in, and their bound.
//! Never: keeps a histogram longer than a stretch.
//! Driven by: `run`, once a second.

use hdrhistogram::Histogram;

use crate::report::{Moment, empty_histogram};
use crate::run::Interval;

/// The most stretches that are told.
const MOST: f64 = 3600.0;

/// The moments of a run.
pub(crate) struct Timeline {
    /// Seconds of a stretch.
    stretch_s: f64,
    moments: Vec<Moment>,
    /// The stretch that is not whole.
    open: Option<Open>,
    cpu_s: f64,
}

struct Open {
    moment: Moment,
    latency: Histogram<u64>,
    cpu_s: f64,
}

impl Timeline {
    /// Of a run of so many seconds; `cpu_s` is the CPU time that the process has used so far.
    pub(crate) fn new(run_s: f64, cpu_s: f64) -> Self {
        Self { stretch_s: (run_s / MOST).ceil().max(1.0), moments: Vec::new(), open: None, cpu_s }
    }

    /// Takes the next second; `cpu_s` as before.
    pub(crate) fn take(&mut self, interval: &Interval<'_>, cpu_s: f64) {
        let used = (cpu_s - self.cpu_s).max(0.0);
        self.cpu_s = cpu_s;
        // Steps are not mixed.
        if self.open.as_ref().is_some_and(|open| open.moment.step != interval.step.0) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open {
            moment: Moment { step: interval.step.0, ..Moment::default() },
            latency: empty_histogram(),
            cpu_s: 0.0,
        });
        let moment = &mut open.moment;
        moment.at_s = interval.at_s;
        moment.length_s += interval.length_s;
        moment.rate_wanted = interval.rate_wanted;
        moment.requests += interval.requests;
        moment.failed += interval.failed;
        moment.errors += interval.errors.sum();
        moment.received += interval.received;
        open.cpu_s += used;
        // All have the same bounds, so nothing can be out of range.
        let added = open.latency.add(interval.latency);
        debug_assert!(added.is_ok(), "one range for all");
        // A little less, so that no stretch takes one second too many.
        if moment.length_s >= self.stretch_s - 0.01 {
            self.close();
        }
    }

    fn close(&mut self) {
        let Some(Open { mut moment, latency, cpu_s }) = self.open.take() else { return };
        if !latency.is_empty() {
            let at = |percentile| Some(latency.value_at_percentile(percentile) as f64 / 1e3);
            (moment.p50_us, moment.p99_us) = (at(50.0), at(99.0));
            moment.max_us = Some(latency.max() as f64 / 1e3);
        }
        moment.cpus = cpu_s / moment.length_s.max(1e-9);
        self.moments.push(moment);
    }

    /// What there is.
    pub(crate) fn finish(mut self) -> Vec<Moment> {
        self.close();
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Connections, Errors, Status};

    fn second(at_s: f64, step: Option<usize>, latency: &Histogram<u64>) -> Interval<'_> {
        Interval {
            at_s,
            length_s: 1.0,
            run_s: 10.0,
            step: (step, 2),
            rate_wanted: None,
            requests: 10,
            done: 0,
            wanted: None,
            failed: 1,
            errors: Errors { read: 2, ..Errors::default() },
            status: Status::default(),
            connections: Connections::default(),
            received: 100,
            sent: 0,
            latency,
            uncorrected: None,
        }
    }

    #[test]
    fn seconds_are_told_one_by_one_and_of_long_runs_together() {
        let mut latency = empty_histogram();
        latency.saturating_record(2_000_000);
        let mut short = Timeline::new(10.0, 1.0);
        (1..=3).for_each(|n| short.take(&second(f64::from(n), Some(0), &latency), 1.0 + f64::from(n) * 0.5));
        let moments = short.finish();
        assert_eq!(moments.len(), 3);
        assert_eq!((moments[2].at_s, moments[2].errors, moments[2].failed), (3.0, 2, 1));
        assert!((moments[1].cpus - 0.5).abs() < 1e-9 && moments[0].p99_us.is_some_and(|us| us > 1990.0));
        // Two hours: two seconds each; a step that begins is not mixed with the one before.
        let mut long = Timeline::new(7200.0, 0.0);
        for (n, step) in [(1, Some(0)), (2, Some(0)), (3, Some(0)), (4, Some(1)), (5, Some(1))] {
            long.take(&second(f64::from(n), step, &latency), 0.0);
        }
        let told: Vec<_> = long.finish().iter().map(|m| (m.at_s, m.length_s, m.step)).collect();
        assert_eq!(told, [(2.0, 2.0, Some(0)), (3.0, 1.0, Some(0)), (5.0, 2.0, Some(1))]);
    }
}
