//! Heads and trailers as HTTP has them (RFC 9113 §8): what a header list means, or why it means nothing.
//!
//! Owns: the checks of §8.2 and §8.3, and where the pseudo-fields stand.
//! Never: decides what a request leads to.
//! Driven by: `receive`.
//! Why all checks stand here: a list that gets through can be written as an HTTP/1.1 message as it is. Nothing in it can
//! end a line, name a second host or claim another length.

use weir_http::Authority;
use weir_http::scan::{is_field_value, is_token};

use super::fields::{FieldRef, Fields};

/// What a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadKind {
    /// A request.
    Request,
    /// A 1xx answer: another head follows.
    Interim,
    /// An answer.
    Response,
    /// Fields behind a body.
    Trailers,
}

/// What a list is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Request,
    Response,
    Trailers,
}

/// A list is no message: RFC 9113 §8.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A head or trailers, decoded and checked.
#[derive(Debug, Default)]
pub struct Head {
    pub(crate) fields: Fields,
    /// Pseudo-fields come first; so many there are.
    pseudo: usize,
    method: Option<usize>,
    scheme: Option<usize>,
    authority: Option<usize>,
    path: Option<usize>,
    host: Option<usize>,
    status: u16,
    length: Option<u64>,
}

impl Head {
    /// The method; empty in what is no request.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.at(self.method).unwrap_or_default()
    }

    /// The scheme; `None` in CONNECT.
    #[must_use]
    pub fn scheme(&self) -> Option<&[u8]> {
        self.at(self.scheme)
    }

    /// The host asked, from `:authority` or `host`; both say the same where both are.
    #[must_use]
    pub fn authority(&self) -> Option<&[u8]> {
        self.at(self.authority).or_else(|| self.at(self.host))
    }

    /// Path and query, or `*`; `None` in CONNECT.
    #[must_use]
    pub fn path(&self) -> Option<&[u8]> {
        self.at(self.path)
    }

    /// The status; 0 in what is no answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// What `content-length` says.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The fields behind the pseudo-fields.
    pub fn fields(&self) -> impl Iterator<Item = FieldRef<'_>> + '_ {
        (self.pseudo..self.fields.len()).filter_map(|at| self.fields.get(at))
    }

    fn at(&self, place: Option<usize>) -> Option<&[u8]> {
        self.fields.get(place?).map(|field| field.value)
    }

    /// Checks the list that was decoded into `fields`.
    pub(crate) fn check(&mut self, expected: Expected) -> Result<HeadKind, Malformed> {
        let Self { fields, .. } = self;
        let fields = std::mem::take(fields);
        *self = Self::default();
        let checked = self.look_at(&fields, expected);
        self.fields = fields;
        checked?;
        match expected {
            Expected::Request => self.request(),
            Expected::Response => self.response(),
            Expected::Trailers if self.pseudo > 0 => Err(Malformed),
            Expected::Trailers => Ok(HeadKind::Trailers),
        }
    }

    fn look_at(&mut self, fields: &Fields, expected: Expected) -> Result<(), Malformed> {
        for (at, field) in fields.iter().enumerate() {
            if field.name.first() == Some(&b':') {
                self.pseudo_field(at, field)?;
            } else {
                self.field(at, field, expected)?;
            }
        }
        Ok(())
    }

    fn pseudo_field(&mut self, at: usize, field: FieldRef<'_>) -> Result<(), Malformed> {
        // Behind other fields, or a second time: malformed.
        if at != self.pseudo || !is_value(field.value) {
            return Err(Malformed);
        }
        self.pseudo += 1;
        let place = match field.name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            b":status" => {
                let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = *field.value else {
                    return Err(Malformed);
                };
                let status = [a, b, c].iter().fold(0, |all, digit| all * 10 + u16::from(digit - b'0'));
                let first = std::mem::replace(&mut self.status, status) == 0;
                return if first { Ok(()) } else { Err(Malformed) };
            }
            _ => return Err(Malformed),
        };
        if place.replace(at).is_some() { Err(Malformed) } else { Ok(()) }
    }

    fn field(&mut self, at: usize, field: FieldRef<'_>, expected: Expected) -> Result<(), Malformed> {
        let FieldRef { name, value, .. } = field;
        let named = if expected == Expected::Request { is_name(name) } else { is_token(name) };
        if !named || name.iter().any(u8::is_ascii_uppercase) || !is_value(value) {
            return Err(Malformed);
        }
        match name {
            // They belong to one connection of HTTP/1 (§8.2.2).
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                return Err(Malformed);
            }
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => return Err(Malformed),
            b"content-length" => {
                // In trailers it would be a second opinion on a body that is over.
                let length = digits(value).ok_or(Malformed)?;
                if self.length.replace(length).is_some() || expected == Expected::Trailers {
                    return Err(Malformed);
                }
            }
            b"host" if expected == Expected::Request && self.host.replace(at).is_some() => {
                return Err(Malformed);
            }
            _ => {}
        }
        Ok(())
    }

    fn request(&mut self) -> Result<HeadKind, Malformed> {
        let method = self.at(self.method).filter(|method| is_token(method)).ok_or(Malformed)?;
        if self.status != 0 {
            return Err(Malformed);
        }
        // One host, whoever reads it.
        let authority = match (self.at(self.authority), self.at(self.host)) {
            (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => return Err(Malformed),
            (one, other) => one.or(other).ok_or(Malformed)?,
        };
        let parsed = Authority::parse(authority).ok_or(Malformed)?;
        if method == b"CONNECT" {
            let bare = self.scheme.is_none() && self.path.is_none() && self.authority.is_some();
            return if bare && parsed.port.is_some() { Ok(HeadKind::Request) } else { Err(Malformed) };
        }
        let scheme = self.at(self.scheme).ok_or(Malformed)?;
        let path = self.at(self.path).ok_or(Malformed)?;
        let rooted = path.first() == Some(&b'/') || (path == b"*" && method == b"OPTIONS");
        let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
        if !rooted || !known || !path.iter().all(|&b| is_target_byte(b)) {
            return Err(Malformed);
        }
        Ok(HeadKind::Request)
    }

    fn response(&mut self) -> Result<HeadKind, Malformed> {
        let other = self.method.or(self.scheme).or(self.authority).or(self.path);
        match self.status {
            _ if other.is_some() => Err(Malformed),
            // There is no upgrade (§8.6).
            0 | 101 => Err(Malformed),
            100..200 => Ok(HeadKind::Interim),
            _ => Ok(HeadKind::Response),
        }
    }
}

