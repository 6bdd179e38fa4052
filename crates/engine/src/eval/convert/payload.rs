//! Parts of the first bytes of a session: stretches, lists behind their length, cookies of RDP, hellos of TLS.
//!
//! Owns: where each stands. What is not there whole is no value, so that rules can wait for it.

use weir_expr::{HelloPart, number};
use weir_http::hello;

/// Bytes from an offset on, so many; 0: all that are there.
pub(super) fn whole(bytes: &[u8], offset: &[u8], length: &[u8]) -> Option<Vec<u8>> {
    let (offset, length) = (usize::try_from(number(offset)).ok()?, usize::try_from(number(length)).ok()?);
    let rest = bytes.get(offset..)?;
    let rest = if length == 0 { rest } else { rest.get(..length)? };
    (!rest.is_empty()).then(|| rest.to_vec())
}

/// Bytes behind their length, which stands at an offset; `start`: where they begin, `+` and `-` from the end of the length.
pub(super) fn sized(bytes: &[u8], offset: &[u8], size: &[u8], start: &[u8]) -> Option<Vec<u8>> {
    let (offset, size) = (usize::try_from(number(offset)).ok()?, usize::try_from(number(size)).ok()?);
    let length = bytes.get(offset..)?.get(..size.min(8))?;
    let length = length.iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    let behind = offset + size;
    let start = match start.first() {
        None => behind,
        Some(b'+' | b'-') => usize::try_from(i64::try_from(behind).ok()? + signed(start)).ok()?,
        Some(_) => usize::try_from(number(start)).ok()?,
    };
    let found = bytes.get(start..)?.get(..length)?;
    (!found.is_empty()).then(|| found.to_vec())
}

fn signed(text: &[u8]) -> i64 {
    number(text.strip_prefix(b"+").unwrap_or(text))
}

/// The value of the cookie in a connection request of RDP ([MS-RDPBCGR] 2.2.1.1); a name, or any.
pub(super) fn rdp_cookie<'b>(bytes: &'b [u8], name: &[u8]) -> Option<&'b [u8]> {
    // TPKT: version 3; X.224: a connection request, whose fixed part is seven bytes.
    let text = bytes.get(11..).filter(|_| bytes[0] == 3 && bytes[5] == 0xe0)?;
    let line = &text[..text.iter().position(|byte| *byte == b'\r')?];
    let pair = line.get(8..).filter(|_| line[..8].eq_ignore_ascii_case(b"Cookie: "))?;
    let at = pair.iter().position(|byte| *byte == b'=')?;
    (name.is_empty() || pair[..at].eq_ignore_ascii_case(name)).then(|| &pair[at + 1..])
}

/// Whether some bytes begin a request of HTTP/1: a whole line with a method, a target and a version.
pub(super) fn is_http(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return false };
    let mut words = bytes[..end].trim_ascii_end().split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    method.is_some_and(weir_http::scan::is_token)
        && target.is_some_and(|target| !target.is_empty())
        && version.is_some_and(|version| version.starts_with(b"HTTP/1."))
        && words.next().is_none()
}

/// A part of a hello.
pub(super) fn of_hello(bytes: &[u8], part: HelloPart) -> Option<Vec<u8>> {
    let shown = |value: u32| Some(value.to_string().into_bytes());
    let list = |bytes: Vec<u8>| (!bytes.is_empty()).then_some(bytes);
    if part == HelloPart::Type {
        return shown(u32::from(*bytes.get(5).filter(|_| bytes[0] == 22 && bytes[1] == 3)?));
    }
    let details = hello::details(bytes)?;
    match part {
        HelloPart::Version => shown(u32::from(details.version.0) << 16 | u32::from(details.version.1)),
        HelloPart::EllipticCurves => shown(details.elliptic_curves.into()),
        HelloPart::Tickets => shown(match details.ticket {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        }),
        HelloPart::Ciphers => list(details.ciphers),
        HelloPart::Groups => list(details.groups),
        HelloPart::SignatureAlgorithms => list(details.signature_algorithms),
        HelloPart::KeyShares => list(details.key_shares),
        HelloPart::Type => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_there_whole_or_not_at_all() {
        assert_eq!(whole(b"abcdef", b"2", b"3").unwrap(), b"cde");
        assert_eq!(whole(b"abcdef", b"2", b"0").unwrap(), b"cdef");
        assert_eq!(whole(b"abcdef", b"2", b"9"), None);
        assert_eq!(whole(b"abcdef", b"9", b"0"), None);
        assert_eq!(sized(b"x\x00\x03abcd", b"1", b"2", b"").unwrap(), b"abc");
        assert_eq!(sized(b"x\x00\x03abcd", b"1", b"2", b"+1").unwrap(), b"bcd");
        assert_eq!(sized(b"x\x00\x03abcd", b"1", b"2", b"0").unwrap(), b"x\x00\x03");
        assert_eq!(sized(b"x\x00\x09abcd", b"1", b"2", b""), None);
        assert_eq!(sized(b"\xff\xff\xff\xff\xff\xff\xff\xff", b"0", b"8", b"-9"), None);
    }

    #[test]
    fn requests_are_told_by_their_line() {
        assert!(is_http(b"GET / HTTP/1.1\r\nHost: a\r\n"));
        assert!(!is_http(b"GET / HTTP/1.1") && !is_http(b"SSH-2.0-x\r\n") && !is_http(b"GET /\r\n"));
    }

    #[test]
    fn cookies_of_rdp_are_found() {
        let request = b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=user\r\n";
        assert_eq!(rdp_cookie(request, b""), Some(&b"user"[..]));
        assert_eq!(rdp_cookie(request, b"MSTSHASH"), Some(&b"user"[..]));
        assert_eq!(rdp_cookie(request, b"other"), None);
        assert!((0..request.len() - 1).all(|end| rdp_cookie(&request[..end], b"").is_none()));
    }
}
