//! The chunked coding: RFC 9112 §7.1.
//!
//! Owns: the decoder's states, its bounds, and the trailers.
//! Never: copies payload. Trailers, which are rare, are kept in memory of their own.
//! Driven by: [`super::BodyReader`].
//! Why: strict, since disagreement over a chunk's end is request smuggling: a size has at most sixteen digits and no
//! sign, and no space but before an extension; lines end in CRLF; extensions are bounded over the whole body (else a
//! stream of one-byte chunks with long extensions costs much and delivers nothing).
//!
//! ```text
//!   Size ─hex─▶ Size ─;─▶ Extension ─CR─▶ SizeLf ─LF─▶ Data ─▶ DataCr ─▶ DataLf ─▶ SizeStart
//!                                            └─ size 0 ─▶ Trailers ─▶ Done
//! ```

use std::ops::Range;

use super::{BodyError, BodyEvent};
use crate::field::{FieldTable, Headers};
use crate::host::hex;
use crate::limits::{HeadRules, UnusualNames};
use crate::lines::{self, LineEnd, Progress};
use crate::name::HeaderId;

/// Bounds of the parts of a chunked body that are no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Most bytes of chunk extensions in a whole body.
    pub extensions: u32,
    /// Most bytes of trailers.
    pub trailers: u32,
    /// Most trailer fields.
    pub trailer_fields: u16,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self { extensions: 16 << 10, trailers: 8 << 10, trailer_fields: 64 }
    }
}

/// Trailer fields, with the bytes they stand in.
#[derive(Debug, Default)]
pub struct Trailers {
    bytes: Vec<u8>,
    progress: Progress,
    dropped: usize,
    table: FieldTable,
}

impl Trailers {
    /// The fields.
    #[must_use]
    pub fn headers(&self) -> Headers<'_> {
        self.table.view(&self.bytes)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    #[default]
    SizeStart,
    Size,
    /// Spaces behind a size: an extension has to follow.
    SizeSpace,
    Extension,
    ExtensionQuoted,
    ExtensionEscaped,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
    Done,
}

