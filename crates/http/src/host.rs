//! What may stand in a Host field or an authority: `uri-host [ ":" port ]` of RFC 9110 §7.2 and RFC 3986 §3.2.
//!
//! Owns: splitting and checking.
//! Never: lower-cases or decodes; the engine does when it looks for a site.
//! Why: the host chooses the site, enters redirects, logs and cache keys, and names folders (`root /srv/$host`). What is
//! no host (`a/b`, `user@a`, `[::1`, two names with a comma, `..`) is refused rather than repaired.

use std::net::Ipv6Addr;

use crate::scan::{is_host_byte, plain_host_end};

/// A host and perhaps a port, borrowed from where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// As written; an IPv6 address keeps its brackets.
    pub host: &'a [u8],
    /// Absent where there was none, or an empty one (`a:`).
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Checks and splits. `None` where `text` is empty or no host.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let plain = plain_host_end(text)?;
        let end = match text.get(plain) {
            None | Some(b':') => (plain > 0 && text[..plain] != *b".").then_some(plain)?,
            Some(_) => unusual_end(text)?,
        };
        let (host, rest) = text.split_at(end);
        match rest.split_first() {
            None => Some(Self { host, port: None }),
            Some((b':', [])) => Some(Self { host, port: None }),
            Some((b':', digits)) => Some(Self { host, port: Some(parse_port(digits)?) }),
            Some(_) => None,
        }
    }
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    // Leading zeros are grammatical, so length says nothing.
    digits.iter().try_fold(0u16, |port, b| {
        b.is_ascii_digit().then_some(())?;
        port.checked_mul(10)?.checked_add(u16::from(b - b'0'))
    })
}

fn is_ipv6(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// `IPvFuture` of RFC 3986 §3.2.2: `v`, a version in hexadecimal, a dot, an address.
fn is_future(text: &[u8]) -> bool {
    let Some((b'v' | b'V', rest)) = text.split_first() else { return false };
    let Some(dot) = memchr::memchr(b'.', rest) else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:".contains(&byte);
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(|&byte| is_plain(byte))
}

/// The end of a host that has more than letters, digits, hyphens, dots and underscores.
#[cold]
fn unusual_end(text: &[u8]) -> Option<usize> {
    if text.first() == Some(&b'[') {
        let end = memchr::memchr(b']', text)? + 1;
        let inside = &text[1..end - 1];
        return (is_ipv6(inside) || is_future(inside)).then_some(end);
    }
    let end = memchr::memchr(b':', text).unwrap_or(text.len());
    is_reg_name(&text[..end]).then_some(end)
}

fn is_reg_name(text: &[u8]) -> bool {
    // No name has an empty label but the root's, at its end (RFC 1034 §3.1); a path of `..` is made of them.
    if text.windows(2).any(|pair| pair == b"..") {
        return false;
    }
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if is_host_byte(byte) {
            continue;
        }
        if byte != b'%' {
            return false;
        }
        // `%41` is grammatical; `%2f`, `%00` or `%40` would smuggle what may not stand there openly.
        let [high, low, tail @ ..] = tail else { return false };
        let decoded = match (hex(*high), hex(*low)) {
            (Some(high), Some(low)) => high << 4 | low,
            _ => return false,
        };
        if !is_host_byte(decoded) && decoded < 0x80 {
            return false;
        }
        rest = tail;
    }
    !text.is_empty()
}

/// The value of a hexadecimal digit.
pub(crate) const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Option<(&str, Option<u16>)> {
        Authority::parse(text.as_bytes()).map(|a| (std::str::from_utf8(a.host).unwrap(), a.port))
    }

    #[test]
    fn hosts() {
        assert_eq!(check("example.com"), Some(("example.com", None)));
        assert_eq!(check("example.com:80"), Some(("example.com", Some(80))));
        assert_eq!(check("example.com:"), Some(("example.com", None)));
        assert_eq!(check("example.com.:0080"), Some(("example.com.", Some(80))));
        assert_eq!(check("127.0.0.1:65535"), Some(("127.0.0.1", Some(65535))));
        assert_eq!(check("[::1]"), Some(("[::1]", None)));
        assert_eq!(check("[2001:db8::1]:8080"), Some(("[2001:db8::1]", Some(8080))));
        assert_eq!(check("[v1.fe80::a+en1]:80"), Some(("[v1.fe80::a+en1]", Some(80))));
        assert_eq!(check("a_b.example"), Some(("a_b.example", None)));
        assert_eq!(check("ex%41mple"), Some(("ex%41mple", None)));
    }

    #[test]
    fn not_hosts() {
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "a@b",
            "a?b",
            "a#b",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a:+1",
            "::1",
            "[::1",
            "[v.a]",
            "[vg.a]",
            "[v1.]",
            "[v1.a/b]",
            "[::1]x",
            "[]",
            "[g::1]",
            "[::1%25eth0]",
            "http://a",
            "a,b",
            "a%2fb",
            "a%00",
            "a%4",
            "a%",
            "a\\b",
            "a\"b",
            "a<b",
            "a\u{e9}",
            "a\tb",
            ".",
            "..",
            "...",
            "a..b",
            "a..",
            "..:80",
        ] {
            assert_eq!(check(bad), None, "{bad}");
        }
    }

    #[test]
    fn blocks_and_bytes_say_the_same() {
        // The length of a host is read sixteen bytes at a time: each byte at each place of three blocks, and two dots across them.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        for length in 1..40 {
            for at in 0..length {
                let mut text = vec![b'a'; length];
                for byte in 0..=255 {
                    text[at] = byte;
                    assert_eq!(plain_host_end(&text), Some(if plain(byte) { length } else { at }));
                }
                text[at] = b'.';
                assert_eq!(Authority::parse(&text).is_some(), length > 1);
                if at > 0 {
                    text[at - 1] = b'.';
                    assert_eq!(Authority::parse(&text), None, "{length} {at}");
                }
            }
        }
    }
}
