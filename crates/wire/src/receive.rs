//! The receiving direction: bytes in, payload out.
//!
//! Owns: the input buffer and the place in the current body.
//! Never: copies payload; pieces are slices of the input buffer, valid until the next call.
//! Driven by: [`crate::ServerConnection`] and [`crate::ClientConnection`], which parse heads from the same buffer.
//! Why: a peer that writes a message in small pieces has a kernel that holds each back until the one before is acknowledged
//! (Nagle's rule), which ours puts off for 40 ms where it expects to have something to say itself. So what is waited for
//! in the middle of a message, behind a small piece, is asked for: [`weir_rt::Stream::acknowledge`].

use std::time::Duration;

use weir_http::Framing;
use weir_http::body::{BodyEvent, BodyReader, ChunkLimits, Trailers};
use weir_rt::{Buf, PIECE, Timer};

use crate::{Conn, ReceiveError};

/// The receiving direction of a connection.
pub struct Incoming {
    pub(crate) io: Conn,
    pub(crate) input: Buf,
    reader: BodyReader,
    /// Bytes at the front of `input` that were given out as the last piece.
    given: usize,
    received: u64,
    framing: u64,
    /// The piece that came last was small: the next may be held back until it is acknowledged.
    held_back: bool,
}

/// A piece below this is less than a segment of most networks, and leaves alone.
const SEGMENT: usize = 1200;

impl Incoming {
    pub(crate) fn new(io: Conn) -> Self {
        Self::with_input(io, Buf::new())
    }

    pub(crate) fn with_input(io: Conn, input: Buf) -> Self {
        Self {
            io,
            input,
            reader: BodyReader::new(Framing::None, ChunkLimits::default()),
            given: 0,
            received: 0,
            framing: 0,
            held_back: false,
        }
    }

