//! Reading FastCGI records.
//!
//! Owns: the decoder's state. Never: copies content; it names ranges of the buffer it is given.
//! Why: the end of the connection is no end of the answer; only an END_REQUEST record is, or one that ends stdout. What
//! END_REQUEST says of multiplexing and overload is passed over, as in nginx: without a head there is no answer anyway.

use std::ops::Range;

use super::{END_REQUEST, HEADER, REQUEST, STDERR, STDOUT, VERSION};

/// What stands next in the buffer. Use a range, drop everything up to its end, and call again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCgiEvent {
    /// A piece of the answer, never empty.
    Stdout(Range<usize>),
    /// A piece of what is to be logged, never empty.
    Stderr(Range<usize>),
    /// This many bytes are consumed, and more are needed.
    NeedMore(usize),
    /// This many bytes are consumed, and the answer is whole. The connection may be used again if it was asked for.
    End {
        /// Consumed bytes.
        consumed: usize,
        /// The application's exit status.
        app_status: u32,
    },
}

/// Why records are refused. The connection can not be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FastCgiError {
    /// Another version than 1.
    Version,
    /// A record of a type that an application may not send.
    Type,
    /// A record for a request that is not ours.
    RequestId,
    /// An END_REQUEST record of the wrong length.
    EndRequest,
}

impl FastCgiError {
    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "unsupported FastCGI version",
            Self::Type => "unexpected FastCGI record",
            Self::RequestId => "FastCGI record for another request",
            Self::EndRequest => "invalid FastCGI END_REQUEST record",
        }
    }
}

impl std::fmt::Display for FastCgiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for FastCgiError {}

/// Decodes the records of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The head of a record, or the body of END_REQUEST, as far as it has come.
    held: [u8; HEADER],
    filled: usize,
    state: State,
    content: u16,
    padding: u8,
    /// The empty STDOUT record has come.
    stdout_closed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Stdout,
    Stderr,
    EndRequest,
    Padding,
    /// The padding of END_REQUEST, after which the answer is whole.
    LastPadding,
    Done,
}

impl Decoder {
    /// A decoder at the start of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the answer is whole.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the application said that stdout is over: then the answer is whole, even if the connection ends now.
    #[must_use]
    pub fn stdout_is_over(&self) -> bool {
        self.stdout_closed
    }

    /// Looks at the bytes that are not consumed yet.
    ///
    /// # Errors
    /// The peer does not speak FastCGI as it should; do not call again.
    pub fn next(&mut self, buf: &[u8]) -> Result<FastCgiEvent, FastCgiError> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => {
                    return Ok(FastCgiEvent::End { consumed: at, app_status: self.app_status() });
                }
                State::Padding | State::LastPadding => {
                    let skipped =
                        u8::try_from(buf.len() - at).map_or(self.padding, |left| left.min(self.padding));
                    self.padding -= skipped;
                    at += usize::from(skipped);
                    if self.padding > 0 {
                        return Ok(FastCgiEvent::NeedMore(at));
                    }
                    self.state = if self.state == State::Padding { State::Head } else { State::Done };
                }
                State::Stdout | State::Stderr => {
                    if self.content == 0 {
                        self.state = State::Padding;
                    } else if at == buf.len() {
                        return Ok(FastCgiEvent::NeedMore(at));
                    } else {
                        return Ok(self.take_content(at, buf.len()));
                    }
                }
                State::Head | State::EndRequest => {
                    at += self.hold(&buf[at..]);
                    if self.filled < HEADER {
                        return Ok(FastCgiEvent::NeedMore(at));
                    }
                    self.filled = 0;
                    self.state =
                        if self.state == State::Head { self.start_record()? } else { State::LastPadding };
                }
            }
        }
    }

    fn hold(&mut self, buf: &[u8]) -> usize {
        let taken = (HEADER - self.filled).min(buf.len());
        self.held[self.filled..][..taken].copy_from_slice(&buf[..taken]);
        self.filled += taken;
        taken
    }

    fn take_content(&mut self, at: usize, end: usize) -> FastCgiEvent {
        let taken = u16::try_from(end - at).map_or(self.content, |there| there.min(self.content));
        self.content -= taken;
        let range = at..at + usize::from(taken);
        if self.state == State::Stdout { FastCgiEvent::Stdout(range) } else { FastCgiEvent::Stderr(range) }
    }

    fn start_record(&mut self) -> Result<State, FastCgiError> {
        let [version, kind, id_high, id_low, high, low, padding, _] = self.held;
        if version != VERSION {
            return Err(FastCgiError::Version);
        }
        if u16::from_be_bytes([id_high, id_low]) != REQUEST {
            return Err(FastCgiError::RequestId);
        }
        self.content = u16::from_be_bytes([high, low]);
        self.padding = padding;
        match kind {
            STDOUT => {
                self.stdout_closed = self.content == 0;
                Ok(State::Stdout)
            }
            STDERR => Ok(State::Stderr),
            END_REQUEST if usize::from(self.content) == HEADER => Ok(State::EndRequest),
            END_REQUEST => Err(FastCgiError::EndRequest),
            _ => Err(FastCgiError::Type),
        }
    }

    fn app_status(&self) -> u32 {
        let [a, b, c, d, ..] = self.held;
        u32::from_be_bytes([a, b, c, d])
    }
}
