//! Response heads, as upstreams send them.
//!
//! Owns: [`ResponseHead`], the reusable result of parsing; which body follows (RFC 9112 §6.3), and whether the
//! connection may be used again.
//! Never: guesses. What does not parse is answered 502 and the connection closed.
//! Driven by: `wire`, with a buffer that grows; read through [`Response`].
//!
//! Calling order: as for requests. Interim heads (1xx but 101) are heads of their own: after [`Parsed::Whole`] with
//! [`Response::is_interim`], take the bytes away, [`ResponseHead::reset`], and parse the next one. Bound how many.

use crate::connection::{self, ConnectionOptions};
use crate::field::{FieldTable, Headers};
use crate::framing::{self, Declared, Framing, FramingError};
use crate::limits::HeadRules;
use crate::lines::{self, LineEnd, LineError, Progress};
use crate::method::{self, Method, Version};
use crate::name::HeaderId;
use crate::request::Parsed;
use crate::scan;

/// Why an answer is refused. All are the upstream's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// No status line: HTTP/0.9, another protocol or version, a status that is not three digits.
    StatusLine,
    /// The status line is longer than [`HeadRules::first_line`].
    LineTooLong,
    /// A line is malformed or too much.
    Line(LineError),
    /// The length of the body is in doubt.
    Framing(FramingError),
}

impl ResponseError {
    /// Whether a bound was exceeded, as opposed to the grammar broken.
    #[must_use]
    pub fn is_size(self) -> bool {
        match self {
            Self::LineTooLong => true,
            Self::Line(error) => error.is_size(),
            Self::StatusLine | Self::Framing(_) => false,
        }
    }

    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StatusLine => "invalid status line",
            Self::LineTooLong => "status line too long",
            Self::Line(error) => error.as_str(),
            Self::Framing(error) => error.as_str(),
        }
    }
}

impl std::fmt::Display for ResponseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ResponseError {}

impl From<LineError> for ResponseError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Line,
    Fields,
    Done,
}

/// A response head, parsed or on its way. Reuse it: its table keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    stage: Stage,
    /// How the lines end: what the status line says.
    ends: LineEnd,
    progress: Progress,
    table: FieldTable,
    dropped: usize,
    version: Version,
    status: u16,
    line_end: usize,
    declared: Option<Declared>,
    options: ConnectionOptions,
}

/// `HTTP/1.1 200`, after which a reason may follow.
const PREFIX: usize = 12;

impl ResponseHead {
    /// An empty head. Allocates nothing until the first field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the answer, keeps the table's memory.
    pub fn reset(&mut self) {
        self.table.clear();
        self.dropped = 0;
        self.progress = Progress::default();
        self.stage = Stage::Line;
        self.declared = None;
    }

    /// Forgets the answer and frees the table.
    pub fn release(&mut self) {
        self.reset();
        self.table.release();
    }

    /// Parses `buf`, which starts with the first byte of the answer and holds all that has come since.
    ///
    /// # Errors
    /// The head breaks the grammar or a bound; it stays broken whatever follows.
    pub fn parse(&mut self, buf: &[u8], rules: &HeadRules) -> Result<Parsed, ResponseError> {
        if self.stage == Stage::Line && !self.parse_line(buf, rules)? {
            return Ok(Parsed::NeedMore);
        }
        if self.stage == Stage::Fields {
            let Self { ends, progress, table, dropped, .. } = self;
            let whole = lines::parse_fields(*ends, progress, table, dropped, buf, rules)?;
            if !whole {
                return Ok(Parsed::NeedMore);
            }
            self.finish(buf)?;
            self.stage = Stage::Done;
        }
        Ok(Parsed::Whole(self.progress.line))
    }

    /// The parsed answer, over the bytes that were parsed. Meaningful once [`Parsed::Whole`] was returned.
    #[must_use]
    #[inline]
    pub fn view<'a>(&'a self, buf: &'a [u8]) -> Response<'a> {
        debug_assert!(self.stage == Stage::Done, "the head is whole");
        Response { head: self, buf }
    }

    fn parse_line(&mut self, buf: &[u8], rules: &HeadRules) -> Result<bool, ResponseError> {
        if self.progress.wants(buf) {
            if let Some(next) = self.status_line(buf)? {
                if next > rules.first_line + 2 {
                    return Err(ResponseError::LineTooLong);
                }
                self.progress.advance(next);
                self.stage = Stage::Fields;
                return Ok(true);
            }
            self.progress.wait(buf);
        }
        if buf.len() > rules.first_line + 2 {
            return Err(ResponseError::LineTooLong);
        }
        Ok(false)
    }

