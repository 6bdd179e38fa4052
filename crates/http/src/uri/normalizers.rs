//! HAProxy's normalizers of targets (`http-request normalize-uri`), one by one.
//!
//! Owns: what each makes of a path, a query, or both.
//! Never: chooses: a configuration names them, in its order.
//! Driven by: `engine`'s rule programs.
//! Why: they are HAProxy's to the byte, odd ends included: files that use them were written against what it does.

use std::borrow::Cow;

/// An escape is broken, and the configuration wants none that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenEscape;

/// `path-merge-slashes`: of slashes in a row, one stays.
pub fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        if !(byte == b'/' && out.last() == Some(&b'/')) {
            out.push(byte);
        }
    }
    out
}

/// `path-strip-dot`: segments that are one dot go, with the slash behind them.
pub fn strip_dot(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = Some(path);
    while let Some(path) = rest {
        let end = memchr::memchr(b'/', path);
        let segment = &path[..end.unwrap_or(path.len())];
        rest = end.map(|end| &path[end + 1..]);
        if segment != b"." {
            out.extend_from_slice(segment);
            if rest.is_some() {
                out.push(b'/');
            }
        }
    }
    out
}

/// `path-strip-dotdot`: segments that are two dots go, with the one before them. At the root they stay, unless `full`.
pub fn strip_dotdot(path: &[u8], full: bool) -> Vec<u8> {
    // From the end: how many segments are to go is known when they come.
    let mut reversed = Vec::with_capacity(path.len());
    let (mut left, mut up) = (path, 0_usize);
    if let Some(before) = left.strip_suffix(b"/..") {
        up += 1;
        left = &path[..=before.len()];
    }
    while let Some((&last, before)) = left.split_last() {
        if left.ends_with(b"/../") {
            up += 1;
            left = &left[..left.len() - 3];
        } else if up > 0 {
            // The slash, then the segment before it.
            left = before;
            if !left.is_empty() {
                up -= 1;
                left = &left[..memchr::memrchr(b'/', left).map_or(0, |slash| slash + 1)];
            }
        } else {
            reversed.push(last);
            left = before;
            while let Some((&last, before)) = left.split_last().filter(|(last, _)| **last != b'/') {
                reversed.push(last);
                left = before;
            }
        }
    }
    if up > 0 {
        reversed.push(b'/');
        if !full {
            (0..up).for_each(|_| reversed.extend_from_slice(b"../"));
        }
    }
    reversed.reverse();
    reversed
}

/// `percent-decode-unreserved`: escapes of characters that need none are decoded.
///
/// # Errors
/// `strict`, and an escape is broken.
pub fn decode_unreserved(text: &[u8], strict: bool) -> Result<Vec<u8>, BrokenEscape> {
    escapes(text, strict, |[high, low], byte, out| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', high, low]);
        }
    })
}

/// `percent-to-uppercase`: digits of escapes are written in capitals.
///
/// # Errors
/// `strict`, and an escape is broken.
pub fn uppercase_escapes(text: &[u8], strict: bool) -> Result<Vec<u8>, BrokenEscape> {
    escapes(text, strict, |digits, _, out| {
        out.push(b'%');
        out.extend(digits.map(|digit| digit.to_ascii_uppercase()));
    })
}

/// The text with each escape put by `put`, which has its digits and what they say. Broken ones stay.
fn escapes(
    text: &[u8],
    strict: bool,
    put: impl Fn([u8; 2], u8, &mut Vec<u8>),
) -> Result<Vec<u8>, BrokenEscape> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            out.push(first);
            continue;
        }
        let digits = rest.first_chunk::<2>().copied();
        let said = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok());
        match digits.zip(said).filter(|(digits, _)| digits.iter().all(u8::is_ascii_hexdigit)) {
            Some((digits, byte)) => {
                put(digits, byte, &mut out);
                rest = &rest[2..];
            }
            None if strict => return Err(BrokenEscape),
            None => out.push(b'%'),
        }
    }
    Ok(out)
}

/// `query-sort-by-name`: arguments by the bytes of their names; those of one name stay in order.
pub fn sort_query(query: &[u8]) -> Vec<u8> {
    let mut arguments: Vec<&[u8]> = query.split(|&byte| byte == b'&').collect();
    arguments.sort_by_key(|argument| argument.split(|&byte| byte == b'=').next().unwrap_or_default());
    arguments.join(&b'&')
}

/// `fragment-strip`: `#` and what follows go.
pub fn strip_fragment(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(b'#', text).unwrap_or(text.len())]
}

/// `fragment-encode`: `#` is escaped.
pub fn encode_fragment(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'#', text).is_none() {
        return Cow::Borrowed(text);
    }
    let parts: Vec<&[u8]> = text.split(|&byte| byte == b'#').collect();
    Cow::Owned(parts.join(&b"%23"[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_manual_s_examples_hold() {
        for (path, merged) in [("//", "/"), ("/foo//bar", "/foo/bar"), ("/a/b", "/a/b")] {
            assert_eq!(shown(&merge_slashes(path.as_bytes())), merged);
        }
        for (path, stripped) in
            [("/.", "/"), ("/./bar/", "/bar/"), ("/a/./a", "/a/a"), ("/.well-known/", "/.well-known/")]
        {
            assert_eq!(shown(&strip_dot(path.as_bytes())), stripped);
        }
        let cases = [
            ("/foo/../", "/", "/"),
            ("/foo/../bar/", "/bar/", "/bar/"),
            ("/foo/bar/../", "/foo/", "/foo/"),
            ("/../bar/", "/../bar/", "/bar/"),
            ("/bar/../../", "/../", "/"),
            ("/foo//../", "/foo/", "/foo/"),
            ("/foo/%2E%2E/", "/foo/%2E%2E/", "/foo/%2E%2E/"),
            ("/foo/..", "/", "/"),
            ("/..", "/../", "/"),
            ("/a/b/../../../c", "/../c", "/c"),
            ("/..a/..", "/", "/"),
            ("/", "/", "/"),
            ("", "", ""),
        ];
        for (path, kept, full) in cases {
            assert_eq!(shown(&strip_dotdot(path.as_bytes(), false)), kept, "{path}");
            assert_eq!(shown(&strip_dotdot(path.as_bytes(), true)), full, "{path}");
        }
        for (query, sorted) in [("c=3&a=1&b=2", "a=1&b=2&c=3"), ("aaa=3&a=1&aa=2", "a=1&aa=2&aaa=3")] {
            assert_eq!(shown(&sort_query(query.as_bytes())), sorted);
        }
        assert_eq!(sort_query(b"a=3&b=4&a=1&b=5&a=2"), b"a=3&a=1&a=2&b=4&b=5");
        assert_eq!(decode_unreserved(b"/%6d%79%20/%zz%", false).unwrap(), b"/my%20/%zz%");
        assert_eq!(uppercase_escapes(b"/%6f%zz%", false).unwrap(), b"/%6F%zz%");
        for broken in [&b"/%zz"[..], b"/%6", b"/%+1"] {
            assert_eq!(uppercase_escapes(broken, true), Err(BrokenEscape));
            assert_eq!(decode_unreserved(broken, true), Err(BrokenEscape));
        }
        assert_eq!(strip_fragment(b"/a#b?c"), b"/a");
        assert_eq!(&*encode_fragment(b"/a#b#"), b"/a%23b%23");
    }
}