/// What may name a field (§8.2.1). Not each is a token: whoever takes a request over leaves others out, or refuses it.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| matches!(byte, 0x21..=0x7e) && byte != b':')
}

/// No control bytes, and no blank at either end (§8.2.1).
fn is_value(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_field_value(value) && !blank(value.first()) && !blank(value.last())
}

/// As in HTTP/1 (`weir_http::scan`): no control byte, no blank. A fragment is judged by who takes the request over.
fn is_target_byte(byte: u8) -> bool {
    byte > 0x20 && byte != 0x7f
}

fn digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |all, &byte| {
        byte.is_ascii_digit().then_some(())?;
        all.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Expected, fields: &[(&str, &str)]) -> Result<(HeadKind, Head), Malformed> {
        let mut head = Head::default();
        for (name, value) in fields {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        head.check(expected).map(|kind| (kind, head))
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a:1"), (":path", "/x?y")];

    fn get(more: &[(&str, &str)]) -> Result<(HeadKind, Head), Malformed> {
        check(Expected::Request, &[&GET[..], more].concat())
    }

    #[test]
    fn requests_are_taken_apart() {
        let (kind, head) = get(&[("content-length", "12"), ("te", "trailers"), ("cookie", "a")]).unwrap();
        assert_eq!((kind, head.method(), head.path()), (HeadKind::Request, &b"GET"[..], Some(&b"/x?y"[..])));
        assert_eq!(
            (head.authority(), head.length(), head.fields().count()),
            (Some(&b"a:1"[..]), Some(12), 3)
        );
        assert!(get(&[("host", "A:1")]).is_ok());
        let star = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), ("host", "a")];
        assert_eq!(check(Expected::Request, &star).unwrap().1.authority(), Some(&b"a"[..]));
        let connect = [(":method", "CONNECT"), (":authority", "a:443")];
        assert!(check(Expected::Request, &connect).is_ok());
    }

    #[test]
    fn malformed_requests_are_refused() {
        for bad in [
            ("Upper", "x"),
            ("", "x"),
            ("a b", "x"),
            ("a:b", "x"),
            ("x", "a\r\nb: c"),
            ("x", "a\nb"),
            ("x", "a\0"),
            ("x", " a"),
            ("x", "a\t"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
            ("host", "b"),
            ("content-length", ""),
            ("content-length", "+1"),
            ("content-length", "1, 1"),
            ("content-length", "18446744073709551616"),
            (":path", "/again"),
            (":status", "200"),
            (":protocol", "websocket"),
            (":other", "x"),
        ] {
            assert!(get(&[bad]).is_err(), "{bad:?}");
        }
        assert!(get(&[("content-length", "1"), ("content-length", "1")]).is_err());
        assert!(get(&[("host", "a:1"), ("host", "a:1")]).is_err());
        assert!(get(&[("x", "1"), (":method", "GET")]).is_err());
        for (left_out, _) in GET {
            let rest: Vec<_> = GET.into_iter().filter(|(name, _)| *name != left_out).collect();
            assert!(check(Expected::Request, &rest).is_err(), "without {left_out}");
        }
        for (name, value) in [
            (":path", ""),
            (":path", "x"),
            (":path", "*"),
            (":path", "/a b"),
            (":path", "http://b/"),
            (":authority", "a/b"),
            (":authority", "u@a"),
            (":authority", ""),
            (":scheme", "ftp"),
            (":method", "G T"),
            (":method", ""),
            (":method", "CONNECT"),
        ] {
            let with = GET.map(|(known, usual)| (known, if known == name { value } else { usual }));
            assert!(check(Expected::Request, &with).is_err(), "{name} {value:?}");
        }
        assert!(check(Expected::Request, &[(":method", "CONNECT"), (":authority", "a")]).is_err());
    }

    #[test]
    fn answers_and_trailers() {
        let answer = |status: &str| check(Expected::Response, &[(":status", status)]).map(|(kind, _)| kind);
        assert_eq!(answer("200"), Ok(HeadKind::Response));
        assert_eq!(answer("103"), Ok(HeadKind::Interim));
        for bad in ["", "20", "2000", "099", "20x", "101"] {
            assert!(answer(bad).is_err(), "{bad}");
        }
        assert!(check(Expected::Response, &[]).is_err());
        assert!(check(Expected::Response, &[(":status", "200"), (":path", "/")]).is_err());
        assert!(check(Expected::Response, &[(":status", "200"), (":status", "200")]).is_err());
        assert!(check(Expected::Trailers, &[("grpc-status", "0")]).is_ok());
        assert!(check(Expected::Trailers, &[(":status", "200")]).is_err());
        assert!(check(Expected::Trailers, &[("content-length", "3")]).is_err());
    }
}
