//! A client's half that keeps what it is told.

use std::fs::File;

use weir_wire::{ReceiveError, SendError};

use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange};
use crate::worker::watch::Watched;

/// What the client was told.
#[derive(Default)]
pub(super) struct Told {
    pub(super) interims: Vec<u16>,
    pub(super) body: Vec<u8>,
    pub(super) whole: bool,
    pub(super) cut: bool,
}

impl Downstream for Told {
    async fn body_piece(&mut self, _: &Exchange) -> Result<Option<&[u8]>, ReceiveError> {
        Ok(None)
    }

    fn body_done(&self) -> bool {
        true
    }

    fn trailers(&self, _: &mut Fields) {}

    async fn interim(&mut self, status: u16, _: &Fields) -> Result<(), SendError> {
        self.interims.push(status);
        Ok(())
    }

    fn begin(&mut self, exchange: &mut Exchange, _: BodySize) {
        exchange.response.head_sent = true;
    }

    async fn send(&mut self, _: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.body.extend_from_slice(data);
        Ok(())
    }

    async fn send_file(&mut self, _: &Exchange, _: &File, _: u64, _: u64) -> Result<(), SendError> {
        Ok(())
    }

    async fn flush(&mut self, _: &Exchange) -> Result<(), SendError> {
        Ok(())
    }

    async fn finish(&mut self, _: &Exchange, _: &Fields) -> Result<(), SendError> {
        self.whole = true;
        Ok(())
    }

    fn cut(&mut self) {
        self.cut = true;
    }

    fn retract(&mut self, _: &mut Exchange) -> bool {
        false
    }

    fn sent(&self) -> (u64, u64) {
        let sent = self.body.len() as u64;
        (sent, sent)
    }

    fn watched(&self) -> Watched {
        Watched::Nobody
    }

    fn take_tunnel(&mut self) -> Option<(weir_wire::Conn, weir_rt::Buf)> {
        None
    }
}
