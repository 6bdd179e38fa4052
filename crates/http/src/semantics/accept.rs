//! Which content coding the client takes: RFC 9110 §12.5.3.
//!
//! Owns: weights, and nginx's choice of gzip.
//! Why: as in nginx, only a coding that is named is used: `*` alone compresses nothing.

use crate::field::Headers;
use crate::list;
use crate::name::HeaderId;

/// A weight in thousandths, 0 to 1000.
pub type Weight = u16;

/// Parses `0.123`: RFC 9110 §12.4.2.
#[must_use]
pub fn weight(text: &[u8]) -> Option<Weight> {
    let (whole, fraction) = match text {
        [whole] | [whole, b'.'] => (*whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut value = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        value += digit.is_ascii_digit().then(|| u16::from(digit - b'0') * unit)?;
    }
    (value <= 1000).then_some(value)
}

/// The weight that Accept-Encoding gives to a coding by its name; `None` if it is not named. A weight that does not
/// parse is 0.
#[must_use]
pub fn encoding_weight(headers: Headers<'_>, coding: &[u8]) -> Option<Weight> {
    coding_weight(headers.values(HeaderId::AcceptEncoding), coding)
}

/// The same, of the lines of Accept-Encoding.
#[must_use]
pub fn coding_weight<'v>(mut lines: impl Iterator<Item = &'v [u8]>, coding: &[u8]) -> Option<Weight> {
    lines.find_map(|line| list::items(line).find_map(|item| item_weight(item, coding)))
}

fn item_weight(item: &[u8], coding: &[u8]) -> Option<Weight> {
    let mut parts = list::parts(item);
    if !parts.next()?.eq_ignore_ascii_case(coding) {
        return None;
    }
    let q = parts.map(list::parameter).find(|(name, _)| name.eq_ignore_ascii_case(b"q"));
    Some(q.map_or(1000, |(_, value)| value.and_then(weight).unwrap_or(0)))
}

/// Whether a body may be sent in this coding.
#[must_use]
pub fn accepts_encoding(headers: Headers<'_>, coding: &[u8]) -> bool {
    encoding_weight(headers, coding).is_some_and(|weight| weight > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("0", Some(0)),
            ("0.5", Some(500)),
            ("0.123", Some(123)),
            ("1.000", Some(1000)),
            ("0.", Some(0)),
        ] {
            assert_eq!(weight(text.as_bytes()), expected, "{text}");
        }
        for bad in ["", ".5", "2", "1.1", "0.1234", "0,5", "-1", "0.a"] {
            assert_eq!(weight(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(item_weight(b"gzip", b"gzip"), Some(1000));
        assert_eq!(item_weight(b"GZIP ; Q=0.2", b"gzip"), Some(200));
        assert_eq!(item_weight(b"gzip;q=x", b"gzip"), Some(0));
        assert_eq!(item_weight(b"xgzip", b"gzip"), None);
        assert_eq!(item_weight(b"*", b"gzip"), None);
    }
}
