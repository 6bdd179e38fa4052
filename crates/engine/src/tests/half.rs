//! A client's half that keeps what it is told.

use std::fs::File;

use weir_wire::SendError;

use crate::exchange::Exchange;
use crate::exchange::clientless::Taker;

/// What the client was told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) interims: Vec<u16>,
    pub(super) body: Vec<u8>,
    pub(super) whole: bool,
    pub(super) cut: bool,
}

impl Taker for Told {
    async fn interim(&mut self, status: u16) {
        self.interims.push(status);
    }

    fn begin(&mut self, _: &Exchange) {}

    async fn send(&mut self, _: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.body.extend_from_slice(data);
        Ok(())
    }

    async fn send_file(&mut self, _: &File, _: u64, _: u64) -> Result<(), SendError> {
        Ok(())
    }

    fn finish(&mut self) {
        self.whole = true;
    }

    fn cut(&mut self) {
        self.cut = true;
    }

    fn retract(&mut self) -> bool {
        false
    }

    fn taken(&self) -> u64 {
        self.body.len() as u64
    }
}
