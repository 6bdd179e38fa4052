//! The right to use an endpoint for one attempt.
//!
//! Owns: one slot of its endpoint's in-flight count.
//! Never: outlives its attempt; never needs the pool, which a reload may replace meanwhile.
//! Driven by: the exchange: `succeed` or `fail` at the end, or a plain drop if the client went away.
//! Why: a guard gives the slot back on every path, a caught panic and a cancelled future included.

use std::sync::Arc;
use std::time::Duration;

use weir_control::EndpointKey;

use super::EndpointIndex;
use super::config::{Measured, Times};
use super::queue::SlotQueue;
use super::shared::EndpointLoad;
use crate::time::Millis;

/// What the end of an attempt changed in the endpoint's standing, for the error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turnover {
    /// Nothing.
    Unchanged,
    /// This failure made it unavailable for its `fail_timeout`.
    Disabled,
    /// This success, a probe, made it available again.
    Restored,
}

/// An endpoint in use. Dropped without a word, it gives its slot back and says nothing about the endpoint.
#[derive(Debug)]
pub struct Lease {
    pub(super) index: EndpointIndex,
    pub(super) key: EndpointKey,
    pub(super) load: Arc<EndpointLoad>,
    pub(super) weight: u32,
    pub(super) max_fails: u32,
    pub(super) lone: bool,
    /// Those who may be waiting for the slot; endpoints without bound have none.
    pub(super) queue: Option<Arc<SlotQueue>>,
    /// What of the answer is measured.
    pub(super) times: Option<Times>,
    /// Times are remembered by their peaks, and forgotten over so long.
    pub(super) decay: Option<Duration>,
    pub(super) began: Millis,
}

impl Lease {
    /// The endpoint's index in the pool that chose it, for use at once: it means another as soon as endpoints are replaced.
    pub fn index(&self) -> EndpointIndex {
        self.index
    }

    /// The endpoint's stable name.
    pub fn key(&self) -> EndpointKey {
        self.key
    }

    /// What of the answer is measured.
    pub fn measures(&self) -> Option<Measured> {
        self.times.map(|times| times.of)
    }

    /// Takes a time that was measured.
    pub fn measured(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match self.decay {
            None => self.load.measure(micros),
            Some(decay) => self.load.measure_peak(micros, self.began.plus(took), decay),
        }
    }

    /// The endpoint answered as it should.
    pub fn succeed(self) -> Turnover {
        if !self.lone && self.load.succeed(self.max_fails) { Turnover::Restored } else { Turnover::Unchanged }
    }

    /// The attempt failed in a way that counts (see `retry::Failure::counts`). The only endpoint of a pool is never
    /// held to it.
    pub fn fail(self, now: Millis) -> Turnover {
        let disabled = !self.lone && self.load.fail(self.weight, self.max_fails, now);
        if disabled { Turnover::Disabled } else { Turnover::Unchanged }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.times.is_some_and(|times| times.in_flight) {
            self.load.count_began(self.began, false);
        }
        self.load.leave();
        if let Some(queue) = &self.queue {
            queue.slot_freed(self.key);
        }
    }
}
