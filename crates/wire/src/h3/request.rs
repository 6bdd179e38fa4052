//! The stream of a request.
//!
//! Owns: the place in its frames, its head, what its body may still measure.
//! Never: keeps the body.
//! Driven by: whoever reads the stream.

use weir_rt::Buf;

use super::code::{Code, Fault};
use super::{qpack, varint};
use crate::h2::Head;
use crate::h2::head::Expected;

/// What the bytes of a stream say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// More of them are needed.
    More,
    /// The head of the request.
    Head,
    /// A head beyond what it may measure: 431. Nothing more is to be read.
    TooLarge,
    /// A piece of the body was handed over.
    Data,
    /// Trailers.
    Trailers,
}

/// Reads one request.
pub struct RequestReader {
    head: Head,
    /// What the list of a head may measure.
    max_list: usize,
    place: Place,
    at: At,
    length_left: Option<u64>,
    /// Frames so far that mean nothing.
    idle_frames: u32,
}

/// What came so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Body,
    Done,
}

/// Where in a frame we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Frame,
    Section(usize),
    Data(u64),
    Skip(u64),
}

/// Frames that nobody knows, and empty ones, in one request.
const MOST_IDLE: u32 = 100;

const MALFORMED: Fault = Fault::Stream(Code::MESSAGE_ERROR);

impl RequestReader {
    /// For a request whose list of fields may measure this (names, values, 32 for each field).
    #[must_use]
    pub fn new(max_list: usize) -> Self {
        Self {
            head: Head::default(),
            max_list,
            place: Place::Start,
            at: At::Frame,
            length_left: None,
            idle_frames: 0,
        }
    }

    /// The head or the trailers that were told last.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Reads on. What is done with goes from `input`; a piece of the body goes behind `body`.
    ///
    /// # Errors
    /// The peer breaks a rule.
    pub fn read(&mut self, input: &mut Buf, body: &mut Buf) -> Result<Item, Fault> {
        loop {
            match self.at {
                At::Frame => {
                    let Some((kind_len, kind)) = varint::read(input) else { return Ok(Item::More) };
                    let Some((len_len, length)) = varint::read(&input[kind_len..]) else {
                        return Ok(Item::More);
                    };
                    input.consume(kind_len + len_len);
                    self.at = self.frame(kind, length)?;
                    if matches!(self.at, At::Section(length) if length > self.max_list) {
                        return Ok(Item::TooLarge);
                    }
                }
                At::Section(length) => {
                    if input.len() < length {
                        return Ok(Item::More);
                    }
                    let item = self.section(&input[..length])?;
                    input.consume(length);
                    self.at = At::Frame;
                    return Ok(item);
                }
                At::Data(left) => {
                    if left == 0 {
                        self.at = At::Frame;
                        continue;
                    }
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    if here == 0 {
                        return Ok(Item::More);
                    }
                    body.extend(&input[..here]);
                    input.consume(here);
                    self.at = At::Data(left - here as u64);
                    return Ok(Item::Data);
                }
                At::Skip(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    input.consume(here);
                    let left = left - here as u64;
                    self.at = if left == 0 { At::Frame } else { At::Skip(left) };
                    if left > 0 {
                        return Ok(Item::More);
                    }
                }
            }
        }
    }

    fn frame(&mut self, kind: u64, length: u64) -> Result<At, Fault> {
        match (kind, self.place) {
            (0x00, Place::Body) => {
                if let Some(left) = &mut self.length_left {
                    *left = left.checked_sub(length).ok_or(MALFORMED)?;
                }
                if length == 0 {
                    self.idle()?;
                }
                Ok(At::Data(length))
            }
            (0x01, Place::Start | Place::Body) => {
                Ok(At::Section(usize::try_from(length).unwrap_or(usize::MAX)))
            }
            // What belongs elsewhere, what HTTP/2 had and HTTP/3 has not, and what comes behind the end.
            (0x00 | 0x01 | 0x03 | 0x04 | 0x05 | 0x07 | 0x0d | 0x02 | 0x06 | 0x08 | 0x09, _) => {
                Err(Fault::Connection(Code::FRAME_UNEXPECTED))
            }
            _ => {
                self.idle()?;
                Ok(At::Skip(length))
            }
        }
    }

    fn idle(&mut self) -> Result<(), Fault> {
        self.idle_frames += 1;
        if self.idle_frames > MOST_IDLE { Err(Fault::Connection(Code::EXCESSIVE_LOAD)) } else { Ok(()) }
    }

    fn section(&mut self, section: &[u8]) -> Result<Item, Fault> {
        let expected = if self.place == Place::Start { Expected::Request } else { Expected::Trailers };
        let fit = qpack::decode(section, &mut self.head.fields, self.max_list);
        let fit = fit.map_err(|_| Fault::Connection(Code::QPACK_DECOMPRESSION_FAILED))?;
        if fit.is_err() {
            return if expected == Expected::Request { Ok(Item::TooLarge) } else { Err(MALFORMED) };
        }
        self.head.check(expected).map_err(|_| MALFORMED)?;
        if expected == Expected::Request {
            self.place = Place::Body;
            self.length_left = self.head.length();
            return Ok(Item::Head);
        }
        self.place = Place::Done;
        Ok(Item::Trailers)
    }

    /// The stream has ended, and all of it was read.
    ///
    /// # Errors
    /// The request is not whole.
    pub fn end(&self, rest: &[u8]) -> Result<(), Fault> {
        let between = matches!(self.at, At::Frame | At::Data(0));
        if !between || !rest.is_empty() {
            return Err(Fault::Connection(Code::FRAME_ERROR));
        }
        if self.place == Place::Start {
            return Err(Fault::Stream(Code::REQUEST_INCOMPLETE));
        }
        if self.length_left.is_some_and(|left| left > 0) { Err(MALFORMED) } else { Ok(()) }
    }
}
