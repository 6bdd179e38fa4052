//! Time as policy sees it: milliseconds that somebody else counted.
//!
//! Owns: `Millis` and its arithmetic.
//! Never: asks what time it is.
//! Driven by: the engine's cached clock, read once a wake-up.
//! Why: an integer fits an atomic, so process-wide state needs no lock; tests set it at will.

use std::time::Duration;

/// Milliseconds on one monotonic clock of the process, from an origin that the caller chooses.
///
/// The origin must not be later than the first use; zero means "never" in state that starts empty, so a clock should
/// start at one or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Time gone by since `earlier`; zero if the clock stepped back.
    pub const fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `after` later. Saturates, so "never" stays never.
    pub fn plus(self, after: Duration) -> Millis {
        Millis(self.0.saturating_add(millis(after)))
    }
}

/// A duration in whole milliseconds, saturating.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
