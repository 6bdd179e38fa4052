//! The clock of one worker, read once per wake-up.
//!
//! Owns: [`Instant`], and the cached monotonic and wall-clock time.
//! Never: reads a clock when asked for the time, in a runtime.
//! Driven by: the runtime's loop, after each wait.
//! Why: a request asks for the time several times (timeouts, logs, Date); the age of the cached value is bounded by
//! one round of the loop. Why an `Instant` of our own: the standard one holds seconds and nanoseconds apart, so that each
//! difference is a comparison, a borrow and a check; a request takes a dozen of them. Here it is one subtraction.

use std::cell::Cell;
use std::ops::{Add, AddAssign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A moment of the monotonic clock, which all threads share. Differences saturate at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Reads the clock. In the data plane [`crate::now`] is what to ask: it costs no call.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        // The monotonic clock begins at zero with the machine: it is never negative.
        Self((time.tv_sec as u64).saturating_mul(NANOS).saturating_add(time.tv_nsec as u64))
    }

    /// Time from `earlier` to this moment; zero if that lies behind it.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time from this moment to now.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// The moment that lies `time` before; `None` if the clock had not begun.
    #[must_use]
    pub fn checked_sub(self, time: Duration) -> Option<Self> {
        self.0.checked_sub(nanos_of(time)).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(time)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl std::ops::Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

thread_local! {
    /// What the clock of the runtime that this thread is in says, by both clocks.
    static SHOWN: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// The time of the wake-up of the runtime that this thread is in, by both clocks; `None` outside of any.
#[inline]
pub(crate) fn shown() -> Option<(Instant, Duration)> {
    SHOWN.get()
}

/// The thread is in no runtime.
pub(crate) fn hide() {
    SHOWN.set(None);
}

pub(crate) struct Clock {
    base: Instant,
    now: Cell<Instant>,
    /// `now` as time since 1970. The wall clock is read again after a second, so that its steps are followed.
    unix: Cell<Duration>,
    /// When the wall clock was read, and what it said.
    synced: Cell<(Instant, Duration)>,
}

const NANOS: u64 = 1_000_000_000;

pub(crate) fn wall_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole nanoseconds of a duration; saturates after five hundred years.
#[inline]
pub(crate) const fn nanos_of(time: Duration) -> u64 {
    time.as_secs().saturating_mul(NANOS).saturating_add(time.subsec_nanos() as u64)
}

impl Clock {
    pub(crate) fn new() -> Self {
        let (now, wall) = (Instant::now(), wall_now());
        Self { base: now, now: Cell::new(now), unix: Cell::new(wall), synced: Cell::new((now, wall)) }
    }

    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        self.now.set(now);
        let (synced, wall) = self.synced.get();
        let since = now - synced;
        if since < Duration::from_secs(1) {
            self.unix.set(wall + since);
        } else {
            let wall = wall_now();
            self.synced.set((now, wall));
            self.unix.set(wall);
        }
        self.show();
    }

    /// Has [`shown`] say what this clock says.
    pub(crate) fn show(&self) {
        SHOWN.set(Some((self.now.get(), self.unix.get())));
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Nanoseconds since this clock was made.
    #[inline]
    pub(crate) fn now_nanos(&self) -> u64 {
        self.nanos(self.now.get())
    }

    /// The same of any instant; zero for those before.
    #[inline]
    pub(crate) fn nanos(&self, at: Instant) -> u64 {
        at.0.saturating_sub(self.base.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_add_up_and_never_turn_negative() {
        let now = Instant::now();
        let later = now + Duration::from_micros(1_500_000);
        assert_eq!(later - now, Duration::from_millis(1500));
        assert_eq!(now.saturating_duration_since(later), Duration::ZERO);
        assert_eq!(later.checked_sub(Duration::from_millis(1500)), Some(now));
        assert!(now + Duration::MAX > later && now.checked_sub(Duration::MAX).is_none());
        assert!(Instant::now() >= now);
    }

    #[test]
    fn it_goes_with_the_standard_clock() {
        let (ours, theirs) = (Instant::now(), std::time::Instant::now());
        while theirs.elapsed() < Duration::from_millis(2) {}
        assert!(ours.elapsed() >= Duration::from_millis(2));
    }
}
