//! A gate that a test opens and a scripted peer waits at.
//!
//! Owns: one flag and those who wait for it.
//! Never: opens by itself.
//! Driven by: tests; `Script::wait_for` waits.
//! Why: "answer only once the reload is done" is an order of events, and a sleep would only guess at it.

use crate::deadline::Deadline;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Closed at first; clones share the one gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everyone through, for good.
    pub fn open(&self) {
        let (open, waiting) = &*self.0;
        *open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        waiting.notify_all();
    }

    /// Waits until the gate is open; false when the deadline passes first.
    #[must_use]
    pub fn pass(&self, deadline: Deadline) -> bool {
        let (open, waiting) = &*self.0;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            let Some(left) = deadline.left() else { return false };
            (open, _) = waiting.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}
