//! A response that is taken whole, into memory.
//!
//! Owns: that no more is taken than a set of keys may have.
//! Driven by: requests of our own whose bodies are read here.

use std::fs::File;

use weir_jose::keys;
use weir_wire::SendError;

use crate::exchange::Exchange;
use crate::exchange::clientless::{Clientless, Taker};

/// Takes a response whole.
pub(super) struct Whole {
    /// `None`: it is cut, or too long.
    pub(super) text: Option<Vec<u8>>,
}

impl Whole {
    pub(super) fn half() -> Clientless<Self> {
        Clientless(Self { text: Some(Vec::new()) })
    }

    fn add(&mut self, data: &[u8]) -> Result<(), SendError> {
        let fits = self.text.as_ref().is_some_and(|text| text.len() + data.len() <= keys::LARGEST);
        if !fits {
            self.text = None;
            return Err(SendError::Length);
        }
        self.text.iter_mut().for_each(|text| text.extend_from_slice(data));
        Ok(())
    }
}

impl Taker for Whole {
    fn begin(&mut self, _: &Exchange) {}

    async fn send(&mut self, _: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.add(data)
    }

    async fn send_file(&mut self, file: &File, offset: u64, length: u64) -> Result<(), SendError> {
        let (mut at, end, mut buf) = (offset, offset + length, weir_rt::Buf::new());
        while at < end {
            buf.clear();
            let read =
                weir_rt::pread_into(file, at, &mut buf, (end - at).min(weir_rt::PIECE as u64) as usize)?;
            if read == 0 {
                return Err(SendError::Length);
            }
            at += read as u64;
            self.add(&buf)?;
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.text = None;
    }

    fn retract(&mut self) -> bool {
        self.text.as_ref().is_some_and(Vec::is_empty)
    }

    fn taken(&self) -> u64 {
        self.text.as_ref().map_or(0, |text| text.len() as u64)
    }
}
