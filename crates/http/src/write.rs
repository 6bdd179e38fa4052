//! Writing heads.
//!
//! Owns: the canonical form of request and response heads, and the check that nothing put in breaks out of its line.
//! Never: allocates beyond the growth of the buffer that it is given.
//! Driven by: `wire` and `engine`, into a reused buffer.
//! Why: what goes out has one reading: one space, one CRLF, `Name: value`. Values from configuration, variables or
//! scripts are checked always (eight bytes a step, some nanoseconds), because the one place that forgets is a response
//! splitting hole; only fields of a parsed head, which the parser has checked, go through [`HeadWriter::forward`].

use crate::method::Version;
use crate::name::HeaderId;
use crate::scan;
use crate::status::Phrases;

/// A field or line that was left out because it would have been another line: CR, LF, NUL or another control
/// character in it, or a name that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidText;

impl std::fmt::Display for InvalidText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text that may not stand in a message head")
    }
}

impl std::error::Error for InvalidText {}

/// One or more whole field lines, checked beforehand: what configuration sets without variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldLines(Vec<u8>);

impl FieldLines {
    /// No line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The name is no token, or the value has control characters.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidText> {
        check_field(name, value)?;
        put_field(&mut self.0, name, value);
        Ok(())
    }

    /// The lines, each with its CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What `Connection` says in a response of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOption {
    /// It ends after this message.
    Close,
    /// It stays open.
    KeepAlive,
    /// It changes its protocol.
    Upgrade,
}

