//! Byte classes, and finding the end of a run of them.
//!
//! Owns: the classes of RFC 9110 §5.6.2 (token) and RFC 9112 §3.2 (target), and searching for them block by block.
//! Never: decides what a stray byte means; it only says where it stands.

use crate::block::{BLOCK, Block, Passes};

const TOKEN: u8 = 1;
const PLAIN_NAME: u8 = 2;
const HOST: u8 = 4;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it ends at 256")]
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
    match short_block(value) {
        Some(block) => is_stop(Block::of(&block)).marks().is_none(),
        None => value_end(value, 0) == value.len(),
    }
}

/// Whether `text` may stand between double quotes as it is: printable ASCII, but `"` and `\`.
#[must_use]
pub fn is_quotable(text: &[u8]) -> bool {
    let stops = |block: Block| {
        let printable = block.is_at_most(0x7e).but_not(block.is_at_most(0x1f));
        printable.inverted().or(block.is(b'"')).or(block.is(b'\\'))
    };
    match short_block(text) {
        Some(block) => stops(Block::of(&block)).marks().is_none(),
        None => find(text, 0, stops) == text.len(),
    }
}

/// A text of eight to sixteen bytes as a block: its two ends, which may overlap.
#[inline]
fn short_block(text: &[u8]) -> Option<[u8; BLOCK]> {
    const HALF: usize = BLOCK / 2;
    let (start, end) = (text.first_chunk::<HALF>()?, text.last_chunk::<HALF>()?);
    let mut block = [0; BLOCK];
    block[..HALF].copy_from_slice(start);
    block[HALF..].copy_from_slice(end);
    (text.len() <= BLOCK).then_some(block)
}

/// Whether `byte` may stand in a registered name: RFC 3986 §3.2.2, but no comma: `a,b` is two hosts to anybody who joins
/// fields into lists.
pub(crate) fn is_host_byte(byte: u8) -> bool {
    CLASS[usize::from(byte)] & HOST != 0
}

/// How many bytes of `text` are letters, digits, `-`, `_` and `.`, which is all of most hosts. `None` where two of its dots
/// stand together.
#[inline]
pub(crate) fn plain_host_end(text: &[u8]) -> Option<usize> {
    let (mut at, mut after_dot) = (0, false);
    loop {
        let rest = &text[at..];
        // What stands behind the end is a zero, which no host has.
        let bytes = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut bytes = [0; BLOCK];
            bytes[..rest.len()].copy_from_slice(rest);
            bytes
        });
        let block = Block::of(&bytes);
        let letters = block.lower().is_between(b'a', b'z');
        let others = block.is_between(b'-', b'9').but_not(block.is(b'/')).or(block.is(b'_'));
        let end = letters.or(others).inverted().marks().first();
        if block.is(b'.').marks().before(end.unwrap_or(BLOCK)).have_neighbours(after_dot) {
            return None;
        }
        match end {
            Some(end) => return Some(at + end),
            None => (at, after_dot) = (at + BLOCK, bytes[BLOCK - 1] == b'.'),
        }
    }
}

/// The first colon within the next 32 bytes from `at`. Names are rarely longer; those are found byte by byte.
#[inline]
pub(crate) fn near_colon(buf: &[u8], at: usize) -> Option<usize> {
    let rest = buf.get(at..)?;
    let near = &rest[..rest.len().min(2 * BLOCK)];
    let place = find(near, 0, |block| block.is(b':'));
    (place < near.len()).then_some(at + place)
}

/// The first colon of a block: where most names end.
#[inline]
pub(crate) fn colon_in_block(block: &[u8; BLOCK]) -> Option<usize> {
    Block::of(block).is(b':').marks().first()
}

/// The first position from `at` whose byte is no token byte, or the length.
pub(crate) fn token_end(buf: &[u8], at: usize) -> usize {
    let rest = &buf[at.min(buf.len())..];
    rest.iter().position(|&b| CLASS[usize::from(b)] & TOKEN == 0).map_or(buf.len(), |n| at + n)
}

/// The first position from `at` whose byte may not stand in a request target, or the length. Bytes of 0x80 and above are no
/// URI characters, but browsers' address bars and old links send them and every server in use takes them. `#` would be a
/// fragment, which has no place in a request.
#[inline]
pub(crate) fn target_end(buf: &[u8], at: usize) -> usize {
    find(buf, at, |block| block.is_at_most(b' ').or(block.is(0x7f)).or(block.is(b'#')))
}

