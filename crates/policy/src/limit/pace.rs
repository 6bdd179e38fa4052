//! A bound on events a second: HAProxy's `rate-limit sessions`, `maxconnrate` and their kin.
//!
//! Owns: one estimate of a rate, over a second that slides, and its bound.
//! Never: refuses or waits; it says how long to wait before the next event.
//! Driven by: accept loops on every worker, and only where there is a bound.
//! Why: the estimate is HAProxy's: what the second before counted fades as this one goes on, so that a burst at the
//! turn of a second is not let through twice.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use crate::time::Millis;

/// A second.
const PERIOD: u64 = 1000;

/// A bound on events a second.
#[derive(Debug, Default)]
pub struct Pace {
    /// Zero: none.
    most: AtomicU32,
    window: Mutex<Window>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When it began, in milliseconds.
    began: u64,
    /// Events since then, and in the second before.
    now: u32,
    before: u32,
}

impl Pace {
    /// A pace of at most `most` events a second; zero is unbounded.
    pub fn new(most: u32) -> Self {
        Self { most: AtomicU32::new(most), window: Mutex::default() }
    }

    /// The bound; zero is none.
    pub fn most(&self) -> u32 {
        self.most.load(Relaxed)
    }

    /// Changes the bound. Events that were counted stay so.
    pub fn set_most(&self, most: u32) {
        self.most.store(most, Relaxed);
    }

    /// Counts an event, if there is a bound.
    pub fn count(&self, now: Millis) {
        if self.most() > 0 {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            window.turn(now);
            window.now = window.now.saturating_add(1);
        }
    }

    /// Milliseconds after which the next event may come; `None`: at once.
    pub fn wait(&self, now: Millis) -> Option<u64> {
        let most = self.most();
        if most == 0 {
            return None;
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.turn(now);
        (window.rate(now) >= u64::from(most)).then(|| (PERIOD / u64::from(most)).clamp(1, PERIOD))
    }
}

impl Window {
    fn turn(&mut self, now: Millis) {
        let passed = now.0.saturating_sub(self.began);
        if passed >= 2 * PERIOD {
            *self = Self { began: now.0, now: 0, before: 0 };
        } else if passed >= PERIOD {
            *self = Self { began: self.began + PERIOD, now: 0, before: self.now };
        }
    }

    fn rate(&self, now: Millis) -> u64 {
        let left = PERIOD.saturating_sub(now.0.saturating_sub(self.began));
        u64::from(self.now) + u64::from(self.before) * left / PERIOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets through what may come, a millisecond at a time, for so many seconds.
    fn let_through(pace: &Pace, seconds: u64, offered_a_milli: u32) -> u32 {
        let mut passed = 0;
        for at in 5_000..5_000 + seconds * PERIOD {
            for _ in 0..offered_a_milli {
                if pace.wait(Millis(at)).is_none() {
                    pace.count(Millis(at));
                    passed += 1;
                }
            }
        }
        passed
    }

    #[test]
    fn a_flood_comes_at_the_pace_and_no_bound_is_none() {
        assert!((90..=110).contains(&let_through(&Pace::new(10), 10, 3)));
        assert!((9_000..=11_000).contains(&let_through(&Pace::new(1000), 10, 20)));
        assert_eq!(let_through(&Pace::new(0), 2, 3), 6_000);
    }

    #[test]
    fn a_burst_at_the_turn_of_a_second_is_not_let_through_twice() {
        let pace = Pace::new(10);
        (0..10).for_each(|_| pace.count(Millis(5_990)));
        assert!(pace.wait(Millis(5_995)).is_some() && pace.wait(Millis(6_100)).is_some());
        assert!(pace.wait(Millis(8_100)).is_none());
    }

    #[test]
    fn a_bound_that_is_given_later_holds_at_once() {
        let pace = Pace::new(0);
        pace.set_most(1);
        assert_eq!(pace.wait(Millis(9_000)), None);
        pace.count(Millis(9_000));
        assert_eq!(pace.wait(Millis(9_000)), Some(PERIOD));
    }
}
