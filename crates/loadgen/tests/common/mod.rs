//! What suites of runs share.
//!
//! Owns: the options that a run of a test begins with.
//! Driven by: the suites, which add what each is about.

use std::time::Duration;

use weir_loadgen::{IoChoice, Options, Rate};
use weir_testkit::Io;

/// A run of so long by this driver.
pub(crate) fn options(io: Io, url: impl std::fmt::Display, duration: Duration) -> Options {
    Options {
        urls: vec![url.to_string()],
        threads: 1,
        connections: 4,
        duration,
        io: match io.possible() {
            Io::Epoll => IoChoice::Epoll,
            Io::Uring => IoChoice::Uring,
            Io::Auto => IoChoice::Auto,
        },
        ..Options::default()
    }
}

pub(crate) fn at_rate(rate: f64) -> Vec<Rate> {
    vec![Rate { from: rate, to: rate }]
}