    /// Bytes that arrived and were not used yet.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.input[self.given..]
    }

    /// Takes what arrived and was not used, for a tunnel.
    pub fn take_pending(&mut self) -> Buf {
        self.input.consume(std::mem::take(&mut self.given));
        self.input.take()
    }

    /// Payload bytes of the current body so far.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes around the payload of the current body so far: chunk heads, trailers.
    #[inline]
    pub fn framing(&self) -> u64 {
        self.framing
    }

    /// Begins a body that starts at the front of the input.
    #[inline]
    pub fn begin(&mut self, framing: Framing) {
        self.given = 0;
        self.received = 0;
        self.framing = 0;
        self.reader = BodyReader::new(framing, ChunkLimits::default());
        self.held_back = self.input.is_empty();
    }

    /// Whether the current body has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    /// Payload bytes still to come, where known.
    pub fn remaining(&self) -> Option<u64> {
        self.reader.remaining()
    }

    /// Payload bytes that have come or are announced: by the length, or by the head of the chunk that has begun.
    pub fn announced(&self) -> u64 {
        self.received.saturating_add(self.reader.contiguous())
    }

    /// Trailers of a chunked body that has ended.
    pub fn trailers(&self) -> Option<&Trailers> {
        self.reader.trailers()
    }

    /// Whether all the rest of the body stands in the input already; then pieces come without waiting.
    pub fn rest_is_here(&self) -> bool {
        self.reader.is_done()
            || self.reader.remaining().is_some_and(|left| left <= self.pending().len() as u64)
    }

    /// Bytes of a piece.
    #[inline]
    pub fn slice(&self, start: usize, end: usize) -> &[u8] {
        &self.input[start..end]
    }

    /// Lends out the input with the piece in it, so that the piece can be sent while the peer is read on. No copy is made.
    /// Nothing else may be asked before [`Incoming::take_back`] or [`Incoming::part_with`].
    pub fn lend(&mut self, start: usize, end: usize) -> Lent {
        self.given = 0;
        Lent { buf: self.input.take(), start, end }
    }

    /// Takes the input back after its piece was used.
    pub fn take_back(&mut self, lent: Lent) {
        self.input = lent.buf;
        self.given = lent.end;
    }

    /// Goes on without the input that was lent: what stands behind the piece is copied, and the rest is the borrower's.
    pub fn part_with(&mut self, lent: &Lent) {
        let rest = &lent.buf[lent.end..];
        if !rest.is_empty() {
            self.input.extend(rest);
        }
    }

    /// Takes a piece out, into a buffer of its own: the shorter of it and what stands behind it is copied.
    pub fn detach(&mut self, start: usize, end: usize) -> Buf {
        self.given = 0;
        self.input.consume(start);
        let length = end - start;
        if length * 2 < self.input.len() {
            return self.input.split_to(length);
        }
        let mut piece = self.input.take();
        if piece.len() > length {
            self.input.extend(&piece[length..]);
            piece.truncate(length);
        }
        piece
    }

    /// The next piece, or `None` at the end of the body. Waits at most `timeout` between two reads.
    ///
    /// # Errors
    /// The peer is silent, gone or sends what is no body. Dropping the future loses nothing.
    pub async fn piece(&mut self, timer: &Timer, timeout: Duration) -> Result<Option<&[u8]>, ReceiveError> {
        loop {
            // Borrowed twice because a piece that is returned keeps `self` borrowed on the other paths too.
            match self.step()? {
                Step::Piece(start, end) => return Ok(Some(&self.input[start..end])),
                Step::End => return Ok(None),
                Step::Wait => self.fill(timer, timeout, PIECE).await?,
            }
        }
    }

    /// The next step without waiting, as offsets into the input ([`Incoming::slice`]): for callers that wait themselves.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn step(&mut self) -> Result<Step, ReceiveError> {
        self.input.consume(std::mem::take(&mut self.given));
        Ok(match self.reader.next(&self.input)? {
            BodyEvent::Data(range) => {
                self.given = range.end;
                self.framing += range.start as u64;
                self.received += range.len() as u64;
                Step::Piece(range.start, range.end)
            }
            BodyEvent::NeedMore(used) => {
                self.framing += used as u64;
                self.input.consume(used);
                Step::Wait
            }
            BodyEvent::End(used) => {
                self.framing += used as u64;
                self.input.consume(used);
                Step::End
            }
        })
    }

    /// Reads more, at most `limit` bytes. Ends a body that is framed by the close.
    ///
    /// # Errors
    /// As [`Incoming::piece`].
    pub async fn fill(&mut self, timer: &Timer, timeout: Duration, limit: usize) -> Result<(), ReceiveError> {
        if self.input.is_empty() {
            // A buffer for what comes is taken from the pool once it has come.
            self.input.release();
        }
        if self.held_back {
            self.io.socket().acknowledge();
        }
        let read = timer.within(&mut Some(timeout), self.io.read_up_to(&mut self.input, limit)).await??;
        self.held_back = read < SEGMENT;
        if read == 0 {
            self.reader.close()?;
        }
        Ok(())
    }

    /// Reads what has arrived, without waiting; false if nothing has.
    ///
    /// # Errors
    /// As [`Incoming::piece`].
    pub fn fill_ready(&mut self, limit: usize) -> Result<bool, ReceiveError> {
        match self.io.try_read_up_to(&mut self.input, limit)? {
            Some(0) => {
                self.reader.close()?;
                Ok(true)
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// Frees the buffer if nothing is in it, for a connection that goes idle.
    pub fn release(&mut self) {
        self.input.consume(std::mem::take(&mut self.given));
        if self.input.is_empty() {
            self.input.release();
        }
    }
}

/// The input of a connection, lent out for the piece in it.
pub struct Lent {
    buf: Buf,
    start: usize,
    end: usize,
}

impl Lent {
    /// The piece.
    pub fn piece(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }
}

/// A step through a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Payload stands between these offsets, until the next step.
    Piece(usize, usize),
    /// More has to arrive.
    Wait,
    /// The body has ended.
    End,
}
