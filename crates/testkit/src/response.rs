//! A strict reader of HTTP/1 answers.
//!
//! Owns: parsing a response head and body exactly as RFC 9112 frames them.
//! Never: is lenient. What a lenient client would accept may still be Weir's mistake.
//! Driven by: `Client`.
//! Why: an own reader, since the parser under test must not judge itself.

use crate::deadline::Deadline;
use crate::wire::{Ended, Wire};
use std::fmt;

/// Why no whole answer came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The connection closed in an orderly way before the first byte of an answer.
    Closed,
    /// The connection was reset before the first byte of an answer.
    Reset,
    /// It ended within an answer; the bytes say what had come.
    Truncated(String),
    /// It is not HTTP/1 as RFC 9112 writes it.
    Malformed(String),
    /// The deadline passed.
    Late(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// How the end of a body was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The status or the method allows none.
    None,
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection's end.
    Close,
}

/// One answer, whole.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// What follows the status code.
    pub reason: String,
    /// Fields in the order they came, names as written, values as Latin-1.
    pub headers: Vec<(String, String)>,
    /// The body, with the framing removed.
    pub body: Vec<u8>,
    /// How the body ended.
    pub framing: Framing,
    /// Fields after a chunked body.
    pub trailers: Vec<(String, String)>,
    /// 1xx answers that came before.
    pub interim: Vec<Response>,
}

impl Response {
    /// The only value of a field, or `None`; names match in any case.
    ///
    /// # Panics
    /// When the field came more than once: ask [`Response::all`] then.
    #[must_use]
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.all(name);
        let first = values.next();
        assert!(values.next().is_none(), "`{name}` came more than once:\n{self}");
        first
    }

    /// All values of a field.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails the test unless the status is `status`.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "wrong status:\n{self}");
        self
    }

    /// Fails the test unless the field is there, once, with this value.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn expect_header(self, name: &str, value: &str) -> Self {
        assert_eq!(self.header(name), Some(value), "wrong `{name}`:\n{self}");
        self
    }

    /// Fails the test if the field is there.
    ///
    /// # Panics
    /// When it is.
    #[track_caller]
    pub fn expect_no_header(self, name: &str) -> Self {
        assert!(self.all(name).next().is_none(), "`{name}` should be absent:\n{self}");
        self
    }

    /// Fails the test unless the body is exactly this.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn expect_body(self, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        assert!(
            self.body == body,
            "wrong body: {} bytes, wanted {} ({:?}…)\n{self}",
            self.body.len(),
            body.len(),
            String::from_utf8_lossy(&body[..body.len().min(200)])
        );
        self
    }

    /// Fails the test unless the body contains this text.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn expect_text(self, part: &str) -> Self {
        assert!(self.text().contains(part), "no `{part}` in:\n{self}");
        self
    }

    /// Fails the test unless the body was framed so.
    ///
    /// # Panics
    /// When it was not.
    #[track_caller]
    pub fn expect_framing(self, framing: Framing) -> Self {
        assert_eq!(self.framing, framing, "wrong framing:\n{self}");
        self
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} {}", self.version, self.status, self.reason)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        let shown = &self.body[..self.body.len().min(1000)];
        write!(f, "\n{}", String::from_utf8_lossy(shown))
    }
}

/// Reads one final answer, with the interim ones before it.
pub(crate) fn read(wire: &mut Wire, method: &str, deadline: Deadline) -> Result<Response, ReadError> {
    let mut interim = Vec::new();
    loop {
        let mut response = read_head(wire, deadline)?;
        if (100..200).contains(&response.status) && response.status != 101 {
            interim.push(response);
            continue;
        }
        read_body(wire, method, &mut response, deadline)?;
        response.interim = interim;
        return Ok(response);
    }
}

/// Reads a head alone: interim answers, and answers whose body the test wants to watch arrive.
pub(crate) fn read_head(wire: &mut Wire, deadline: Deadline) -> Result<Response, ReadError> {
    let head = take_head(wire, deadline)?;
    parse_head(&head)
}

fn take_head(wire: &mut Wire, deadline: Deadline) -> Result<String, ReadError> {
    loop {
        if let Some(at) = find(wire.pending(), b"\r\n\r\n") {
            return Ok(latin1(&wire.take(at + 4)));
        }
        fill(wire, deadline)?;
    }
}

fn fill(wire: &mut Wire, deadline: Deadline) -> Result<(), ReadError> {
    let begun = !wire.pending().is_empty();
    wire.fill(deadline).map(drop).map_err(|end| {
        let so_far = latin1(&wire.pending()[..wire.pending().len().min(400)]);
        match end {
            Ended::Late => ReadError::Late(so_far),
            _ if begun => ReadError::Truncated(so_far),
            Ended::Closed => ReadError::Closed,
            Ended::Reset => ReadError::Reset,
        }
    })
}

