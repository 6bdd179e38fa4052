//! Comma-separated lists in field values: RFC 9110 §5.6.1.
//!
//! Owns: splitting at commas outside quoted strings, and parameters after semicolons.
//! Never: allocates.
//! Why: empty members are skipped, as a recipient must; a quoted string that never closes swallows the rest, so that
//! nothing is read out of its middle.

use crate::scan::trim_ows;

/// The members of a list, trimmed; empty ones are skipped. Commas within quoted strings do not split.
pub fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(value, b',').filter(|item| !item.is_empty())
}

/// The parts of a member between semicolons, trimmed; the first is the member's own value.
pub fn parts(item: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(item, b';')
}

/// Whether a list has this token, in any case.
#[must_use]
pub fn contains(value: &[u8], token: &[u8]) -> bool {
    items(value).any(|item| item.eq_ignore_ascii_case(token))
}

/// Splits `name=value`; the value keeps its quotes. Space around `=` is not allowed and stays where it is.
#[must_use]
pub fn parameter(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'=', part) {
        Some(at) => (&part[..at], Some(&part[at + 1..])),
        None => (part, None),
    }
}

/// The text within a quoted string, escapes left in; other text as it is.
#[must_use]
pub fn unquote(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

/// Splits at `separator` outside quoted strings, and trims.
pub fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = unquoted_position(text, separator);
        rest = end.map(|at| &text[at + 1..]);
        Some(trim_ows(&text[..end.unwrap_or(text.len())]))
    })
}

fn unquoted_position(text: &[u8], separator: u8) -> Option<usize> {
    // Lists without quotes are the rule.
    let quote = memchr::memchr2(b'"', separator, text)?;
    if text[quote] == separator {
        return Some(quote);
    }
    let mut quoted = false;
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate().skip(quote) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: &[&str]) {
        let found: Vec<_> = items(value.as_bytes()).map(|i| std::str::from_utf8(i).unwrap()).collect();
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn lists() {
        check("", &[]);
        check(" , ,", &[]);
        check("a", &["a"]);
        check("a, b ,\tc", &["a", "b", "c"]);
        check("a,,b", &["a", "b"]);
        check("\"a,b\", c", &["\"a,b\"", "c"]);
        check("x=\"a\\\",b\",c", &["x=\"a\\\",b\"", "c"]);
        check("\"open, a, b", &["\"open, a, b"]);
    }

    #[test]
    fn parameters() {
        let found: Vec<_> = parts(b"text/html; charset=\"a;b\" ;q=0.5").collect();
        assert_eq!(found, [b"text/html".as_slice(), b"charset=\"a;b\"", b"q=0.5"]);
        assert_eq!(parameter(b"q=0.5"), (b"q".as_slice(), Some(b"0.5".as_slice())));
        assert_eq!(parameter(b"q"), (b"q".as_slice(), None));
        assert_eq!(unquote(b"\"a\""), b"a");
        assert_eq!(unquote(b"\""), b"\"");
        assert!(contains(b"a, Chunked", b"chunked"));
    }
}
