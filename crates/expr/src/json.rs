//! Text inside a JSON string.
//!
//! Owns: what is escaped there, and what becomes of bytes that are no text.
//! Driven by: `convert`.

use std::fmt::Write as _;

/// Each byte as a character of its own.
pub(crate) fn escaped_bytes(value: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(value.len() + 8);
    value.iter().for_each(|byte| push(u32::from(*byte), &mut out));
    out.into_bytes()
}

/// The characters of UTF-8. `None`: it is malformed, or has a character of more than four hexadecimal digits, and is not to be
/// taken leniently.
pub(crate) fn escaped(value: &[u8], lenient: bool, overlong: bool) -> Option<Vec<u8>> {
    let mut out = String::with_capacity(value.len() + 8);
    let mut rest = value;
    while !rest.is_empty() {
        let (found, used) = character(rest, overlong);
        rest = rest.get(used..).unwrap_or_default();
        match found.filter(|code| *code <= 0xffff) {
            Some(code) => push(code, &mut out),
            None if lenient => {}
            None => return None,
        }
    }
    Some(out.into_bytes())
}

fn push(code: u32, out: &mut String) {
    match char::from_u32(code) {
        Some(plain @ ('"' | '\\' | '/')) => out.extend(['\\', plain]),
        Some('\n') => out.push_str("\\n"),
        Some('\r') => out.push_str("\\r"),
        Some('\t') => out.push_str("\\t"),
        Some('\u{8}') => out.push_str("\\b"),
        Some('\u{c}') => out.push_str("\\f"),
        Some(plain @ ' '..='~') => out.push(plain),
        _ => drop(write!(out, "\\u{code:04x}")),
    }
}

/// The first character, and how many bytes it or what is malformed takes.
fn character(bytes: &[u8], overlong: bool) -> (Option<u32>, usize) {
    let Some(&first) = bytes.first() else { return (None, 0) };
    let (length, least) = match first {
        0..0x80 => return (Some(u32::from(first)), 1),
        0xc0..0xe0 => (2, 0x80),
        0xe0..0xf0 => (3, 0x800),
        0xf0..0xf8 => (4, 0x1_0000),
        _ => return (None, 1),
    };
    let mut code = u32::from(first) & (0x7f >> length);
    for at in 1..length {
        match bytes.get(at) {
            Some(&byte @ 0x80..0xc0) => code = code << 6 | u32::from(byte & 0x3f),
            _ => return (None, at),
        }
    }
    let good = (overlong || code >= least) && char::from_u32(code).is_some();
    (good.then_some(code), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &[u8], lenient: bool, overlong: bool) -> Option<String> {
        escaped(value, lenient, overlong).map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn characters_are_escaped_and_errors_are_met_as_asked() {
        assert_eq!(check("a\"é\u{8}".as_bytes(), false, false).unwrap(), "a\\\"\\u00e9\\b");
        assert_eq!(check(b"a\xffb", false, false), None);
        assert_eq!(check(b"a\xffb", true, false).unwrap(), "ab");
        assert_eq!(check(b"a\xc3", true, false).unwrap(), "a");
        assert_eq!(check(b"\xc1\xa1", true, false).unwrap(), "");
        assert_eq!(check(b"\xc1\xa1", false, true).unwrap(), "a");
        assert_eq!(check("\u{1f600}".as_bytes(), false, false), None);
        assert_eq!(check(b"\xed\xa0\x80x", true, true).unwrap(), "x");
    }
}
