//! The line on a terminal while a run goes on.
//!
//! Owns: that line. Never: writes where no terminal is: output that is piped stays as it is.
//! Driven by: `run`, through [`Watch`], once a second.

use std::io::{IsTerminal, Write};

use crate::run::{Interval, Watch};
use crate::units::{metric, micros};

/// Draws on standard error, if that is a terminal.
pub struct Live {
    shown: bool,
    on: bool,
    errors: u64,
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Live {
    /// A line, not drawn yet.
    #[must_use]
    pub fn new() -> Self {
        Self { shown: false, on: std::io::stderr().is_terminal(), errors: 0 }
    }

    /// Takes the line away, before other things are printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }

    /// Draws a line in place of the last one.
    pub fn draw(&mut self, line: &str) {
        if self.on {
            self.shown = true;
            eprint!("\r{line}\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }

    fn line(&mut self, interval: &Interval<'_>) -> String {
        self.errors += interval.errors + interval.bad_status;
        let part = (interval.at_s / interval.run_s.max(1e-9)).clamp(0.0, 1.0);
        let full = (part * 20.0).round() as usize;
        let at = |percentile| micros(interval.latency.value_at_percentile(percentile) as f64 / 1e3);
        let step = match interval.step {
            (None, _) => "  warm-up".to_owned(),
            (Some(step), steps) if steps > 1 => format!("  step {}/{steps}", step + 1),
            _ => String::new(),
        };
        let wanted = interval.rate_wanted.map_or(String::new(), |rate| format!(" of {}", metric(rate)));
        format!(
            "[{}{}] {:.0}s/{:.0}s{step}  {}{wanted} req/s  p50 {}  p99 {}  {:.2} Gbit/s  errors {}",
            "#".repeat(full),
            ".".repeat(20 - full),
            interval.at_s,
            interval.run_s,
            metric(interval.requests as f64 / interval.length_s.max(1e-9)),
            at(50.0),
            at(99.0),
            interval.received as f64 * 8.0 / 1e9 / interval.length_s.max(1e-9),
            self.errors
        )
    }
}

impl Watch for Live {
    fn interval(&mut self, interval: &Interval<'_>) {
        let line = self.line(interval);
        self.draw(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::empty_histogram;

    #[test]
    fn it_tells_how_far_how_fast_and_how_well() {
        let mut latency = empty_histogram();
        latency.saturating_record(2_000_000);
        let interval = Interval {
            at_s: 5.0,
            length_s: 1.0,
            run_s: 10.0,
            step: (Some(0), 1),
            rate_wanted: Some(2000.0),
            requests: 1990,
            bad_status: 2,
            errors: 1,
            received: 125_000_000,
            latency: &latency,
            uncorrected: None,
        };
        let line = Live { shown: false, on: false, errors: 4 }.line(&interval);
        assert_eq!(
            line,
            "[##########..........] 5s/10s  1.99k of 2.00k req/s  p50 2.00ms  p99 2.00ms  1.00 Gbit/s  errors 7"
        );
    }
}
