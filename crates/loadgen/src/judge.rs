//! Whether the figures of a run can be trusted.
//!
//! Owns: the limits above which something is said.
//! Never: changes a figure.
//! Driven by: the end of a run, and the merging of agents' reports.

use crate::report::{Model, Report, Warning, WarningCode};
use crate::units::micros;

/// A worker thread that is busy for more than this share of its time.
const BUSY: f64 = 0.95;
/// In the open model a thread must not be this busy: it would have to be ready whenever a request is due.
const BUSY_OPEN: f64 = 0.85;
/// A rate is reached when this share of it is.
const REACHED: f64 = 0.98;
/// Mean lateness of what could have been sent on time, microseconds.
const LATE_US: f64 = 1000.0;
/// Share of CPU time taken by the host.
const STEAL: f64 = 0.01;
/// Share of time in which threads waited for a CPU.
const WAITED: f64 = 0.2;

/// What speaks against the figures of `report`.
#[must_use]
pub fn warnings(report: &Report) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut warn = |code, text: String| found.push(Warning { code, text });
    let (total, generator) = (&report.total, &report.generator);
    let open = report.settings.model == Model::Open;
    if total.requests == 0 {
        warn(WarningCode::NothingMeasured, "nothing was completed: there are no figures".into());
    }
    if report.interrupted {
        let steps = match report.settings.rates.len() {
            0 | 1 => String::new(),
            all => format!(" ({} of {all} steps)", report.steps.len()),
        };
        warn(
            WarningCode::Interrupted,
            format!("the run was stopped early: the figures are of {:.1}s{steps}", total.elapsed_s),
        );
    }
    if generator.busiest_thread > if open { BUSY_OPEN } else { BUSY } {
        warn(
            WarningCode::GeneratorSaturated,
            format!(
                "the generator was busy {:.0}% of the time: it may have been what limits; give it more threads or CPUs",
                generator.busiest_thread * 100.0
            ),
        );
    }
    let run_s = report.settings.threads as f64 * total.elapsed_s;
    if generator.run_delay_s > run_s * WAITED && run_s > 0.0 {
        warn(
            WarningCode::GeneratorSaturated,
            format!(
                "the generator's threads waited {:.0}% of their time for a CPU: other programs run on its CPUs",
                (generator.run_delay_s / run_s).min(1.0) * 100.0
            ),
        );
    }
    let each = if report.steps.is_empty() { std::slice::from_ref(total) } else { &report.steps[..] };
    for step in each {
        if let Some(wanted) = step.rate_wanted
            && step.rate < wanted * REACHED
            // One request more or less is no matter of rate.
            && wanted * step.elapsed_s - step.requests as f64 > 2.0
        {
            warn(
                WarningCode::RateNotReached,
                format!("{:.1} requests/s were wanted, {:.1} were reached", wanted, step.rate),
            );
        }
    }
    if open && generator.late_mean_us > LATE_US {
        warn(
            WarningCode::GeneratorLate,
            format!(
                "requests that could have been sent on time were sent {} late on average ({} at worst)",
                micros(generator.late_mean_us),
                micros(generator.late_max_us)
            ),
        );
    }
    if generator.steal > STEAL {
        warn(
            WarningCode::Steal,
            format!("the host took {:.1}% of this machine's CPU time (steal)", generator.steal * 100.0),
        );
    }
    if generator.throttled_s > 0.0 {
        warn(
            WarningCode::Throttled,
            format!("a control group's CPU limit stopped this process for {:.2}s", generator.throttled_s),
        );
    }
    // One unit a connection is under way at any moment; more than that, or an old one, was left out of the percentiles.
    let stuck = total.oldest_unfinished_us > report.settings.timeout_s * 1e6;
    if total.unsent > u64::from(report.settings.connections) || stuck {
        warn(
            WarningCode::Unfinished,
            format!(
                "{} requests were due and not answered when time was up, the oldest for {}; no percentile has them",
                total.unfinished + total.unsent,
                micros(total.oldest_unfinished_us)
            ),
        );
    }
    for agent in &report.agents {
        if let Some(failure) = &agent.failure {
            warn(WarningCode::AgentFailed, format!("{}: {failure}; its share is missing", agent.address));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Figures, Generator, Settings};

    fn codes(change: impl FnOnce(&mut Report)) -> Vec<WarningCode> {
        let mut report = Report {
            settings: Settings {
                model: Model::Open,
                threads: 1,
                connections: 10,
                timeout_s: 2.0,
                ..Settings::default()
            },
            total: Figures {
                requests: 1000,
                elapsed_s: 10.0,
                rate: 100.0,
                rate_wanted: Some(100.0),
                ..Figures::default()
            },
            generator: Generator { busiest_thread: 0.5, ..Generator::default() },
            ..Report::default()
        };
        change(&mut report);
        warnings(&report).iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn each_doubt_has_its_word() {
        use WarningCode as W;
        assert_eq!(codes(|_| {}), []);
        assert_eq!(codes(|r| r.generator.busiest_thread = 0.9), [W::GeneratorSaturated]);
        assert_eq!(
            codes(|r| {
                r.total.rate = 50.0;
                r.total.requests = 500;
            }),
            [W::RateNotReached]
        );
        assert_eq!(codes(|r| r.generator.late_mean_us = 5000.0), [W::GeneratorLate]);
        assert_eq!(codes(|r| r.generator.steal = 0.1), [W::Steal]);
        assert_eq!(codes(|r| r.generator.throttled_s = 0.1), [W::Throttled]);
        assert_eq!(codes(|r| r.total.oldest_unfinished_us = 3e6), [W::Unfinished]);
        assert_eq!(codes(|r| r.generator.run_delay_s = 5.0), [W::GeneratorSaturated]);
        assert_eq!(
            codes(|r| {
                r.settings.model = Model::Closed;
                r.generator.busiest_thread = 0.9
            }),
            []
        );
    }
}
