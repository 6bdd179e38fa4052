//! Cells of one worker for what has a few kinds of outcome: limits, caches.
//!
//! Owns: a count for each outcome, by its place in a list of the caller's.
//! Never: knows what the outcomes are.

use super::cell::Counter;

/// The most outcomes.
pub const EVENTS: usize = 20;

/// One worker's counts of something.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct EventCells([Counter; EVENTS]);

impl EventCells {
    /// Adds to the count of an outcome. One that has no place is not counted.
    pub fn add(&self, outcome: usize, amount: u64) {
        if let Some(cell) = self.0.get(outcome) {
            cell.add(amount);
        }
    }

    pub(super) fn add_to(&self, sum: &mut [u64; EVENTS]) {
        for (sum, cell) in sum.iter_mut().zip(&self.0) {
            *sum += cell.value();
        }
    }
}