/// Decodes one chunked body.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    digits: u8,
    limits: ChunkLimits,
    extensions: u32,
    /// The size that is being read, or what is left of the chunk.
    left: u64,
    trailers: Option<Box<Trailers>>,
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    #[must_use]
    pub fn new(limits: ChunkLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Looks at the next bytes; as [`super::BodyReader::next`].
    ///
    /// # Errors
    /// The coding is broken, and stays so.
    pub fn next(&mut self, buf: &[u8]) -> Result<BodyEvent, BodyError> {
        let mut at = 0;
        while at < buf.len() {
            match self.state {
                State::Data => {
                    let range = self.take_data(at, buf.len());
                    return Ok(BodyEvent::Data(range));
                }
                State::Trailers => return self.take_trailers(buf, at),
                State::Done => return Ok(BodyEvent::End(at)),
                _ => self.step(buf[at])?,
            }
            at += 1;
        }
        Ok(if self.state == State::Done { BodyEvent::End(at) } else { BodyEvent::NeedMore(at) })
    }

    /// Payload bytes left of the current chunk.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        if self.state == State::Data { self.left } else { 0 }
    }

    pub(super) fn skip(&mut self, n: u64) {
        self.left = self.left.saturating_sub(n);
        if self.left == 0 && self.state == State::Data {
            self.state = State::DataCr;
        }
    }

    /// The trailers, if any came.
    #[must_use]
    pub fn trailers(&self) -> Option<&Trailers> {
        self.trailers.as_deref().filter(|trailers| trailers.table.len() > 0)
    }

    fn take_data(&mut self, at: usize, end: usize) -> Range<usize> {
        let taken = usize::try_from(self.left).map_or(end - at, |left| left.min(end - at));
        self.left -= taken as u64;
        if self.left == 0 {
            self.state = State::DataCr;
        }
        at..at + taken
    }

    /// One byte of what is neither payload nor trailer.
    fn step(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match self.state {
            State::SizeStart | State::Size => self.size(byte)?,
            State::SizeSpace => self.space(byte)?,
            State::Extension | State::ExtensionQuoted | State::ExtensionEscaped => self.extension(byte)?,
            State::SizeLf if byte == b'\n' => self.after_size(),
            State::DataCr if byte == b'\r' => State::DataLf,
            State::DataLf if byte == b'\n' => State::SizeStart,
            State::SizeLf => return Err(BodyError::LineEnd),
            _ => return Err(BodyError::ChunkEnd),
        };
        Ok(())
    }

    fn size(&mut self, byte: u8) -> Result<State, BodyError> {
        if let Some(digit) = hex(byte) {
            // Sixteen digits are the most that 64 bits have; more are refused even if they are zeros.
            if self.digits == 16 || self.left > (i64::MAX as u64) >> 4 {
                return Err(BodyError::ChunkSize);
            }
            self.digits += 1;
            self.left = self.left << 4 | u64::from(digit);
            return Ok(State::Size);
        }
        match byte {
            _ if self.state == State::SizeStart => Err(BodyError::ChunkSize),
            b'\r' => Ok(State::SizeLf),
            b';' => Ok(State::Extension),
            b' ' | b'\t' => self.space(byte),
            b'\n' => Err(BodyError::LineEnd),
            _ => Err(BodyError::ChunkSize),
        }
    }

    /// The BWS that RFC 9112 §7.1.1 lets stand before the semicolon of an extension, and nowhere else.
    fn space(&mut self, byte: u8) -> Result<State, BodyError> {
        match byte {
            b';' => Ok(State::Extension),
            b' ' | b'\t' if self.extensions < self.limits.extensions => {
                self.extensions += 1;
                Ok(State::SizeSpace)
            }
            _ => Err(BodyError::ChunkSize),
        }
    }

    fn extension(&mut self, byte: u8) -> Result<State, BodyError> {
        if byte == b'\r' && self.state == State::Extension {
            return Ok(State::SizeLf);
        }
        self.extensions += 1;
        if self.extensions > self.limits.extensions || (byte < 0x20 && byte != b'\t') || byte == 0x7f {
            return Err(if byte == b'\n' { BodyError::LineEnd } else { BodyError::ChunkExtension });
        }
        Ok(match (self.state, byte) {
            (State::ExtensionEscaped, _) => State::ExtensionQuoted,
            (State::ExtensionQuoted, b'\\') => State::ExtensionEscaped,
            (State::ExtensionQuoted, b'"') => State::Extension,
            (State::Extension, b'"') => State::ExtensionQuoted,
            (state, _) => state,
        })
    }

    fn after_size(&mut self) -> State {
        self.digits = 0;
        if self.left == 0 { State::Trailers } else { State::Data }
    }

    fn take_trailers(&mut self, buf: &[u8], at: usize) -> Result<BodyEvent, BodyError> {
        if self.trailers.is_none() && buf[at..].starts_with(b"\r\n") {
            self.state = State::Done;
            return Ok(BodyEvent::End(at + 2));
        }
        let rules = trailer_rules(self.limits);
        let trailers = self.trailers.get_or_insert_default();
        let before = trailers.bytes.len();
        // No more than the bound is copied, whatever follows in the buffer.
        let room = rules.head_limit() + 1 - before.min(rules.head_limit());
        let added = &buf[at..][..room.min(buf.len() - at)];
        trailers.bytes.extend_from_slice(added);
        let Trailers { bytes, progress, dropped, table } = &mut **trailers;
        let whole = lines::parse_fields(LineEnd::CrLf, progress, table, dropped, bytes, &rules);
        if !whole.map_err(BodyError::Trailer)? {
            return Ok(BodyEvent::NeedMore(at + added.len()));
        }
        if table.view(bytes).has_any(FORBIDDEN) {
            return Err(BodyError::ForbiddenTrailer);
        }
        let consumed = progress.line - before;
        bytes.truncate(progress.line);
        self.state = State::Done;
        Ok(BodyEvent::End(at + consumed))
    }
}

fn trailer_rules(limits: ChunkLimits) -> HeadRules {
    HeadRules {
        first_line: 0,
        field_line: limits.trailers as usize,
        head: limits.trailers as usize,
        fields: usize::from(limits.trailer_fields),
        unusual_names: UnusualNames::Drop,
        mends: false,
    }
}

/// Fields that frame, route, authenticate or describe the message, and would be believed too late: RFC 9110 §6.5.1.
const FORBIDDEN: u128 = HeaderId::TransferEncoding.bit()
    | HeaderId::ContentLength.bit()
    | HeaderId::Host.bit()
    | HeaderId::Connection.bit()
    | HeaderId::KeepAlive.bit()
    | HeaderId::Upgrade.bit()
    | HeaderId::Te.bit()
    | HeaderId::Trailer.bit()
    | HeaderId::Expect.bit()
    | HeaderId::Range.bit()
    | HeaderId::CacheControl.bit()
    | HeaderId::MaxForwards.bit()
    | HeaderId::Authorization.bit()
    | HeaderId::ProxyAuthorization.bit()
    | HeaderId::Cookie.bit()
    | HeaderId::SetCookie.bit()
    | HeaderId::ContentEncoding.bit()
    | HeaderId::ContentType.bit()
    | HeaderId::ContentRange.bit();

/// Whether a field may not stand in trailers.
#[must_use]
pub fn is_forbidden_trailer(id: HeaderId) -> bool {
    FORBIDDEN & id.bit() != 0
}
