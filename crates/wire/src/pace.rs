//! How fast a peer has to take what is sent to it, at least.
//!
//! Owns: the count of waiting and of what was taken meanwhile.
//! Never: reads a clock: whoever waited says for how long.
//! Driven by: whoever sends a message, over HTTP/1 or on a stream of HTTP/2.
//! Why: only the time counts for which there was something that the peer did not take; what its origin was slow with is no
//! fault of the peer's.

use std::time::Duration;

use crate::SendError;

/// How fast a peer has to take what is sent to it, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastRate {
    /// Bytes a second; 0: there is no least rate.
    pub bytes_per_second: u64,
    /// Averaged over so much waiting.
    pub window: Duration,
}

/// How a peer takes one message.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    least: LeastRate,
    /// Waited in this window.
    waited: Duration,
    /// `sent` when the window began.
    from: u64,
}

impl Pace {
    /// For a message that begins when so many bytes were sent. `None`: there is no least rate.
    #[must_use]
    pub fn new(least: LeastRate, sent: u64) -> Option<Self> {
        (least.bytes_per_second > 0).then_some(Self { least, waited: Duration::ZERO, from: sent })
    }

    /// Counts a wait of the peer's making; `sent` is the count of bytes that it has taken in all, which may wrap.
    ///
    /// # Errors
    /// [`SendError::Timeout`]: it took less than it has to.
    pub fn count(&mut self, waited: Duration, sent: u64) -> Result<(), SendError> {
        self.waited += waited;
        if self.waited < self.least.window {
            return Ok(());
        }
        let due = u128::from(self.least.bytes_per_second) * self.waited.as_millis() / 1000;
        let taken = sent.wrapping_sub(self.from);
        (self.waited, self.from) = (Duration::ZERO, sent);
        if u128::from(taken) < due { Err(SendError::Timeout) } else { Ok(()) }
    }
}
