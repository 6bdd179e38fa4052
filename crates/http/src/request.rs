//! Request heads.
//!
//! Owns: [`RequestHead`], the reusable result of parsing, and the rules that make a request one that only one reading
//! has (RFC 9112 §3, §5, §6.3).
//! Never: copies the head, answers it, or looks at the body.
//! Driven by: `wire`, with a buffer that grows; read by `engine` through [`Request`].
//! Why: an own parser, because `httparse` takes what is refused here (a head that mixes line ends, no Host, two lengths) and starts anew
//! when more bytes come. By callgrind (`examples/parse_heads.rs`), in instructions a head: a browser's 6,900 against
//! 4,000, `wrk`'s 1,400 against 730, an answer of nginx 3,700 against 2,100; but the smaller figures leave out what
//! has to follow: numbering the names, checking host and lengths, marking what ends here. With those, they are equal.
//!
//! Calling order: [`RequestHead::parse`] with the whole buffer, each time more bytes have come, until it says
//! [`Parsed::Whole`]; then [`RequestHead::view`] as long as the same bytes stand at the start of a buffer (they may
//! have moved); then [`RequestHead::reset`] before the next request.

use crate::connection::{self, ConnectionOptions};
use crate::field::{FieldTable, Headers};
use crate::framing::{self, Declared, Framing, FramingError};
use crate::host::Authority;
use crate::limits::HeadRules;
use crate::lines::{self, LineEnd, LineError, Progress};
use crate::list;
use crate::method::{self, Method, Version, VersionError};
use crate::name::HeaderId;
use crate::scan;
use crate::target::{self, Target, TargetForm};

/// How far parsing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is not whole: call again with the same bytes and more.
    NeedMore,
    /// The head is whole and this many bytes long.
    Whole(usize),
}

/// Why a request head is refused. The connection is closed after the answer: where the next request would start is
/// not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// No request line: HTTP/0.9, other protocols, spaces too many or too few.
    RequestLine,
    /// The method is no token, or longer than 32 bytes.
    Method,
    /// The target has none of the four forms, or one that the method may not have.
    Target,
    /// The version is malformed.
    Version,
    /// A major version other than 1.
    UnsupportedVersion,
    /// The request line is longer than [`HeadRules::first_line`].
    LineTooLong,
    /// A line is malformed or too much.
    Line(LineError),
    /// HTTP/1.1 without Host.
    NoHost,
    /// Several Host fields.
    RepeatedHost,
    /// The Host field holds no host.
    Host,
    /// The length of the body is in doubt.
    Framing(FramingError),
}

impl RequestError {
    /// The status to answer with: 400, 414, 431, 501 or 505.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::LineTooLong => 414,
            Self::UnsupportedVersion => 505,
            Self::Line(error) if error.is_size() => 431,
            Self::Framing(FramingError::UnknownCoding) => 501,
            _ => 400,
        }
    }

    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestLine => "invalid request line",
            Self::Method => "invalid method",
            Self::Target => "invalid request target",
            Self::Version => "invalid HTTP version",
            Self::UnsupportedVersion => "unsupported HTTP version",
            Self::LineTooLong => "request line too long",
            Self::Line(error) => error.as_str(),
            Self::NoHost => "HTTP/1.1 request without Host",
            Self::RepeatedHost => "repeated Host",
            Self::Host => "invalid Host",
            Self::Framing(error) => error.as_str(),
        }
    }
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for RequestError {}

impl From<LineError> for RequestError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

/// Most empty lines that are skipped before a request line (RFC 9112 §2.2 asks for one).
const MAX_EMPTY_LINES: usize = 4;

/// Longest method. The longest one that is registered has 17 letters (`UPDATEREDIRECTREF`); logs, tables and scripts
/// take it for a word.
const MAX_METHOD: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Line,
    Fields,
    Done,
}

/// A request head, parsed or on its way. Keep one per busy connection and reuse it: its table keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    stage: Stage,
    /// How the lines end: what the first of them says, be it an empty one.
    ends: LineEnd,
    progress: Progress,
    table: FieldTable,
    dropped: usize,
    start: usize,
    method: Method,
    method_len: usize,
    target: Target,
    /// Bytes of a fragment behind the target.
    fragment: usize,
    version: Version,
    framing: Framing,
    options: ConnectionOptions,
    /// Length of the host in the Host field, and the port behind it. Meaningful where there is a Host field.
    host: (usize, Option<u16>),
    /// The last Host field that was split, and how: most requests name the same one.
    known_host: (Vec<u8>, (usize, Option<u16>)),
}

