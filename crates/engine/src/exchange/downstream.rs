//! The client's half of an exchange, whatever the HTTP version.
//!
//! Owns: the list of what an action may ask of it.
//! Driven by: actions and the responder; implemented by `http::h1`.
//! Why: one proxy loop for all versions. HTTP/2 and HTTP/3 become further implementations, not further loops.

use std::fs::File;
use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll};

use weir_rt::Shared;
use weir_wire::{ReceiveError, SendError};

use super::fields::Fields;
use super::{Ending, Exchange, Phase};
use crate::worker::watch::Watched;

/// How long the body of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodySize {
    /// So many bytes; 0 is an empty body, and is announced.
    Known(u64),
    /// Not known beforehand.
    Unknown,
    /// There is none by the rules of method and status; `Content-Length`, if there is one among the fields, is kept.
    Bodiless,
}

impl BodySize {
    /// The length to announce.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Known(length) => Some(length),
            Self::Unknown | Self::Bodiless => None,
        }
    }
}

/// The client's half of an exchange.
#[allow(async_fn_in_trait, reason = "used within this crate on one thread")]
pub(crate) trait Downstream {
    /// The next piece of the request's body; `None` at its end. Sends `100 Continue` first if the client waits for it.
    /// Dropping the future loses nothing.
    async fn body_piece(&mut self, exchange: &Exchange) -> Result<Option<&[u8]>, ReceiveError>;

    /// As [`Downstream::body_piece`], where an answer passes at the same time.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        // Dropping it loses nothing.
        pin!(self.body_piece(exchange)).poll(cx)
    }

    /// Sends as much of a piece of the answer's body as fits now, where requests pass at the same time. `None`: this cannot
    /// be; [`Downstream::send`] it.
    ///
    /// # Errors
    /// As [`Downstream::send`].
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange,
        data: &[u8],
    ) -> Option<Poll<Result<usize, SendError>>> {
        let _ = (cx, exchange, data);
        None
    }

    /// Drives the handshake of a client that has sent early data, if nobody else does.
    async fn finish_handshake(&mut self) {}

    /// Whether the request's body has been read to its end.
    fn body_done(&self) -> bool;

    /// Lines of trailers that came with the request.
    fn trailers(&self, into: &mut Fields);

    /// Sends an interim head (1xx) with these fields, if the client's version has them.
    async fn interim(&mut self, status: u16, fields: &Fields) -> Result<(), SendError>;

    /// Begins the answer: status and fields are those of `exchange.response`. Nothing may have been begun before.
    fn begin(&mut self, exchange: &mut Exchange, size: BodySize);

    /// As [`Downstream::begin`], for an answer with a body of `length` bytes whose status and fields are those of
    /// earlier ones: `lines` keeps what was written for the first of them, nothing that changes with time or
    /// connection among it. `put` puts the fields; it is not asked where what is kept will do.
    fn begin_known(
        &mut self,
        exchange: &mut Exchange,
        lines: &mut Vec<u8>,
        length: u64,
        put: impl FnOnce(&mut Exchange),
    ) {
        let _ = lines;
        put(exchange);
        self.begin(exchange, BodySize::Known(length));
    }

    /// Queues a piece of the answer's body that is small enough to leave with what is queued before it; false if it is not,
    /// and nothing was done.
    ///
    /// # Errors
    /// More than was announced.
    fn queue(&mut self, data: &[u8]) -> Result<bool, SendError> {
        let _ = data;
        Ok(false)
    }

    /// Sends a piece of the answer's body. Small ones may be held back until [`Downstream::flush`] or
    /// [`Downstream::finish`].
    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError>;

    /// As [`Downstream::send`], for bytes that other answers have, too.
    async fn send_shared(&mut self, exchange: &Exchange, data: Shared) -> Result<(), SendError> {
        self.send(exchange, &data).await
    }

    /// Sends a range of a file as a part of the body.
    async fn send_file(
        &mut self,
        exchange: &Exchange,
        file: &File,
        offset: u64,
        length: u64,
    ) -> Result<(), SendError>;

    /// Sends what was held back.
    async fn flush(&mut self, exchange: &Exchange) -> Result<(), SendError>;

    /// Ends the answer, with trailers where the framing has room for them.
    async fn finish(&mut self, exchange: &Exchange, trailers: &Fields) -> Result<(), SendError>;

    /// As [`Downstream::finish`] without trailers, as far as that needs no wait. False: [`Downstream::finish`] is to follow.
    ///
    /// # Errors
    /// As [`Downstream::finish`].
    fn finish_now(&mut self) -> Result<bool, SendError> {
        Ok(false)
    }

    /// The answer cannot be completed: makes sure that the client sees that.
    fn cut(&mut self);

    /// Notes that the client did not take the answer.
    fn fail(&mut self, exchange: &mut Exchange, error: &SendError) {
        exchange.ending = match error {
            SendError::Timeout => Ending::ClientTimeout(Phase::Data),
            _ => Ending::ClientAborted(Phase::Data),
        };
        self.cut();
    }

    /// Takes back an answer that was begun, if nothing of it has left: another one can then be made. False if it has.
    fn retract(&mut self, exchange: &mut Exchange) -> bool;

    /// Bytes sent for this exchange: all, and those of the body.
    fn sent(&self) -> (u64, u64);

    /// The client, to watch over.
    fn watched(&self) -> Watched;

    /// The transport, for a tunnel, with what was read ahead. `None`: there is none to be had.
    fn take_tunnel(&mut self) -> Option<(weir_wire::Conn, weir_rt::Buf)>;
}
