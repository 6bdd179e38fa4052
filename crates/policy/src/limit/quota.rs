//! A total that the process keeps exactly: `maxconn`, `worker_connections`, byte budgets.
//!
//! Owns: one counter and its bound.
//! Never: queues the refused; the caller decides whether to wait, pause or shed.
//! Driven by: accept loops and exchanges on every worker.
//! Why: one locked instruction a connection is cheap beside `accept`, and no lease of counts can ever be unfair.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// A bounded total.
#[derive(Debug)]
pub struct Quota {
    used: AtomicU64,
    peak: AtomicU64,
    most: AtomicU64,
}

/// A share of a quota; dropping it gives it back.
#[derive(Debug)]
pub struct QuotaGuard {
    quota: Arc<Quota>,
    amount: u64,
}

impl Quota {
    /// A total of at most `most`; zero is unbounded.
    pub fn new(most: u64) -> Self {
        Self { used: AtomicU64::new(0), peak: AtomicU64::new(0), most: AtomicU64::new(most) }
    }

    /// Takes `amount`, or nothing if the total would pass its bound.
    pub fn enter(self: &Arc<Self>, amount: u64) -> Option<QuotaGuard> {
        let most = self.most();
        let fits = |used: u64| used.checked_add(amount).filter(|&sum| most == 0 || sum <= most);
        let before = self.used.fetch_update(AcqRel, Relaxed, fits).ok()?;
        self.peak.fetch_max(before + amount, Relaxed);
        Some(QuotaGuard { quota: Arc::clone(self), amount })
    }

    /// What is taken.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The most that was ever taken at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
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

impl Drop for QuotaGuard {
    fn drop(&mut self) {
        self.quota.used.fetch_sub(self.amount, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_above_its_bound() {
        let quota = Arc::new(Quota::new(8));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for amount in (1..5).cycle().take(10_000) {
                        let _guard = quota.enter(amount);
                        assert!(quota.used() <= 8);
                    }
                });
            }
        });
        assert_eq!(quota.used(), 0);
        assert!(quota.peak() <= 8);
    }

    #[test]
    fn a_lower_bound_waits_for_what_is_out() {
        let quota = Arc::new(Quota::new(2));
        let (a, _b) = (quota.enter(1), quota.enter(1));
        quota.set_most(1);
        assert!(quota.full() && quota.enter(1).is_none());
        drop(a);
        assert!(quota.enter(1).is_none());
        quota.set_most(0);
        assert!(quota.enter(100).is_some() && !quota.full());
    }
}
