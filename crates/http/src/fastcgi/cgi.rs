//! The head of a CGI answer: RFC 3875 §6.
//!
//! Owns: [`CgiHead`]: its fields, and the status that `Status` or `Location` give it.
//! Never: frames the body; that is the record stream's.
//! Why: unlike HTTP, CGI lets lines end in LF alone. Otherwise the grammar is as strict as elsewhere, since the fields
//! are written out again.

use crate::connection;
use crate::field::{Field, FieldTable, Headers};
use crate::framing::parse_length;
use crate::limits::HeadRules;
use crate::lines::LineError;
use crate::name::HeaderId;
use crate::request::Parsed;
use crate::scan;

/// Why a CGI head is refused, with 502.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgiError {
    /// A line is malformed or too much.
    Line(LineError),
    /// The Status field does not begin with three digits, or stands there twice.
    Status,
    /// The Content-Length field is not one number.
    Length,
}

impl CgiError {
    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line(error) => error.as_str(),
            Self::Status => "invalid Status field",
            Self::Length => "invalid Content-Length",
        }
    }
}

impl std::fmt::Display for CgiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for CgiError {}

impl From<LineError> for CgiError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

/// A CGI head, parsed or on its way. Reuse it: its table keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct CgiHead {
    line: usize,
    /// No LF stands between `line` and here.
    seen: usize,
    done: bool,
    table: FieldTable,
    status: u16,
    length: Option<u64>,
    /// The answer may begin with a status line of HTTP/1, and where its words stand if it does.
    may_begin: bool,
    words: Option<(usize, usize)>,
}

impl CgiHead {
    /// An empty head.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty head of an answer that may begin with a status line of HTTP/1, as those of uwsgi and some of SCGI do.
    #[must_use]
    pub fn with_status_line() -> Self {
        Self { may_begin: true, ..Self::default() }
    }

    /// Forgets the answer, keeps the table's memory.
    pub fn reset(&mut self) {
        self.table.clear();
        (self.line, self.seen, self.done) = (0, 0, false);
        self.words = None;
    }

    /// Parses `buf`, which holds all of the answer that has come.
    ///
    /// # Errors
    /// The head breaks the grammar or a bound; it stays broken whatever follows.
    pub fn parse(&mut self, buf: &[u8], rules: &HeadRules) -> Result<Parsed, CgiError> {
        while !self.done {
            let from = self.seen.max(self.line);
            let Some(end) = memchr::memchr(b'\n', &buf[from.min(buf.len())..]).map(|n| from + n) else {
                self.seen = buf.len();
                self.check_bounds(buf.len(), rules)?;
                return Ok(Parsed::NeedMore);
            };
            self.check_bounds(end, rules)?;
            self.parse_line(buf, end, rules)?;
            self.line = end + 1;
            self.seen = self.line;
        }
        Ok(Parsed::Whole(self.line))
    }

    fn check_bounds(&self, end: usize, rules: &HeadRules) -> Result<(), LineError> {
        if end - self.line > rules.field_limit() {
            return Err(LineError::FieldTooLong);
        }
        if end > rules.head_limit() {
            return Err(LineError::HeadTooLong);
        }
        Ok(())
    }

    /// One line, from `self.line` to the LF at `end`.
    fn parse_line(&mut self, buf: &[u8], end: usize, rules: &HeadRules) -> Result<(), CgiError> {
        let start = self.line;
        let line = buf[start..end].strip_suffix(b"\r").unwrap_or(&buf[start..end]);
        if self.may_begin && start == 0 && line.starts_with(b"HTTP/1.") {
            return self.parse_status_line(line);
        }
        if line.is_empty() {
            self.done = true;
            return self.finish(buf);
        }
        let colon = scan::token_end(line, 0);
        match line.get(colon) {
            Some(b':') if colon > 0 => {}
            Some(b' ' | b'\t') if colon == 0 => return Err(LineError::Folding.into()),
            Some(b' ' | b'\t') => return Err(LineError::SpaceBeforeColon.into()),
            _ => return Err(LineError::FieldName.into()),
        }
        let raw = &line[colon + 1..];
        if !scan::is_field_value(raw) {
            return Err(LineError::Control.into());
        }
        if self.table.len() >= rules.fields {
            return Err(LineError::TooManyFields.into());
        }
        let value = scan::trim_ows(raw);
        let skipped = raw.iter().take_while(|&&b| scan::is_ows(b)).count();
        let value_at = start + colon + 1 + skipped;
        let id = HeaderId::of(&line[..colon]);
        self.table.push(Field::new(start..start + colon, value_at..value_at + value.len(), id));
        Ok(())
    }

    /// `HTTP/1.1 200 OK`: what it says of the version means nothing, since no connection is kept.
    fn parse_status_line(&mut self, line: &[u8]) -> Result<(), CgiError> {
        let at = memchr::memchr(b' ', line).ok_or(CgiError::Status)? + 1;
        let rest = &line[at..];
        if !scan::is_field_value(rest) {
            return Err(LineError::Control.into());
        }
        self.status = status(rest).ok_or(CgiError::Status)?;
        self.words = Some((line.len().min(at + 4), line.len()));
        Ok(())
    }

    fn finish(&mut self, buf: &[u8]) -> Result<(), CgiError> {
        let headers = self.table.view(buf);
        if headers.repeats(HeaderId::Status) {
            return Err(CgiError::Status);
        }
        self.status = match headers.value(HeaderId::Status) {
            Some(value) => status(value).ok_or(CgiError::Status)?,
            None if self.words.is_some() => self.status,
            None if headers.has(HeaderId::Location) => 302,
            None => 200,
        };
        if headers.repeats(HeaderId::ContentLength) {
            return Err(CgiError::Length);
        }
        self.length = match headers.value(HeaderId::ContentLength) {
            Some(value) => Some(parse_length(value).ok_or(CgiError::Length)?),
            None => None,
        };
        if connection::analyse(&mut self.table, buf).excessive {
            return Err(LineError::TooManyFields.into());
        }
        self.table.mark_hop_by_hop(buf, |id, _| id == HeaderId::Status);
        Ok(())
    }

    /// The status: of `Status`, else of a status line, else 302 with `Location`, else 200. Meaningful once the head is whole.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The words behind the digits of `Status`.
    #[must_use]
    pub fn reason<'a>(&'a self, buf: &'a [u8]) -> Option<&'a [u8]> {
        let value = match self.headers(buf).value(HeaderId::Status) {
            Some(value) => value.get(4..),
            None => self.words.and_then(|(from, to)| buf.get(from..to)),
        };
        value.filter(|words| !words.is_empty())
    }

    /// Content-Length, if the application gave one. A body of another length is cut or broken.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.length
    }

    /// The fields. [`Headers::end_to_end`] leaves out `Status`.
    #[must_use]
    pub fn headers<'a>(&'a self, buf: &'a [u8]) -> Headers<'a> {
        self.table.view(buf)
    }
}

/// Three digits, alone or before a space. Scripts have no interim answers, and change no protocol (RFC 3875 §6.3.3).
fn status(value: &[u8]) -> Option<u16> {
    let (digits, rest) = value.split_at_checked(3)?;
    if rest.first().is_some_and(|&b| b != b' ') {
        return None;
    }
    parse_length(digits).and_then(|n| u16::try_from(n).ok()).filter(|n| (200..1000).contains(n))
}
