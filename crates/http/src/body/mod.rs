//! Message bodies: where they end, and which bytes of the connection are theirs.
//!
//! Owns: [`BodyReader`], for both roles and all framings.
//! Never: copies payload; it names ranges of the buffer it is given.
//! Driven by: `wire`, with whatever has arrived.
//! Why: a body that was cut never looks whole: only [`BodyEvent::End`] says so, and the end of the connection is an
//! error ([`BodyReader::close`]) unless it is what frames the body.
//!
//! Calling order: [`BodyReader::next`] with the bytes that are not consumed yet. After `Data(range)` use the range,
//! drop everything up to its end, and call again; after `NeedMore(n)` drop `n` bytes and come back with more; after
//! `End(n)` drop `n` bytes: what follows belongs to the next message.

pub mod chunked;
pub mod encode;

use std::ops::Range;

use crate::framing::Framing;
use chunked::ChunkedDecoder;

pub use chunked::{ChunkLimits, Trailers};

/// What stands next in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// Payload stands in this range, never empty; everything up to its end is consumed.
    Data(Range<usize>),
    /// This many bytes are consumed, and more are needed.
    NeedMore(usize),
    /// This many bytes are consumed, and the body is whole.
    End(usize),
}

/// Why a body is refused. The connection can not be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyError {
    /// The connection ended before the body did.
    Cut,
    /// A chunk's size is no hexadecimal number below 2^63.
    ChunkSize,
    /// A chunk extension is malformed or too long.
    ChunkExtension,
    /// A chunk's data is not followed by CRLF.
    ChunkEnd,
    /// A line ends in a bare CR or LF.
    LineEnd,
    /// The trailer section is malformed.
    Trailer(crate::lines::LineError),
    /// A trailer that frames, routes or authenticates the message: RFC 9110 §6.5.1.
    ForbiddenTrailer,
    /// A chunk announces more than the body may have. The reader knows no such bound: its caller does.
    TooLarge,
}

impl BodyError {
    /// The status to answer a client with, where an answer is still possible.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Trailer(error) if error.is_size() => 431,
            Self::TooLarge => 413,
            _ => 400,
        }
    }

    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cut => "connection closed within the body",
            Self::ChunkSize => "invalid chunk size",
            Self::ChunkExtension => "invalid chunk extension",
            Self::ChunkEnd => "chunk longer than its size",
            Self::LineEnd => "invalid line end in chunked body",
            Self::Trailer(error) => error.as_str(),
            Self::ForbiddenTrailer => "forbidden trailer field",
            Self::TooLarge => "chunk larger than the body may be",
        }
    }
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for BodyError {}

/// The state of one body that is being read.
#[derive(Debug, Default)]
pub struct BodyReader(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    Done,
    Length(u64),
    // Boxed neither here nor inside: sixteen bytes of state; trailers allocate when they come.
    Chunked(ChunkedDecoder),
    UntilClose,
    /// Ended; kept for its trailers.
    Whole(ChunkedDecoder),
}

impl BodyReader {
    /// A reader for a body framed like this.
    #[must_use]
    pub fn new(framing: Framing, limits: ChunkLimits) -> Self {
        Self(match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(n) => State::Length(n),
            Framing::Chunked => State::Chunked(ChunkedDecoder::new(limits)),
            Framing::UntilClose => State::UntilClose,
        })
    }

    /// Looks at the next bytes; see the module for the calling order.
    ///
    /// # Errors
    /// The chunked coding is broken. The reader then stays broken: do not call it again.
    pub fn next(&mut self, buf: &[u8]) -> Result<BodyEvent, BodyError> {
        match &mut self.0 {
            State::Done | State::Whole(_) => Ok(BodyEvent::End(0)),
            State::Length(left) => {
                let event = take_length(left, buf.len());
                if *left == 0 {
                    self.0 = State::Done;
                }
                Ok(event)
            }
            State::UntilClose if buf.is_empty() => Ok(BodyEvent::NeedMore(0)),
            State::UntilClose => Ok(BodyEvent::Data(0..buf.len())),
            State::Chunked(decoder) => {
                let event = decoder.next(buf)?;
                if matches!(event, BodyEvent::End(_)) {
                    self.0 = State::Whole(std::mem::take(decoder));
                }
                Ok(event)
            }
        }
    }

    /// The peer has closed its side, and all its bytes were given to [`BodyReader::next`].
    ///
    /// # Errors
    /// [`BodyError::Cut`], unless the body was whole or is framed by the close.
    pub fn close(&mut self) -> Result<(), BodyError> {
        match self.0 {
            State::Done | State::Whole(_) => Ok(()),
            State::UntilClose => {
                self.0 = State::Done;
                Ok(())
            }
            State::Length(_) | State::Chunked(_) => Err(BodyError::Cut),
        }
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.0, State::Done | State::Whole(_))
    }

    /// How many bytes are missing, where that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.0 {
            State::Done | State::Whole(_) => Some(0),
            State::Length(left) => Some(left),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Payload bytes left of the length or of the current chunk: a caller may read that many straight from the
    /// socket and report them by [`BodyReader::skip`].
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        match &self.0 {
            State::Length(left) => *left,
            State::Chunked(decoder) => decoder.contiguous(),
            State::UntilClose => u64::MAX,
            State::Done | State::Whole(_) => 0,
        }
    }

    /// Counts `n` payload bytes that went past this reader (sendfile, splice). At most [`BodyReader::contiguous`].
    pub fn skip(&mut self, n: u64) {
        debug_assert!(n <= self.contiguous(), "no more than was offered");
        match &mut self.0 {
            State::Length(left) => {
                *left = left.saturating_sub(n);
                if *left == 0 {
                    self.0 = State::Done;
                }
            }
            State::Chunked(decoder) => decoder.skip(n),
            State::UntilClose | State::Done | State::Whole(_) => {}
        }
    }

    /// The trailers of a chunked body that has ended, if it had any.
    #[must_use]
    pub fn trailers(&self) -> Option<&Trailers> {
        match &self.0 {
            State::Whole(decoder) => decoder.trailers(),
            _ => None,
        }
    }
}

fn take_length(left: &mut u64, available: usize) -> BodyEvent {
    let taken = usize::try_from(*left).map_or(available, |left| left.min(available));
    if taken == 0 {
        return BodyEvent::NeedMore(0);
    }
    *left -= taken as u64;
    BodyEvent::Data(0..taken)
}
