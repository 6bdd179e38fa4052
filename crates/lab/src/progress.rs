//! How far a run is: a bar with the time that is left.
//!
//! Owns: one line on a terminal's standard error; a line a point where that is none.
//! Never: prints what programs read.
//! Driven by: `run`.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// The bar's width.
const WIDTH: usize = 30;

/// The bar.
pub(crate) struct Progress {
    terminal: bool,
    begun: Instant,
    total: f64,
    done: f64,
    what: String,
}

impl Progress {
    /// Of work that takes about `total` seconds.
    pub(crate) fn new(total: f64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, begun: Instant::now(), total, done: 0.0, what: String::new() }
    }

    /// What is being done.
    pub(crate) fn at(&mut self, what: &str) {
        what.clone_into(&mut self.what);
        if self.terminal {
            self.draw();
        } else {
            eprintln!("{what} ({:.0}%)", self.share() * 100.0);
        }
    }

    /// One run is done, which takes about `seconds`.
    pub(crate) fn done(&mut self, seconds: f64) {
        self.done += seconds;
        if self.terminal {
            self.draw();
        }
    }

    /// Takes the bar away, so that something can be said.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn share(&self) -> f64 {
        if self.total > 0.0 { (self.done / self.total).min(1.0) } else { 1.0 }
    }

    fn draw(&self) {
        // What is left at the pace so far, once there is one.
        let left = if self.done > 0.0 {
            self.begun.elapsed().as_secs_f64() / self.done * (self.total - self.done)
        } else {
            self.total
        };
        let full = (self.share() * WIDTH as f64) as usize;
        let bar = format!("{}{}", "=".repeat(full), " ".repeat(WIDTH - full));
        eprint!("\r\x1b[K[{bar}] {} left  {}", time(left), self.what);
        let _ = std::io::stderr().flush();
    }
}

/// A time for people: `45 s`, `12 min`, `3 h 5 min`.
#[must_use]
pub fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        assert_eq!([time(45.2), time(700.0), time(11_100.0)], ["45 s", "12 min", "3 h 5 min"]);
    }
}
