//! Bytes that many messages carry.
//!
//! Owns: [`Shared`]. Never: copies them.
//! Driven by: the engine's cache of files; streams send them behind a head.
//! Why: fifty answers with the same file are then read from one place, which the processor has at hand, and not from
//! fifty copies of it.

use std::ops::{Deref, Range};
use std::rc::Rc;

/// A part of bytes that stay as they are, of one worker.
#[derive(Debug, Clone)]
pub struct Shared {
    bytes: Rc<[u8]>,
    part: Range<usize>,
}

impl Shared {
    /// The bytes of `part`.
    ///
    /// # Panics
    /// When it reaches beyond their end.
    #[must_use]
    pub fn new(bytes: &Rc<[u8]>, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= bytes.len(), "a part of what is there");
        Self { bytes: bytes.clone(), part }
    }

    /// Takes bytes off the front.
    pub(crate) fn consume(&mut self, count: usize) {
        self.part.start = (self.part.start + count).min(self.part.end);
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.part.clone()]
    }
}
