//! The clock of one worker, read once per wake-up.
//!
//! Owns: the cached monotonic and wall-clock time.
//! Never: reads a clock when asked for the time.
//! Driven by: the runtime's loop, after each wait.
//! Why: a request asks for the time several times (timeouts, logs, Date); the age of the cached value is bounded by
//! one round of the loop.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) struct Clock {
    base: Instant,
    now: Cell<Instant>,
    /// `now` as nanoseconds since `base`.
    nanos: Cell<u64>,
    /// `now` as time since 1970. The wall clock is read again after a second, so that its steps are followed.
    unix: Cell<Duration>,
    /// When the wall clock was read, and what it said.
    synced: Cell<(Instant, Duration)>,
}

fn wall_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole nanoseconds of a duration; saturates after five hundred years.
pub(crate) fn nanos_of(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (now, wall) = (Instant::now(), wall_now());
        Self {
            base: now,
            now: Cell::new(now),
            nanos: Cell::new(0),
            unix: Cell::new(wall),
            synced: Cell::new((now, wall)),
        }
    }

    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        self.now.set(now);
        self.nanos.set(self.nanos(now));
        let (synced, wall) = self.synced.get();
        let since = now - synced;
        if since < Duration::from_secs(1) {
            self.unix.set(wall + since);
        } else {
            let wall = wall_now();
            self.synced.set((now, wall));
            self.unix.set(wall);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Time since 1970-01-01 UTC.
    pub(crate) fn unix(&self) -> Duration {
        self.unix.get()
    }

    /// Nanoseconds since this clock was made.
    pub(crate) fn now_nanos(&self) -> u64 {
        self.nanos.get()
    }

    /// The same of any instant; saturates for those before.
    pub(crate) fn nanos(&self, at: Instant) -> u64 {
        nanos_of(at.saturating_duration_since(self.base))
    }
}