impl RequestHead {
    /// An empty head. Allocates nothing until the first field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the request, keeps the table's memory.
    pub fn reset(&mut self) {
        self.table.clear();
        self.dropped = 0;
        self.progress = Progress::default();
        self.stage = Stage::Line;
    }

    /// Forgets the request and frees the table, for connections that go idle.
    pub fn release(&mut self) {
        self.reset();
        self.table.release();
        self.known_host = Default::default();
    }

    /// Parses `buf`, which starts with the first byte after the previous request, and holds all that has come since.
    ///
    /// # Errors
    /// The head breaks the grammar or a bound; it stays broken whatever follows.
    pub fn parse(&mut self, buf: &[u8], rules: &HeadRules) -> Result<Parsed, RequestError> {
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

    /// Whether no byte of a request has been seen: an idle connection may be closed without an answer.
    #[must_use]
    pub fn is_untouched(&self, buf: &[u8]) -> bool {
        self.stage == Stage::Line && buf.iter().all(|b| matches!(b, b'\r' | b'\n'))
    }

    /// The parsed request, over the bytes that were parsed. Meaningful once [`Parsed::Whole`] was returned.
    #[must_use]
    #[inline]
    pub fn view<'a>(&'a self, buf: &'a [u8]) -> Request<'a> {
        debug_assert!(self.stage == Stage::Done, "the head is whole");
        Request { head: self, buf }
    }

    fn parse_line(&mut self, buf: &[u8], rules: &HeadRules) -> Result<bool, RequestError> {
        if !self.skip_empty_lines(buf)? {
            return Ok(false);
        }
        if self.progress.wants(buf) {
            if let Some(next) = self.request_line(buf, rules)? {
                if next - self.start > rules.first_line + 2 {
                    return Err(RequestError::LineTooLong);
                }
                self.progress.advance(next);
                self.stage = Stage::Fields;
                return Ok(true);
            }
            self.progress.wait(buf);
        }
        if buf.len() - self.start > rules.first_line + 2 {
            return Err(RequestError::LineTooLong);
        }
        Ok(false)
    }

    /// Leaves `progress.line` at the request line; false where `buf` ends before it begins.
    fn skip_empty_lines(&mut self, buf: &[u8]) -> Result<bool, RequestError> {
        loop {
            let at = self.progress.line;
            match buf.get(at) {
                Some(b'\r' | b'\n') if at < 2 * MAX_EMPTY_LINES => match self.empty_line(buf, at)? {
                    Some(next) => self.progress.advance(next),
                    None => return Ok(false),
                },
                Some(_) => {
                    self.start = at;
                    return Ok(true);
                }
                None => return Ok(false),
            }
        }
    }

    /// The position behind an empty line. The first of them says how the lines of the head end.
    #[cold]
    fn empty_line(&mut self, buf: &[u8], at: usize) -> Result<Option<usize>, LineError> {
        if at == 0 {
            self.ends = LineEnd::of(buf[at]);
        }
        self.ends.behind(buf, at)
    }

    /// Parses `method SP target SP version` and the end of the line at `start`; `None` where the buffer ends before it does.
    fn request_line(&mut self, buf: &[u8], rules: &HeadRules) -> Result<Option<usize>, RequestError> {
        let start = self.start;
        let is_get = buf[start..].starts_with(b"GET ");
        let method_end = if is_get { start + 3 } else { scan::token_end(buf, start) };
        match buf.get(method_end) {
            None => return Ok(None),
            Some(b' ') if (1..=MAX_METHOD).contains(&(method_end - start)) => {}
            Some(b'\r' | b'\n') if method_end > start => return Err(RequestError::RequestLine),
            Some(_) => return Err(RequestError::Method),
        }
        let target_start = method_end + 1;
        let target_end = scan::target_end(buf, target_start);
        let mut end = target_end;
        if rules.mends && buf.get(end) == Some(&b'#') {
            end = fragment_end(buf, end);
        }
        match buf.get(end) {
            None => return Ok(None),
            Some(b' ') if target_end > target_start => {}
            // No version: HTTP/0.9. An empty target: two spaces.
            Some(b' ' | b'\r' | b'\n') => return Err(RequestError::RequestLine),
            Some(_) => return Err(RequestError::Target),
        }
        let version_start = end + 1;
        let may_end_so = start == 0 || self.ends == LineEnd::CrLf;
        let next = if may_end_so && buf[version_start..].starts_with(b"HTTP/1.1\r\n") {
            self.ends = LineEnd::CrLf;
            self.version = Version::Http11;
            version_start + 10
        } else {
            let Some(next) = self.other_version(buf, version_start)? else { return Ok(None) };
            next
        };
        self.method = if is_get { Method::Get } else { Method::of(&buf[start..method_end]) };
        self.method_len = method_end - start;
        self.fragment = end - target_end;
        self.target =
            target::parse(buf, target_start..target_end, self.method).ok_or(RequestError::Target)?;
        Ok(Some(next))
    }

    /// Parses a version that is not the usual one, or ends otherwise: the position behind its line.
    fn other_version(&mut self, buf: &[u8], start: usize) -> Result<Option<usize>, RequestError> {
        let Some(end) = memchr::memchr2(b'\r', b'\n', &buf[start..]).map(|n| n + start) else {
            return Ok(None);
        };
        let Some(next) = self.version_end(buf, end)? else { return Ok(None) };
        self.version = method::parse_version(&buf[start..end]).map_err(|error| match error {
            VersionError::Malformed => RequestError::Version,
            VersionError::OtherMajor => RequestError::UnsupportedVersion,
        })?;
        Ok(Some(next))
    }

    /// The position behind the end of the request line, which says how the others end if nothing came before it.
    fn version_end(&mut self, buf: &[u8], at: usize) -> Result<Option<usize>, LineError> {
        if self.start == 0 {
            self.ends = LineEnd::of(buf[at]);
        }
        self.ends.behind(buf, at)
    }

    /// The rules over several fields.
    fn finish(&mut self, buf: &[u8]) -> Result<(), RequestError> {
        let headers = self.table.view(buf);
        self.host = split_host(&mut self.known_host, headers, self.version)?;
        self.framing = match framing::declared(headers, self.version).map_err(RequestError::Framing)? {
            Declared::Nothing | Declared::Length(0) => Framing::None,
            Declared::Length(n) => Framing::Length(n),
            Declared::Chunked => Framing::Chunked,
        };
        self.options = connection::analyse(&mut self.table, buf);
        if self.options.excessive {
            return Err(LineError::TooManyFields.into());
        }
        Ok(())
    }
}

/// The end of a fragment that begins at `at`.
#[cold]
fn fragment_end(buf: &[u8], at: usize) -> usize {
    buf[at..].iter().position(|&byte| byte <= b' ' || byte == 0x7f).map_or(buf.len(), |length| at + length)
}

/// Longest Host field that is remembered.
const MAX_KNOWN_HOST: usize = 255;

/// Checks the Host field, and splits it: the length of the host, and the port behind it.
fn split_host(
    known: &mut (Vec<u8>, (usize, Option<u16>)),
    headers: Headers<'_>,
    version: Version,
) -> Result<(usize, Option<u16>), RequestError> {
    if headers.repeats(HeaderId::Host) {
        return Err(RequestError::RepeatedHost);
    }
    match headers.value(HeaderId::Host) {
        // What is remembered was a host: it is not empty.
        Some(host) if host == known.0 && !host.is_empty() => Ok(known.1),
        Some(host) => {
            let split = Authority::parse(host).ok_or(RequestError::Host)?;
            let split = (split.host.len(), split.port);
            if host.len() <= MAX_KNOWN_HOST {
                known.0.clear();
                known.0.extend_from_slice(host);
                known.1 = split;
            }
            Ok(split)
        }
        None if version >= Version::Http11 => Err(RequestError::NoHost),
        None => Ok((0, None)),
    }
}

/// A parsed request head over its bytes. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    head: &'a RequestHead,
    buf: &'a [u8],
}

