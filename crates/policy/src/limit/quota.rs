//! A total that the process keeps exactly, with a bound to look at: `maxconn`.
//!
//! Owns: one counter and its bound.
//! Never: refuses; who asks whether it is full decides whether to wait, pause or shed.
//! Driven by: accept loops and connections on every worker.
//! Why: one locked instruction a connection is cheap beside `accept`, and no lease of counts can ever be unfair.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// A bounded total.
#[derive(Debug)]
pub struct Quota {
    used: AtomicU64,
    peak: AtomicU64,
    most: AtomicU64,
}

impl Quota {
    /// A total of at most `most`; zero is unbounded.
    pub fn new(most: u64) -> Self {
        Self { used: AtomicU64::new(0), peak: AtomicU64::new(0), most: AtomicU64::new(most) }
    }

    /// Counts one in, whatever the bound.
    pub fn enter(&self) {
        let before = self.used.fetch_add(1, AcqRel);
        self.peak.fetch_max(before + 1, Relaxed);
    }

    /// Counts one out that was counted in.
    pub fn leave(&self) {
        self.used.fetch_sub(1, AcqRel);
    }

    /// What is taken.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The most that was ever taken at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// The most is what is taken now.
    pub fn clear_peak(&self) {
        self.peak.store(self.used(), Relaxed);
    }

    /// The bound; zero is none.
    pub fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// Changes the bound. What is taken beyond a lower one stays until given back.
    pub fn set_most(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// True if nothing more fits.
    pub fn full(&self) -> bool {
        let most = self.most();
        most > 0 && self.used() >= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let quota = Quota::new(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        quota.enter();
                        assert!((1..=4).contains(&quota.used()) && !quota.full());
                        quota.leave();
                    }
                });
            }
        });
        assert_eq!(quota.used(), 0);
        assert!((1..=4).contains(&quota.peak()));
    }

    #[test]
    fn a_lower_bound_waits_for_what_is_in() {
        let quota = Quota::new(2);
        quota.enter();
        assert!(!quota.full());
        quota.enter();
        assert!(quota.full());
        quota.set_most(1);
        quota.leave();
        assert!(quota.full());
        quota.leave();
        assert!(!quota.full());
        quota.set_most(0);
        quota.enter();
        assert!(!quota.full(), "zero is no bound");
    }
}
