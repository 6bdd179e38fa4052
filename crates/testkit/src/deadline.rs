//! The bound on every wait of a test.
//!
//! Owns: the default patience, and waiting for a condition that nothing signals.
//! Never: sleeps where something could be waited for.
//! Driven by: every module that reads, connects or waits.
//! Why: a test that hangs tells nothing; one that runs into its deadline says what it waited for.

use std::time::{Duration, Instant};

/// How long one step may take before the test fails; `WEIR_TEST_DEADLINE` (seconds) overrides the 30 s, for slow machines.
#[must_use]
pub fn patience() -> Duration {
    let seconds = std::env::var("WEIR_TEST_DEADLINE").ok().and_then(|v| v.parse().ok()).unwrap_or(30.0);
    Duration::from_secs_f64(seconds)
}

/// A point in time after which a wait has failed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline one [`patience`] from now.
    #[must_use]
    pub fn standard() -> Self {
        Self::after(patience())
    }

    /// A deadline `wait` from now.
    #[must_use]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// What is left, or `None` once it has passed. Never zero, which socket timeouts would take for "for ever".
    #[must_use]
    pub fn left(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// True once no time is left.
    #[must_use]
    pub fn passed(self) -> bool {
        self.left().is_none()
    }

    /// A nap of 2 ms, for conditions that can only be looked at (a line in /proc, a file on disk). False once the deadline passed.
    #[must_use]
    pub fn look_again(self) -> bool {
        if self.passed() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
        true
    }
}

/// Looks at `condition` until it yields a value, and fails the test with `what` at the deadline.
///
/// For what nothing signals: a counter on a page, a file on disk. Where there is a signal, wait for the signal.
///
/// # Panics
/// When the deadline passes first.
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Deadline::standard();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(deadline.look_again(), "waited {:?} in vain: {what}", patience());
    }
}
