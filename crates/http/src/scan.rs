//! Byte classes, and finding the end of a run of them.
//!
//! Owns: the tables of RFC 9110 §5.6.2 (token) and RFC 9112 §3.2 (target), and the eight-bytes-at-once search.
//! Never: decides what a stray byte means; it only says where it stands.
//! Why: field values are most of a head. Eight bytes a step in plain integers needs no unsafe code and no CPU probing.

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const PLAIN_NAME: u8 = 4;
const HOST: u8 = 8;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b == b'-' {
            table[byte] |= PLAIN_NAME;
        }
        if b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
        {
            table[byte] |= TOKEN;
        }
        // Unreserved and sub-delims of RFC 3986, less the comma.
        if b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b';'
                    | b'='
            )
        {
            table[byte] |= HOST;
        }
        // Bytes of 0x80 and above are no URI characters, but browsers' address bars and old links send them and
        // every server in use takes them. '#' would be a fragment, which has no place in a request.
        if b > 0x20 && b != 0x7f && b != b'#' {
            table[byte] |= TARGET;
        }
        byte += 1;
    }
    table
};

/// Whether `byte` may stand in a token: RFC 9110 §5.6.2.
#[must_use]
pub fn is_token_byte(byte: u8) -> bool {
    CLASS[usize::from(byte)] & TOKEN != 0
}

/// Whether `text` is a token: one or more token bytes.
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&b| is_token_byte(b))
}

/// Whether `name` has only letters, digits and hyphens: nginx's idea of a valid header name.
#[must_use]
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|&b| CLASS[usize::from(b)] & PLAIN_NAME != 0)
}

/// Whether `value` may stand in a field value: RFC 9110 §5.5, with obs-text and tabs.
#[must_use]
pub fn is_field_value(value: &[u8]) -> bool {
    value_end(value, 0) == value.len()
}

/// Whether `byte` may stand in a registered name: RFC 3986 §3.2.2, but no comma: `a,b` is two hosts to anybody who joins
/// fields into lists.
pub(crate) fn is_host_byte(byte: u8) -> bool {
    CLASS[usize::from(byte)] & HOST != 0
}

/// The first colon within the next 32 bytes from `at`. Names are rarely longer; those are found byte by byte.
#[inline]
pub(crate) fn near_colon(buf: &[u8], at: usize) -> Option<usize> {
    const COLONS: u64 = ONES * b':' as u64;
    for step in 0..4 {
        let word = u64::from_le_bytes(*buf.get(at + step * 8..)?.first_chunk()?) ^ COLONS;
        let hits = word.wrapping_sub(ONES) & !word & TOPS;
        if hits != 0 {
            return Some(at + step * 8 + (hits.trailing_zeros() / 8) as usize);
        }
    }
    None
}

/// The first position from `at` whose byte is no token byte, or the length.
pub(crate) fn token_end(buf: &[u8], at: usize) -> usize {
    run(buf, at, TOKEN)
}

/// The first position from `at` whose byte may not stand in a request target, or the length.
pub(crate) fn target_end(buf: &[u8], at: usize) -> usize {
    run(buf, at, TARGET)
}

fn run(buf: &[u8], at: usize, class: u8) -> usize {
    let rest = &buf[at.min(buf.len())..];
    rest.iter().position(|&b| CLASS[usize::from(b)] & class == 0).map_or(buf.len(), |n| at + n)
}

/// The first position from `at` whose byte may not stand in a field value (a control other than a tab), or the length.
pub(crate) fn value_end(buf: &[u8], at: usize) -> usize {
    let mut pos = at.min(buf.len());
    loop {
        pos = control(buf, pos);
        if buf.get(pos) != Some(&b'\t') {
            return pos;
        }
        pos += 1;
    }
}

/// The first byte below 0x20 or equal to 0x7f.
fn control(buf: &[u8], at: usize) -> usize {
    let mut pos = at;
    // Values of some length: a shape that compiles to vector instructions.
    while let Some(block) = buf[pos..].first_chunk::<16>() {
        if block.iter().fold(false, |found, &b| found | (b < 0x20) | (b == 0x7f)) {
            break;
        }
        pos += 16;
    }
    while let Some(eight) = buf[pos..].first_chunk::<8>() {
        let hits = controls_in(u64::from_le_bytes(*eight));
        if hits != 0 {
            return pos + (hits.trailing_zeros() / 8) as usize;
        }
        pos += 8;
    }
    buf[pos..].iter().position(|&b| b < 0x20 || b == 0x7f).map_or(buf.len(), |n| pos + n)
}

/// A one in each byte of a word.
const ONES: u64 = u64::MAX / 255;
/// The top bit of each byte of a word.
const TOPS: u64 = ONES << 7;

/// Marks controls with the top bit of their byte. Bytes above the lowest mark may be marked wrongly (a borrow runs
/// upwards), the lowest mark is exact.
const fn controls_in(word: u64) -> u64 {
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below_space | is_delete) & TOPS
}

/// `value` without the spaces and tabs around it: OWS of RFC 9110 §5.6.3.
#[must_use]
pub fn trim_ows(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|b| !is_ows(*b)).unwrap_or(value.len());
    let end = value.iter().rposition(|b| !is_ows(*b)).map_or(start, |n| n + 1);
    &value[start..end]
}

pub(crate) const fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_of_a_word() {
        for byte in 0..=255u8 {
            for place in 0..20 {
                let mut buf = [b'x'; 24];
                buf[place] = byte;
                let stops = byte != b'\t' && (byte < 0x20 || byte == 0x7f);
                assert_eq!(value_end(&buf, 0), if stops { place } else { 24 }, "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn the_first_of_several_controls_is_found() {
        assert_eq!(value_end(b"abc\x7f\x00\rdef", 0), 3);
        assert_eq!(value_end(b"\xff\x80\x81abcdefgh\r\n", 0), 11);
        assert_eq!(value_end(b"a\tb\tc\r", 0), 5);
        assert_eq!(value_end(b"", 0), 0);
    }

    #[test]
    fn tokens() {
        assert!(is_token(b"Content-Length"));
        for bad in ["", "a b", "a:b", "a\"", "(a)", "a/b", "é"] {
            assert!(!is_token(bad.as_bytes()), "{bad}");
        }
        assert!(is_plain_name(b"X-1") && !is_plain_name(b"X_1") && !is_plain_name(b"X.1"));
    }

    #[test]
    fn trimming() {
        assert_eq!(trim_ows(b" \t a b\t "), b"a b");
        assert_eq!(trim_ows(b" \t "), b"");
    }
}
