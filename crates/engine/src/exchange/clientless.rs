//! The client's half of a request that no client sent.
//!
//! Owns: that such a request has no body, trailers, client to watch, or transport for a tunnel.
//! Driven by: whoever asks for a response himself, and says what is done with it.

use std::fs::File;

use weir_wire::{ReceiveError, SendError};

use super::fields::Fields;
use super::{BodySize, Downstream, Exchange};
use crate::worker::watch::Watched;

/// What is done with a response that no client gets; as [`Downstream`] has it.
#[allow(async_fn_in_trait, reason = "used within this crate on one thread")]
pub(crate) trait Taker {
    /// An interim head.
    async fn interim(&mut self, status: u16) {
        let _ = status;
    }

    /// The response begins. Its status and fields are in the exchange.
    fn begin(&mut self, exchange: &Exchange);

    /// A piece of its body.
    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError>;

    /// A range of a file as a part of its body.
    async fn send_file(&mut self, file: &File, offset: u64, length: u64) -> Result<(), SendError>;

    /// It is whole.
    fn finish(&mut self) {}

    /// It will not become whole.
    fn cut(&mut self);

    /// As [`Downstream::retract`]: whether it can be forgotten.
    fn retract(&mut self) -> bool;

    /// Bytes of its body so far.
    fn taken(&self) -> u64;
}

/// The client's half, with whoever takes the response.
#[derive(Default)]
pub(crate) struct Clientless<T>(pub(crate) T);

impl<T: Taker> Downstream for Clientless<T> {
    async fn body_piece(&mut self, _: &Exchange) -> Result<Option<&[u8]>, ReceiveError> {
        Ok(None)
    }

    fn body_done(&self) -> bool {
        true
    }

    fn trailers(&self, _: &mut Fields) {}

    async fn interim(&mut self, status: u16, _: &Fields) -> Result<(), SendError> {
        self.0.interim(status).await;
        Ok(())
    }

    fn begin(&mut self, exchange: &mut Exchange, _: BodySize) {
        exchange.response.head_sent = true;
        self.0.begin(exchange);
    }

    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.0.send(exchange, data).await
    }

    async fn send_file(
        &mut self,
        _: &Exchange,
        file: &File,
        offset: u64,
        length: u64,
    ) -> Result<(), SendError> {
        self.0.send_file(file, offset, length).await
    }

    async fn flush(&mut self, _: &Exchange) -> Result<(), SendError> {
        Ok(())
    }

    async fn finish(&mut self, _: &Exchange, _: &Fields) -> Result<(), SendError> {
        self.0.finish();
        Ok(())
    }

    fn cut(&mut self) {
        self.0.cut();
    }

    fn retract(&mut self, exchange: &mut Exchange) -> bool {
        let forgotten = self.0.retract();
        if forgotten {
            exchange.response.head_sent = false;
            exchange.filters.clear();
        }
        forgotten
    }

    fn sent(&self) -> (u64, u64) {
        let taken = self.0.taken();
        (taken, taken)
    }

    fn watched(&self) -> Watched {
        Watched::Nobody
    }

    fn take_tunnel(&mut self) -> Option<(weir_wire::Conn, weir_rt::Buf)> {
        None
    }
}