impl<'a> Request<'a> {
    /// The method. CONNECT is for the engine to refuse (405).
    #[must_use]
    #[inline]
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as spelt.
    #[must_use]
    #[inline]
    pub fn method_text(&self) -> &'a [u8] {
        &self.buf[self.head.start..][..self.head.method_len]
    }

    /// The protocol version.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The request line, without its CRLF: `$request`.
    #[must_use]
    #[inline]
    pub fn line(&self) -> &'a [u8] {
        let end = self.head.target.whole.end + self.head.fragment + 1 + "HTTP/1.1".len();
        &self.buf[self.head.start..end]
    }

    /// The form of the target.
    #[must_use]
    #[inline]
    pub fn target_form(&self) -> TargetForm {
        self.head.target.form
    }

    /// The target as written.
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        &self.buf[self.head.target.whole.clone()]
    }

    /// The target in origin-form (or `*`), not decoded: `$request_uri` without scheme and authority. An absolute-form
    /// target without a path but with a query (`http://a?b`) gives `?b`; [`Request::put_origin_target`] gives `/?b`.
    #[must_use]
    pub fn origin_target(&self) -> &'a [u8] {
        let target = &self.head.target;
        match target.form {
            TargetForm::Absolute if target.path.start == target.whole.end => b"/",
            TargetForm::Absolute => &self.buf[target.path.start..target.whole.end],
            _ => self.target(),
        }
    }

    /// Appends the target in origin-form, as it is to be sent on: [`Request::path`] and [`Request::query`].
    pub fn put_origin_target(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.path());
        if let Some(query) = self.query() {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }

    /// The path as written, never empty: `/` stands for none, `*` for asterisk-form.
    #[must_use]
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        let target = &self.head.target;
        match target.form {
            TargetForm::Absolute if target.path.is_empty() => self.empty_path(),
            TargetForm::Authority => b"/",
            _ => &self.buf[target.path.clone()],
        }
    }

    /// RFC 9112 §3.2.4: OPTIONS for an absolute URI without a path asks about the server.
    fn empty_path(&self) -> &'static [u8] {
        let asks_server = self.head.method == Method::Options && self.head.target.query.is_none();
        if asks_server { b"*" } else { b"/" }
    }

    /// The query without its `?`; `None` where there is no `?`.
    #[must_use]
    #[inline]
    pub fn query(&self) -> Option<&'a [u8]> {
        self.head.target.query.clone().map(|range| &self.buf[range])
    }

    /// Whether an absolute-form target said `https`.
    #[must_use]
    #[inline]
    pub fn target_is_https(&self) -> bool {
        self.head.target.https
    }

    /// The authority that the request is for: of the target if it has one, else of the Host field. `None` only in
    /// HTTP/1.0. Whoever forwards the request must send this one as Host (RFC 9112 §3.2.2).
    #[must_use]
    pub fn authority_text(&self) -> Option<&'a [u8]> {
        match self.head.target.form {
            TargetForm::Absolute | TargetForm::Authority => {
                Some(&self.buf[self.head.target.authority.clone()])
            }
            TargetForm::Origin | TargetForm::Asterisk => self.headers().value(HeaderId::Host),
        }
    }

    /// [`Request::authority_text`], split.
    #[must_use]
    pub fn authority(&self) -> Option<Authority<'a>> {
        match self.head.target.form {
            TargetForm::Absolute | TargetForm::Authority => {
                Authority::parse(&self.buf[self.head.target.authority.clone()])
            }
            TargetForm::Origin | TargetForm::Asterisk => {
                let (length, port) = self.head.host;
                Some(Authority { host: &self.headers().value(HeaderId::Host)?[..length], port })
            }
        }
    }

    /// The fields.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        self.head.table.view(self.buf)
    }

    /// How the body is framed.
    #[must_use]
    #[inline]
    pub fn framing(&self) -> Framing {
        self.head.framing
    }

    /// The options of the Connection field.
    #[must_use]
    #[inline]
    pub fn connection(&self) -> ConnectionOptions {
        self.head.options
    }

    /// Whether the client keeps the connection open for another request.
    #[must_use]
    #[inline]
    pub fn keep_alive(&self) -> bool {
        self.head.options.persists(self.head.version)
    }

    /// Whether the client asks for `100 Continue`, be there a body that it would send then or not: RFC 9110 §10.1.1.
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.head.version >= Version::Http11
            && self.headers().has(HeaderId::Expect)
            && self.headers().values(HeaderId::Expect).any(|value| list::contains(value, b"100-continue"))
    }

    /// Whether an Expect field asks for anything but `100-continue`, which is answered 417.
    #[must_use]
    pub fn expects_unknown(&self) -> bool {
        self.head.version >= Version::Http11
            && self.headers().has(HeaderId::Expect)
            && self
                .headers()
                .values(HeaderId::Expect)
                .flat_map(list::items)
                .any(|item| !item.eq_ignore_ascii_case(b"100-continue"))
    }

    /// The first protocol that the client offers to change to and that may be passed on (never HTTP/2 or TLS).
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        let asked = self.head.options.upgrade && self.head.version >= Version::Http11;
        asked.then(|| connection::offered_upgrades(self.headers()).next()).flatten()
    }

    /// Whether this asks for a WebSocket: RFC 6455 §4.1.
    #[must_use]
    pub fn is_websocket(&self) -> bool {
        self.head.method == Method::Get
            && self.upgrade().is_some_and(|p| p.eq_ignore_ascii_case(b"websocket"))
    }

    /// Whether the client takes trailers: `TE: trailers`.
    #[must_use]
    pub fn takes_trailers(&self) -> bool {
        self.headers().values(HeaderId::Te).any(|value| list::contains(value, b"trailers"))
    }
}