/// The first position from `at` whose byte may not stand in a field value (a control other than a tab), or the length.
#[inline]
pub(crate) fn value_end(buf: &[u8], at: usize) -> usize {
    find(buf, at, is_stop)
}

/// The first position from `at` of a byte, or the length.
#[inline]
pub(crate) fn byte(buf: &[u8], at: usize, byte: u8) -> usize {
    find(buf, at, |block| block.is(byte))
}

/// The first position from `at` whose byte passes a test, or the length.
#[inline]
fn find(buf: &[u8], at: usize, test: impl Fn(Block) -> Passes) -> usize {
    let mut pos = at.min(buf.len());
    while let Some(block) = buf[pos..].first_chunk() {
        if let Some(place) = test(Block::of(block)).marks().first() {
            return pos + place;
        }
        pos += BLOCK;
    }
    // Fewer bytes than a block follow: the last block of the buffer, if it has one, less what is before `pos`. For an
    // empty rest that would be all of it.
    if let Some(block) = buf.last_chunk() {
        let start = buf.len() - BLOCK;
        let marks = test(Block::of(block)).marks().behind(pos - start);
        return marks.first().map_or(buf.len(), |place| start + place);
    }
    // What stands behind the buffer's end does not count.
    let mut block = [0; BLOCK];
    block[..buf.len()].copy_from_slice(buf);
    let marks = test(Block::of(&block)).marks().behind(pos);
    marks.first().map_or(buf.len(), |place| place.min(buf.len()))
}

/// Controls other than a tab.
#[inline]
fn is_stop(block: Block) -> Passes {
    block.is_at_most(0x1f).but_not(block.is(b'\t')).or(block.is(0x7f))
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
            for length in [1, 15, 16, 17, 24, 33, 48] {
                for place in 0..length {
                    let mut buf = vec![b'x'; length];
                    buf[place] = byte;
                    let stops = byte != b'\t' && (byte < 0x20 || byte == 0x7f);
                    for from in 0..=length {
                        let expected = if stops && from <= place { place } else { length };
                        assert_eq!(
                            value_end(&buf, from),
                            expected,
                            "{byte:#x} at {place} of {length} from {from}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn values_of_any_length_are_judged_by_each_of_their_bytes() {
        for length in 0..40 {
            assert!(is_field_value(&vec![b'x'; length]));
            for place in 0..length {
                for (byte, fits) in [(b'\t', true), (0xff, true), (b'\r', false), (0, false), (0x7f, false)] {
                    let mut value = vec![b'x'; length];
                    value[place] = byte;
                    assert_eq!(is_field_value(&value), fits, "{byte:#x} at {place} of {length}");
                }
            }
        }
    }

    #[test]
    fn what_may_stand_in_quotes_is_told_byte_by_byte() {
        for length in 0..40 {
            for place in 0..length {
                for byte in 0..=255u8 {
                    let mut text = vec![b'x'; length];
                    text[place] = byte;
                    let fits = matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b'\\';
                    assert_eq!(is_quotable(&text), fits, "{byte:#x} at {place} of {length}");
                }
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
    fn colons_are_found_near_and_not_beyond() {
        for length in [0, 1, 16, 31, 32, 33, 40, 64] {
            for place in 0..length {
                let mut buf = vec![b'x'; length];
                buf[place] = b':';
                for from in 0..=length {
                    let expected = (from <= place && place - from < 32).then_some(place);
                    assert_eq!(near_colon(&buf, from), expected, "at {place} of {length} from {from}");
                }
            }
        }
        assert_eq!(near_colon(b"a::b:", 0), Some(1));
    }

    #[test]
    fn targets_end_where_they_may_not_go_on() {
        for byte in 0..=255u8 {
            let buf = [b"GET /some/path/of/a/file", &[byte][..], b"x HTTP/1.1"].concat();
            let stops = byte <= b' ' || byte == 0x7f || byte == b'#';
            assert_eq!(target_end(&buf, 4), if stops { 24 } else { 26 }, "{byte:#x}");
        }
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
