//! What an entrance says of its troubles.
//!
//! Owns: that it is said now and then, not for each connection or datagram; how long an entrance rests after an error.
//! Driven by: the loops that accept and read.

use std::cell::Cell;
use std::time::Duration;

use weir_rt::Instant;

use crate::worker::Worker;

/// Pause after an error of the socket, or between two looks at a limit.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Least time between two lines.
const QUIET: Duration = Duration::from_secs(10);

/// When something was said last.
#[derive(Default)]
pub(super) struct Complaints {
    said: Cell<Option<Instant>>,
}

impl Complaints {
    /// Says what is the matter, unless something was said a moment ago.
    pub(super) fn say(&self, worker: &Worker, what: impl FnOnce() -> String) {
        let now = worker.now();
        if self.said.get().is_none_or(|last| now.saturating_duration_since(last) >= QUIET) {
            self.said.set(Some(now));
            worker.shared.log_process_error(&what());
        }
    }
}