/// An end within a body is a truncation even if no byte of the part at hand has come.
fn fill_body(wire: &mut Wire, deadline: Deadline, what: &str) -> Result<(), ReadError> {
    fill(wire, deadline).map_err(|e| match e {
        ReadError::Closed | ReadError::Reset => ReadError::Truncated(format!("ended within {what}")),
        other => other,
    })
}

fn parse_head(head: &str) -> Result<Response, ReadError> {
    let bad = |why: &str| ReadError::Malformed(format!("{why}: {head:?}"));
    let mut lines = head.strip_suffix("\r\n\r\n").unwrap_or(head).split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let (version, rest) = status_line.split_once(' ').ok_or_else(|| bad("no status line"))?;
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(bad("not a version"));
    }
    let (code, reason) = rest.split_once(' ').ok_or_else(|| bad("no space after the status"))?;
    if reason.contains('\n') {
        return Err(bad("a line feed in the status line"));
    }
    if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad("not a status"));
    }
    Ok(Response {
        status: code.parse().map_err(|_| bad("not a status"))?,
        version: version.into(),
        reason: reason.into(),
        headers: lines.map(|l| parse_field(l).ok_or_else(|| bad(l))).collect::<Result<_, _>>()?,
        body: Vec::new(),
        framing: Framing::None,
        trailers: Vec::new(),
        interim: Vec::new(),
    })
}

fn parse_field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_text = |c: char| c == '\t' || (c >= ' ' && c != '\u{7f}');
    (!name.is_empty() && name.bytes().all(is_token) && value.chars().all(is_text))
        .then(|| (name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn read_body(wire: &mut Wire, method: &str, r: &mut Response, deadline: Deadline) -> Result<(), ReadError> {
    let lengths: Vec<&str> = r.all("content-length").collect();
    let codings: Vec<&str> = r.all("transfer-encoding").collect();
    let bodiless =
        method == "HEAD" || matches!(r.status, 101 | 204 | 304) || (method == "CONNECT" && r.status < 300);
    if lengths.len() > 1 || (!lengths.is_empty() && !codings.is_empty()) {
        return Err(ReadError::Malformed(format!("ambiguous length:\n{r}")));
    }
    let length = match lengths.first() {
        Some(v) => Some(decimal(v).ok_or_else(|| ReadError::Malformed(format!("content-length {v:?}")))?),
        None => None,
    };
    if bodiless {
        return Ok(());
    }
    match (codings.as_slice(), length) {
        (["chunked"], _) => read_chunked(wire, r, deadline),
        ([], Some(n)) => {
            r.framing = Framing::Length;
            r.body = take_exactly(wire, n, deadline)?;
            Ok(())
        }
        ([], None) => {
            r.framing = Framing::Close;
            match wire.drain(deadline) {
                Ended::Closed => r.body = wire.take(wire.pending().len()),
                Ended::Reset => {
                    return Err(ReadError::Truncated("reset within a body that ends by closing".into()));
                }
                Ended::Late => return Err(ReadError::Late("within a body that ends by closing".into())),
            }
            Ok(())
        }
        (other, _) => Err(ReadError::Malformed(format!("transfer-encoding {other:?}"))),
    }
}

/// Digits alone, and no more than a length can be: `parse` by itself would take a sign.
fn decimal(text: &str) -> Option<usize> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn take_exactly(wire: &mut Wire, n: usize, deadline: Deadline) -> Result<Vec<u8>, ReadError> {
    while wire.pending().len() < n {
        let have = wire.pending().len();
        fill_body(wire, deadline, &format!("a body of {n} bytes, after {have}"))?;
    }
    Ok(wire.take(n))
}

fn take_line(wire: &mut Wire, deadline: Deadline) -> Result<String, ReadError> {
    loop {
        if let Some(at) = find(wire.pending(), b"\r\n") {
            let line = wire.take(at + 2);
            return Ok(latin1(&line[..at]));
        }
        fill_body(wire, deadline, "a chunked body")?;
    }
}

fn read_chunked(wire: &mut Wire, r: &mut Response, deadline: Deadline) -> Result<(), ReadError> {
    r.framing = Framing::Chunked;
    loop {
        let line = take_line(wire, deadline)?;
        let size = line.split(';').next().unwrap_or_default();
        let size = (!size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| usize::from_str_radix(size, 16).ok())
            .flatten()
            .ok_or_else(|| ReadError::Malformed(format!("chunk size {line:?}")))?;
        if size == 0 {
            break;
        }
        let chunk = take_exactly(wire, size, deadline)?;
        r.body.extend(chunk);
        if take_exactly(wire, 2, deadline)? != b"\r\n" {
            return Err(ReadError::Malformed("no CRLF after a chunk".into()));
        }
    }
    loop {
        let line = take_line(wire, deadline)?;
        if line.is_empty() {
            return Ok(());
        }
        r.trailers.push(parse_field(&line).ok_or(ReadError::Malformed(format!("trailer {line:?}")))?);
    }
}

/// Where `needle` begins in `hay`.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|w| w == needle)
}

/// Bytes as text without loss: each byte is the character of that number.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}
