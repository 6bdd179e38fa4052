//! What may begin in a second in the whole process.
//!
//! Owns: the bounds and what was counted against them, one value for all workers.
//! Never: makes anybody wait: `limits` says how long.
//! Driven by: `limits`, for the accept loops.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_expr::settings::Paces;
use weir_policy::limit::Pace;

/// What may begin in a second in the whole process.
#[derive(Debug, Default)]
pub(crate) struct ProcessPaces {
    pub(super) connections: Pace,
    pub(super) sessions: Pace,
    pub(super) tls: Pace,
    /// There is a bound, here or of a site.
    pub(super) any: AtomicBool,
}

impl ProcessPaces {
    /// Takes the bounds of a plan; `of_sites`: a site has one.
    pub(crate) fn set(&self, paces: &Paces, of_sites: bool) {
        self.connections.set_most(paces.connections);
        self.sessions.set_most(paces.sessions);
        self.tls.set_most(paces.tls);
        self.any.store(of_sites || !paces.are_none(), Ordering::Relaxed);
    }
}
