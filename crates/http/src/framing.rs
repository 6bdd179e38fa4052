//! How long a body is: RFC 9112 §6.
//!
//! Owns: [`Framing`], and the strict readings of Content-Length and Transfer-Encoding.
//! Never: touches a body byte (`body` does).
//! Why: every doubt about a length is an error. Two lengths, even equal ones, are refused: whoever sends two does not
//! know which of them the next hop believes.

use crate::field::Headers;
use crate::method::Version;
use crate::name::HeaderId;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// This many bytes.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Up to the end of the connection. Answers only.
    UntilClose,
}

impl Framing {
    /// The number of bytes, where it is known beforehand.
    #[must_use]
    pub fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(n) => Some(n),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}

/// What is wrong with the fields that frame a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingError {
    /// Content-Length is not one number of digits below 2^63.
    Length,
    /// Content-Length stands there twice.
    RepeatedLength,
    /// Content-Length together with Transfer-Encoding.
    LengthAndCoding,
    /// Transfer-Encoding in an HTTP/1.0 message.
    CodingInHttp10,
    /// Transfer-Encoding is malformed, stands there twice, or chunked is not in it once and last: the end of the body
    /// cannot be found (RFC 9112 §6.3).
    Coding,
    /// Transfer-Encoding names a coding other than chunked, before chunked or without it.
    UnknownCoding,
}

impl FramingError {
    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "invalid Content-Length",
            Self::RepeatedLength => "repeated Content-Length",
            Self::LengthAndCoding => "both Content-Length and Transfer-Encoding",
            Self::CodingInHttp10 => "Transfer-Encoding in HTTP/1.0",
            Self::Coding => "invalid Transfer-Encoding",
            Self::UnknownCoding => "unknown transfer coding",
        }
    }
}

/// What the framing fields say, before method and status are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

/// Reads both framing fields.
#[inline]
pub(crate) fn declared(headers: Headers<'_>, version: Version) -> Result<Declared, FramingError> {
    if headers.has(HeaderId::TransferEncoding) {
        return declared_coding(headers, version);
    }
    if headers.repeats(HeaderId::ContentLength) {
        return Err(FramingError::RepeatedLength);
    }
    match headers.value(HeaderId::ContentLength) {
        Some(value) => parse_length(value).map(Declared::Length).ok_or(FramingError::Length),
        None => Ok(Declared::Nothing),
    }
}

fn declared_coding(headers: Headers<'_>, version: Version) -> Result<Declared, FramingError> {
    if headers.has(HeaderId::ContentLength) {
        return Err(FramingError::LengthAndCoding);
    }
    if version < Version::Http11 {
        return Err(FramingError::CodingInHttp10);
    }
    if headers.repeats(HeaderId::TransferEncoding) {
        return Err(FramingError::Coding);
    }
    let value = headers.value(HeaderId::TransferEncoding).unwrap_or_default();
    if value.eq_ignore_ascii_case(b"chunked") { Ok(Declared::Chunked) } else { Err(odd_coding(value)) }
}

/// Which error a Transfer-Encoding other than `chunked` is.
fn odd_coding(value: &[u8]) -> FramingError {
    let mut last_is_chunked = false;
    let mut chunked = false;
    let mut unknown = false;
    for (at, item) in value.split(|&b| b == b',').enumerate() {
        let item = crate::scan::trim_ows(item);
        let name = crate::scan::trim_ows(item.split(|&b| b == b';').next().unwrap_or_default());
        if !crate::scan::is_token(name) || (at > 0 && last_is_chunked) {
            return FramingError::Coding;
        }
        last_is_chunked = name.eq_ignore_ascii_case(b"chunked");
        chunked |= last_is_chunked;
        unknown |= !last_is_chunked;
    }
    if unknown && last_is_chunked == chunked { FramingError::UnknownCoding } else { FramingError::Coding }
}

/// `1*DIGIT` up to 2^63 - 1; no sign, no space, no list.
pub(crate) fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    // Eighteen digits cannot be too many.
    if value.len() <= 18 {
        return value.iter().try_fold(0u64, |n, b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')));
    }
    value
        .iter()
        .try_fold(0u64, |n, b| {
            b.is_ascii_digit().then_some(())?;
            n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
        })
        .filter(|&n| n <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(parse_length(b"0"), Some(0));
        assert_eq!(parse_length(b"0042"), Some(42));
        assert_eq!(parse_length(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in
            ["", "+1", "-1", "1 ", "1,1", "0x10", "1a", "9223372036854775808", "18446744073709551617", "1.0"]
        {
            assert_eq!(parse_length(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn codings() {
        for (value, error) in [
            ("gzip, chunked", FramingError::UnknownCoding),
            ("identity, chunked", FramingError::UnknownCoding),
            ("identity", FramingError::UnknownCoding),
            ("xchunked", FramingError::UnknownCoding),
            ("chunked, gzip, chunked", FramingError::Coding),
            ("chunked, chunked", FramingError::Coding),
            ("chunked, gzip", FramingError::Coding),
            ("chunked;a=b", FramingError::Coding),
            ("", FramingError::Coding),
            (",chunked", FramingError::Coding),
            ("chunked,", FramingError::Coding),
            ("\"chunked\"", FramingError::Coding),
            ("chun ked", FramingError::Coding),
        ] {
            assert_eq!(odd_coding(value.as_bytes()), error, "{value}");
        }
    }
}
