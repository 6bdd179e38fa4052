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
    /// Wall-clock time at `synced`; the wall clock is read again a second later, so that steps are followed.
    wall: Cell<Duration>,
    synced: Cell<Instant>,
}

fn wall_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { base: now, now: Cell::new(now), wall: Cell::new(wall_now()), synced: Cell::new(now) }
    }

    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        self.now.set(now);
        if now - self.synced.get() >= Duration::from_secs(1) {
            self.synced.set(now);
            self.wall.set(wall_now());
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Time since 1970-01-01 UTC.
    pub(crate) fn unix(&self) -> Duration {
        self.wall.get() + (self.now.get() - self.synced.get())
    }

    /// Nanoseconds since this clock was made; saturates for instants before.
    pub(crate) fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(u64::MAX)
    }
}