/// Writes one head. Dropping it without [`HeadWriter::end`] leaves a head without its end, which no peer takes for
/// whole.
#[derive(Debug)]
pub struct HeadWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> HeadWriter<'a> {
    /// Begins an answer: `HTTP/1.1 200 OK`. The version is always 1.1, whatever the client spoke: RFC 9110 §2.5. A
    /// status outside 100 to 999 is written as 500.
    pub fn response(out: &'a mut Vec<u8>, status: u16, phrases: Phrases) -> Self {
        if status == 200 {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            let status = if (100..1000).contains(&status) { status } else { 500 };
            status_line(out, status, phrases.reason(status).as_bytes());
        }
        Self { out }
    }

    /// Begins an answer with a reason of its own: of an upstream, or of the configuration. A reason that may not stand
    /// there is replaced by none.
    pub fn response_with_reason(out: &'a mut Vec<u8>, status: u16, reason: &[u8]) -> Self {
        let status = if (100..1000).contains(&status) { status } else { 500 };
        status_line(out, status, if scan::is_field_value(reason) { reason } else { b"" });
        Self { out }
    }

    /// Begins a request.
    ///
    /// # Errors
    /// The method is no token, or the target is empty or has a space or control character in it. Nothing is written.
    pub fn request(
        out: &'a mut Vec<u8>,
        method: &[u8],
        target: &[u8],
        version: Version,
    ) -> Result<Self, InvalidText> {
        if !scan::is_token(method) || target.is_empty() || scan::target_end(target, 0) != target.len() {
            return Err(InvalidText);
        }
        out.extend_from_slice(method);
        out.push(b' ');
        out.extend_from_slice(target);
        out.push(b' ');
        out.extend_from_slice(version.as_str().as_bytes());
        out.extend_from_slice(b"\r\n");
        Ok(Self { out })
    }

    /// Continues a head whose first lines were written by other means.
    pub fn resume(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Writes a field.
    ///
    /// # Errors
    /// The name is no token, or the value has control characters: nothing is written.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidText> {
        check_field(name, value)?;
        put_field(self.out, name, value);
        Ok(())
    }

    /// Writes a field whose name's number is known: a name that has one needs no check.
    ///
    /// # Errors
    /// As [`HeadWriter::field`].
    pub fn numbered(&mut self, id: HeaderId, name: &[u8], value: &[u8]) -> Result<(), InvalidText> {
        debug_assert_eq!(HeaderId::of(name), id, "the number is that of the name");
        if id == HeaderId::Unknown {
            return self.field(name, value);
        }
        if !scan::is_field_value(value) {
            return Err(InvalidText);
        }
        put_field(self.out, name, value);
        Ok(())
    }

    /// Writes a known field in its usual spelling.
    ///
    /// # Errors
    /// The value has control characters, or the id is [`HeaderId::Unknown`]: nothing is written.
    pub fn known(&mut self, id: HeaderId, value: &[u8]) -> Result<(), InvalidText> {
        if id == HeaderId::Unknown || !scan::is_field_value(value) {
            return Err(InvalidText);
        }
        put_field(self.out, id.name().as_bytes(), value);
        Ok(())
    }

    /// Says what becomes of the connection (RFC 9110 §7.6.1).
    pub fn connection(&mut self, option: ConnectionOption) {
        self.out.extend_from_slice(match option {
            ConnectionOption::Close => b"Connection: close\r\n",
            ConnectionOption::KeepAlive => b"Connection: keep-alive\r\n",
            ConnectionOption::Upgrade => b"Connection: upgrade\r\n",
        });
    }

    /// Writes a field with a number.
    pub fn number(&mut self, id: HeaderId, value: u64) {
        if id != HeaderId::Unknown {
            self.out.extend_from_slice(id.name().as_bytes());
            self.out.extend_from_slice(b": ");
            put_decimal(self.out, value);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes a field as a parsed head has it. Only for what came out of a [`crate::Headers`]: not checked again.
    pub fn forward(&mut self, name: &[u8], value: &[u8]) {
        debug_assert!(check_field(name, value).is_ok(), "the parser has checked this");
        put_field(self.out, name, value);
    }

    /// Writes prepared lines.
    pub fn lines(&mut self, lines: &FieldLines) {
        self.out.extend_from_slice(lines.as_bytes());
    }

    /// Writes the Date line of [`crate::date::DateLine::at`].
    pub fn date(&mut self, dates: &mut crate::date::DateLine, now: crate::date::HttpDate) {
        self.out.extend_from_slice(dates.at(now));
    }

    /// Ends the head.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    put_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

fn check_field(name: &[u8], value: &[u8]) -> Result<(), InvalidText> {
    if scan::is_token(name) && scan::is_field_value(value) { Ok(()) } else { Err(InvalidText) }
}

fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a decimal number.
pub fn put_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response() {
        let mut out = Vec::new();
        let mut head = HeadWriter::response(&mut out, 404, Phrases::Traditional);
        head.known(HeaderId::ContentType, b"text/html").unwrap();
        head.number(HeaderId::ContentLength, 0);
        head.field(b"X-Empty", b"").unwrap();
        head.end();
        assert_eq!(
            out,
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 0\r\nX-Empty: \r\n\r\n"
        );
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let mut out = Vec::new();
        let mut head = HeadWriter::response_with_reason(&mut out, 200, b"OK\r\nX: y");
        for (name, value) in [
            ("X", "a\r\nSet-Cookie: b"),
            ("X", "a\nb"),
            ("X", "a\rb"),
            ("X", "a\0b"),
            ("X Y", "a"),
            ("X:", "a"),
            ("", "a"),
            ("X\r\n", "a"),
        ] {
            assert_eq!(head.field(name.as_bytes(), value.as_bytes()), Err(InvalidText), "{name:?} {value:?}");
        }
        assert_eq!(head.known(HeaderId::Location, b"/\r\n\r\n"), Err(InvalidText));
        head.end();
        assert_eq!(out, b"HTTP/1.1 200 \r\n\r\n");
        for target in ["", "/a b", "/a\r\n", "/\0", "/a\tb", "/#x"] {
            let mut out = Vec::new();
            assert!(HeadWriter::request(&mut out, b"GET", target.as_bytes(), Version::Http11).is_err());
            assert!(out.is_empty());
        }
    }

    #[test]
    fn numbers() {
        for n in [0, 9, 10, 99, 12_345, u64::MAX] {
            let mut out = Vec::new();
            put_decimal(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }

    #[test]
    fn odd_statuses() {
        let mut out = Vec::new();
        HeadWriter::response(&mut out, 7, Phrases::Rfc).end();
        assert_eq!(out, b"HTTP/1.1 500 Internal Server Error\r\n\r\n");
    }
}
