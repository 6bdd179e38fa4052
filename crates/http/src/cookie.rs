//! Cookies of a request: RFC 6265 §5.4, read as nginx's `$cookie_name` does.
//!
//! Owns: walking and looking up. Never: decodes or unquotes.

use crate::field::Headers;
use crate::name::HeaderId;
use crate::scan::trim_ows;

/// The cookies of one field value in order: name and value, as written.
pub fn cookies(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|&b| b == b';').filter_map(|pair| {
        let at = memchr::memchr(b'=', pair)?;
        Some((trim_ows(&pair[..at]), trim_ows(&pair[at + 1..])))
    })
}

/// The value of the first cookie of this name, over all Cookie fields. Names compare without regard to case, as in
/// nginx; for persistence, where case matters, walk [`cookies`].
#[must_use]
pub fn cookie<'a>(headers: Headers<'a>, name: &[u8]) -> Option<&'a [u8]> {
    headers
        .values(HeaderId::Cookie)
        .flat_map(cookies)
        .find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        let found: Vec<_> = cookies(b"a=1; b=\"x y\";c;d=e=f; =g").collect();
        assert_eq!(
            found,
            [(b"a".as_slice(), b"1".as_slice()), (b"b", b"\"x y\""), (b"d", b"e=f"), (b"", b"g")]
        );
    }
}
