//! A path in its own encoding, without what makes two spellings of it: RFC 3986 §6.2.2.
//!
//! Owns: resolving dot segments, decoding what need not be encoded.
//! Never: decodes what has a meaning (`%2f` stays one), merges slashes, or refuses a path: a `%` with no digits behind it
//! is a `%`.
//! Driven by: `engine`, for sites whose paths are passed on as they were sent (HAProxy's).
//! Why: rules are written for one spelling, and servers behind take all of them. What is signed stays as it was signed.

use std::borrow::Cow;

use super::normalize::escaped;

/// The path with its dot segments resolved, written openly or as `%2e`; nothing else in it changes. `..` at the root
/// stays there.
#[must_use]
pub fn resolve_dots(path: &[u8]) -> Cow<'_, [u8]> {
    let has_dots = |at: usize| dots(segment(&path[at + 1..])).is_some();
    if !path.starts_with(b"/") || !memchr::memchr_iter(b'/', path).any(has_dots) {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((_, behind)) = rest.split_first() {
        let name = segment(behind);
        rest = &behind[name.len()..];
        let climbs = match dots(name) {
            None => {
                out.push(b'/');
                out.extend_from_slice(name);
                continue;
            }
            Some(count) => count == 2,
        };
        if climbs {
            out.truncate(memchr::memrchr(b'/', &out).unwrap_or_default());
        }
        // A dot segment at the end leaves its slash.
        if rest.is_empty() {
            out.push(b'/');
        }
    }
    Cow::Owned(out)
}

/// What stands before the next slash.
fn segment(path: &[u8]) -> &[u8] {
    &path[..memchr::memchr(b'/', path).unwrap_or(path.len())]
}

/// The dots that a segment consists of, if it is one or two of them.
fn dots(mut segment: &[u8]) -> Option<u8> {
    let mut count = 0;
    while !segment.is_empty() {
        segment = match segment {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] if count < 2 => rest,
            _ => return None,
        };
        count += 1;
    }
    (count > 0).then_some(count)
}

/// The path with letters, digits, `-`, `.`, `_` and `~` decoded.
#[must_use]
pub fn decode_unreserved(path: &[u8]) -> Cow<'_, [u8]> {
    let unreserved =
        |at: usize| escaped(&path[at + 1..]).filter(|&b| b.is_ascii_alphanumeric() || b"-._~".contains(&b));
    if !memchr::memchr_iter(b'%', path).any(|at| unreserved(at).is_some()) {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut copied = 0;
    for at in memchr::memchr_iter(b'%', path) {
        if let Some(byte) = unreserved(at) {
            out.extend_from_slice(&path[copied..at]);
            out.push(byte);
            copied = at + 3;
        }
    }
    out.extend_from_slice(&path[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments() {
        for (path, expected) in [
            ("/", "/"),
            ("*", "*"),
            ("/a/b.c/..d/e../...", "/a/b.c/..d/e../..."),
            ("/pub/../admin", "/admin"),
            ("/pub/%2e%2e/admin", "/admin"),
            ("/pub/.%2E/admin", "/admin"),
            ("/a/./b", "/a/b"),
            ("/a/%2e", "/a/"),
            ("/a/b/..", "/a/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/a//../b", "/a/b"),
            ("//..", "/"),
            ("/a%2f..%2fb", "/a%2f..%2fb"),
            ("/a%2fb/../%7e%", "/%7e%"),
            ("/%2e%2e%2e/%2", "/%2e%2e%2e/%2"),
        ] {
            let found = resolve_dots(path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path}");
            assert_eq!(resolve_dots(&found), found, "{path}: once is enough");
        }
    }

    #[test]
    fn what_need_not_be_encoded_is_not() {
        for (path, expected) in [
            ("/admin", "/admin"),
            ("/%61dmin", "/admin"),
            ("/%41%7E%5f%2d%30", "/A~_-0"),
            ("/a%2fb%20c%25%3f", "/a%2fb%20c%25%3f"),
            ("/%%61%6", "/%a%6"),
            ("/%zz%", "/%zz%"),
            ("/%2561", "/%2561"),
        ] {
            let found = decode_unreserved(path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path}");
        }
    }
}