    fn status_line(&mut self, buf: &[u8]) -> Result<Option<usize>, ResponseError> {
        let known = &buf[..buf.len().min(PREFIX)];
        if !known.starts_with(b"HTTP/1.1 200") && !matches_prefix(known) {
            return Err(ResponseError::StatusLine);
        }
        let Some(&[_, _, _, _, _, _, _, minor, _, a, b, c]) = buf.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        self.version = method::parse_version(&[b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor])
            .map_err(|_| ResponseError::StatusLine)?;
        self.status = [a, b, c].iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
        match buf.get(PREFIX) {
            None => return Ok(None),
            // Some servers leave out the space before an empty reason; nothing else can be meant.
            Some(b' ' | b'\r' | b'\n') => {}
            Some(_) => return Err(ResponseError::StatusLine),
        }
        let end = scan::value_end(buf, PREFIX);
        self.line_end = end;
        if let [b'\r', b'\n', ..] = buf.get(end..).unwrap_or_default() {
            self.ends = LineEnd::CrLf;
            return Ok(Some(end + 2));
        }
        self.ends = LineEnd::of(buf.get(end).copied().unwrap_or_default());
        Ok(self.ends.behind(buf, end)?)
    }

    fn finish(&mut self, buf: &[u8]) -> Result<(), ResponseError> {
        let declared =
            framing::declared(self.table.view(buf), self.version).map_err(ResponseError::Framing)?;
        self.declared = Some(declared);
        self.options = connection::analyse(&mut self.table, buf);
        if self.options.excessive {
            return Err(LineError::TooManyFields.into());
        }
        Ok(())
    }
}

/// Whether `text` is how a status line begins, as far as it goes.
fn matches_prefix(text: &[u8]) -> bool {
    text.iter().zip(b"HTTP/1.d sdd").all(|(&byte, &wanted)| match wanted {
        b'd' => byte.is_ascii_digit(),
        b's' => matches!(byte, b'1'..=b'9'),
        wanted => byte == wanted,
    })
}

/// A parsed response head over its bytes. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    head: &'a ResponseHead,
    buf: &'a [u8],
}

impl<'a> Response<'a> {
    /// The protocol version.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The status, 100 to 999.
    #[must_use]
    #[inline]
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The reason phrase as written, perhaps empty.
    #[must_use]
    #[inline]
    pub fn reason(&self) -> &'a [u8] {
        self.buf.get(PREFIX + 1..self.head.line_end).unwrap_or_default()
    }

    /// The fields.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        self.head.table.view(self.buf)
    }

    /// The options of the Connection field.
    #[must_use]
    pub fn connection(&self) -> ConnectionOptions {
        self.head.options
    }

    /// Whether another head follows: 1xx, but not 101.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.head.status < 200 && self.head.status != 101
    }

    /// Whether bytes of another protocol follow: 101 with an Upgrade field, or 2xx to CONNECT. A 101 that nobody asked
    /// for is for the caller to refuse.
    #[must_use]
    pub fn is_tunnel(&self, request: Method) -> bool {
        match self.head.status {
            101 => self.head.options.upgrade && self.headers().has(HeaderId::Upgrade),
            200..300 => request == Method::Connect,
            _ => false,
        }
    }

    /// The protocol that a 101 changes to.
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        self.head.options.upgrade.then(|| connection::offered_upgrades(self.headers()).next()).flatten()
    }

    /// How the body that follows is framed, given the method of the request: RFC 9112 §6.3.
    #[must_use]
    #[inline]
    pub fn framing(&self, request: Method) -> Framing {
        if self.has_no_body(request) {
            return Framing::None;
        }
        match self.head.declared {
            Some(Declared::Chunked) => Framing::Chunked,
            Some(Declared::Length(0)) => Framing::None,
            Some(Declared::Length(n)) => Framing::Length(n),
            Some(Declared::Nothing) | None => Framing::UntilClose,
        }
    }

    /// The Content-Length field, which in an answer to HEAD and in a 304 says what the body would have been.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        match self.head.declared {
            Some(Declared::Length(n)) => Some(n),
            _ => None,
        }
    }

    /// Whether the connection may carry another request once the body has ended.
    #[must_use]
    pub fn reusable(&self, request: Method) -> bool {
        self.head.options.persists(self.head.version)
            && self.framing(request) != Framing::UntilClose
            && !self.is_tunnel(request)
            && self.head.status != 101
            && !self.announces_forbidden_body()
    }

    fn has_no_body(&self, request: Method) -> bool {
        request == Method::Head || matches!(self.head.status, 100..200 | 204 | 304) || self.is_tunnel(request)
    }

    /// 1xx and 204 have no body and may not say that they have one (RFC 9110 §8.6). Whether one follows is then
    /// anybody's guess, so the connection is not used again.
    fn announces_forbidden_body(&self) -> bool {
        matches!(self.head.status, 100..200 | 204)
            && matches!(self.head.declared, Some(Declared::Chunked | Declared::Length(1..)))
    }
}
