//! Single-writer numbers.
//!
//! Owns: one atomic each.
//! Never: written by two threads; a second writer would lose counts, nothing worse.
//! Driven by: the worker that owns it.
//! Why: relaxed load and store compile to plain moves; readers see every value whole.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`; wraps at 2⁶⁴.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Raises it to `value` if that is more: for "the most seen".
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.value() {
            self.0.store(value, Relaxed);
        }
    }

    /// Sets it: for "the last seen".
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// A number that goes up and down, and the most it was.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    peak: Counter,
}

impl Gauge {
    /// One more.
    #[inline]
    pub fn enter(&self) {
        let now = self.now.load(Relaxed) + 1;
        self.now.store(now, Relaxed);
        self.peak.raise(now);
    }

    /// One less; stays at zero.
    #[inline]
    pub fn leave(&self) {
        self.now.store(self.now.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Its value.
    pub fn value(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// The most it was.
    pub fn peak(&self) -> u64 {
        self.peak.value()
    }

    /// The most it was is what it is now.
    pub(super) fn clear_peak(&self) {
        self.peak.set(self.now.load(Relaxed));
    }

    /// Back to zero, for a worker that was restarted and holds nothing yet. The peak stays.
    pub fn clear(&self) {
        self.now.store(0, Relaxed);
    }
}

/// Events a second, over a window that slides with the clock.
#[derive(Debug, Default)]
pub struct Rate {
    second: AtomicU64,
    current: AtomicU64,
    previous: AtomicU64,
    peak: Counter,
}

impl Rate {
    /// Counts one event in the second `second` of any clock.
    #[inline]
    pub fn tick(&self, second: u64) {
        let held = self.second.load(Relaxed);
        let current = self.current.load(Relaxed);
        if held == second {
            self.current.store(current + 1, Relaxed);
            self.peak.raise(current + 1);
            return;
        }
        self.previous.store(if held + 1 == second { current } else { 0 }, Relaxed);
        self.current.store(1, Relaxed);
        self.second.store(second, Relaxed);
        self.peak.raise(1);
    }

    /// Events in the last second, at `now_ms` of the same clock: this second's, and of the last one's the share that
    /// still lies within a second.
    pub fn read(&self, now_ms: u64) -> u64 {
        let (second, within) = (now_ms / 1000, now_ms % 1000);
        let held = self.second.load(Relaxed);
        let current = self.current.load(Relaxed);
        if held >= second {
            current + self.previous.load(Relaxed) * (1000 - within) / 1000
        } else if held + 1 == second {
            current * (1000 - within) / 1000
        } else {
            0
        }
    }

    /// The most in any one second.
    pub fn peak(&self) -> u64 {
        self.peak.value()
    }

    /// Forgets the most.
    pub(super) fn clear_peak(&self) {
        self.peak.set(0);
    }
}

/// The average over about the last 1,024 values, as HAProxy keeps its times, and the most seen.
#[derive(Debug, Default)]
pub struct Average {
    /// The average times [`WINDOW`].
    sum: AtomicU64,
    count: Counter,
    peak: Counter,
}

const WINDOW: u64 = 1024;

impl Average {
    /// Adds a value.
    pub fn add(&self, value: u64) {
        let sum = self.sum.load(Relaxed);
        let count = self.count.value();
        // Until the window is full it is the plain sum, scaled when read.
        let fade = if count < WINDOW { 0 } else { sum.div_ceil(WINDOW) };
        self.sum.store((sum - fade).saturating_add(value), Relaxed);
        self.count.bump();
        self.peak.raise(value);
    }

    /// The average, and how many values it stands for (at most the window).
    pub fn read(&self) -> (f64, u64) {
        let filled = self.count.value().min(WINDOW);
        let average = if filled == 0 { 0.0 } else { self.sum.load(Relaxed) as f64 / filled as f64 };
        (average, filled)
    }

    /// The most seen.
    pub fn peak(&self) -> u64 {
        self.peak.value()
    }

    /// Forgets the most; with `all`, every value.
    pub(super) fn clear(&self, all: bool) {
        self.peak.set(0);
        if all {
            self.sum.store(0, Relaxed);
            self.count.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_keep_their_peak() {
        let gauge = Gauge::default();
        gauge.enter();
        gauge.enter();
        gauge.leave();
        assert_eq!((gauge.value(), gauge.peak()), (1, 2));
        gauge.clear();
        gauge.leave();
        assert_eq!((gauge.value(), gauge.peak()), (0, 2));
    }

    #[test]
    fn rates_slide() {
        let rate = Rate::default();
        for _ in 0..10 {
            rate.tick(100);
        }
        assert_eq!(rate.read(100_500), 10);
        assert_eq!(rate.read(101_500), 5);
        assert_eq!(rate.read(102_000), 0);
        rate.tick(101);
        assert_eq!(rate.read(101_250), 1 + 7);
        assert_eq!(rate.peak(), 10);
        rate.tick(500);
        assert_eq!(rate.read(500_000), 1);
    }

    #[test]
    fn averages_follow_the_last_thousand() {
        let average = Average::default();
        assert_eq!(average.read(), (0.0, 0));
        average.add(10);
        average.add(20);
        assert_eq!(average.read(), (15.0, 2));
        for _ in 0..20_000 {
            average.add(100);
        }
        let (value, filled) = average.read();
        assert!((99.0..=101.0).contains(&value) && filled == 1024, "{value}");
        assert_eq!(average.peak(), 100);
    }
}
