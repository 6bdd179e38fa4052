//! Range requests: RFC 9110 §14.
//!
//! Owns: parsing, bounds, Content-Range, and the framing of multipart/byteranges.
//! Never: reads the bytes.
//! Why: many overlapping ranges make a small request expensive, so their number is bounded, and when together they
//! are longer than the whole, the whole is sent (as nginx does).

use crate::framing::parse_length;
use crate::scan::trim_ows;
use crate::write::put_decimal;

/// Bytes `start..end` of a representation; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

impl ByteRange {
    /// How many bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }
}

/// What a Range field asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Everything: another unit than bytes, too many, or more than the whole.
    Whole,
    /// One part: 206 with Content-Range.
    One(ByteRange),
    /// Several parts, in the order asked for: 206 with multipart/byteranges.
    Many(Vec<ByteRange>),
    /// Malformed, or nothing of it exists: 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
}

/// Reads a Content-Range value (RFC 9110 §14.4): the part, and the length of the whole where it is known. `None`: it is
/// malformed, in another unit, or of an unsatisfied range.
#[must_use]
pub fn content_range(value: &[u8]) -> Option<(ByteRange, Option<u64>)> {
    let text = std::str::from_utf8(value).ok()?;
    let (unit, spec) = text.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case("bytes ") {
        return None;
    }
    let (range, total) = spec.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let total = if total == "*" { None } else { Some(number(total)?) };
    let holds = start < end && total.is_none_or(|total| end <= total);
    holds.then_some((ByteRange { start, end }, total))
}

/// Reads a Range value for a representation of `length` bytes. More than `max` ranges count as none; `max` 0 turns
/// ranges off (nginx's `max_ranges 0`).
#[must_use]
pub fn parse(value: &[u8], length: u64, max: usize) -> Ranges {
    let Some((unit, specs)) = value.split_at_checked(6) else { return Ranges::Whole };
    // Without a single set nothing is asked for, as nginx reads it.
    if !unit.eq_ignore_ascii_case(b"bytes=") || specs.is_empty() || max == 0 {
        return Ranges::Whole;
    }
    let mut found = Vec::new();
    let mut first = None;
    let mut total = 0u64;
    let mut count = 0;
    for spec in specs.split(|&byte| byte == b',') {
        let Some(range) = parse_spec(trim_ows(spec), length) else { return Ranges::Unsatisfiable };
        let Some(range) = range else { continue };
        if count >= max {
            return Ranges::Whole;
        }
        count += 1;
        total = total.saturating_add(range.len());
        match first {
            None => first = Some(range),
            Some(first) if found.is_empty() => found.extend([first, range]),
            Some(_) => found.push(range),
        }
    }
    match first {
        // Of nothing the whole is given.
        None if length == 0 => Ranges::Whole,
        None => Ranges::Unsatisfiable,
        Some(_) if total > length => Ranges::Whole,
        Some(first) if found.is_empty() => Ranges::One(first),
        Some(_) => Ranges::Many(found),
    }
}

/// One range. Outer `None`: malformed. Inner `None`: there are no such bytes.
fn parse_spec(spec: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = memchr::memchr(b'-', spec)?;
    let (start, end) = (trim_ows(&spec[..dash]), trim_ows(&spec[dash + 1..]));
    if start.is_empty() {
        let last = number(end)?.min(length);
        return Some((last > 0).then_some(ByteRange { start: length - last, end: length }));
    }
    let start = number(start)?;
    let end = if end.is_empty() { length } else { number(end)?.saturating_add(1).min(length) };
    Some((start < end).then_some(ByteRange { start, end }))
}

/// Digits; numbers too large for 63 bits are beyond any length.
fn number(digits: &[u8]) -> Option<u64> {
    parse_length(digits)
        .or_else(|| (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(i64::MAX as u64))
}

/// Appends `bytes 0-4/100`.
pub fn put_content_range(out: &mut Vec<u8>, range: ByteRange, length: u64) {
    out.extend_from_slice(b"bytes ");
    put_decimal(out, range.start);
    out.push(b'-');
    put_decimal(out, range.end - 1);
    out.push(b'/');
    put_decimal(out, length);
}

/// Appends `bytes */100`, for 416.
pub fn put_unsatisfied_range(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"bytes */");
    put_decimal(out, length);
}

/// The framing of a multipart/byteranges body: RFC 9110 §14.6.
#[derive(Clone, Debug)]
pub struct Multipart<'a> {
    /// Told apart from payload by being unpredictable: let it come from a random number.
    pub boundary: u64,
    /// The Content-Type of each part, if the whole has one.
    pub content_type: Option<&'a [u8]>,
    /// Length of the whole representation.
    pub length: u64,
}

impl Multipart<'_> {
    /// Appends the Content-Type of the answer.
    pub fn put_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        self.put_boundary(out);
    }

    /// Appends what stands before the bytes of a part.
    pub fn put_part(&self, out: &mut Vec<u8>, range: ByteRange) {
        out.extend_from_slice(b"\r\n--");
        self.put_boundary(out);
        if let Some(content_type) = self.content_type {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        put_content_range(out, range, self.length);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends what stands behind the last part.
    pub fn put_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        self.put_boundary(out);
        out.extend_from_slice(b"--\r\n");
    }

    /// The length of the whole body, for Content-Length.
    #[must_use]
    pub fn body_length(&self, ranges: &[ByteRange]) -> u64 {
        let mut framing = Vec::new();
        for range in ranges {
            self.put_part(&mut framing, *range);
        }
        self.put_end(&mut framing);
        ranges.iter().fold(framing.len() as u64, |sum, range| sum.saturating_add(range.len()))
    }

    /// Twenty digits, as nginx writes.
    fn put_boundary(&self, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = std::io::Write::write_fmt(out, format_args!("{:020}", self.boundary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    #[test]
    fn ranges_of_a_hundred_bytes() {
        use Ranges as R;
        for (value, expected) in [
            ("bytes=0-0", R::One(range(0, 1))),
            ("Bytes=0-99", R::One(range(0, 100))),
            ("bytes=10-", R::One(range(10, 100))),
            ("bytes=-10", R::One(range(90, 100))),
            ("bytes=-1000", R::One(range(0, 100))),
            ("bytes=50-1000", R::One(range(50, 100))),
            ("bytes=50-99999999999999999999999", R::One(range(50, 100))),
            ("bytes= 0-1 , 5-6", R::Many(vec![range(0, 2), range(5, 7)])),
            ("bytes=5-6,0-1,", R::Unsatisfiable),
            ("bytes=0-1,200-", R::One(range(0, 2))),
            ("bytes=100-", R::Unsatisfiable),
            ("bytes=99999999999999999999999-", R::Unsatisfiable),
            ("bytes=100-200,300-400", R::Unsatisfiable),
            ("bytes=-0", R::Unsatisfiable),
            ("bytes=0-,0-", R::Whole),
            ("bytes=0-1,2-3,4-5,6-7,8-9", R::Whole),
            ("bytes=", R::Whole),
            ("bytes=,", R::Unsatisfiable),
            ("bytes=-", R::Unsatisfiable),
            ("bytes=5-4", R::Unsatisfiable),
            ("bytes=5-4,0-0", R::One(range(0, 1))),
            ("bytes=a-b", R::Unsatisfiable),
            ("bytes=0-0,a", R::Unsatisfiable),
            ("bytes=0-0, ,2-2", R::Unsatisfiable),
            ("bytes=+1-2", R::Unsatisfiable),
            ("bytes=1 - 2", R::One(range(1, 3))),
            ("bytes 0-1", R::Whole),
            ("lines=0-1", R::Whole),
            ("", R::Whole),
        ] {
            assert_eq!(parse(value.as_bytes(), 100, 4), expected, "{value}");
        }
        assert_eq!(parse(b"bytes=0-", 0, 4), R::Whole);
        assert_eq!(parse(b"bytes=-5", 0, 4), R::Whole);
        assert_eq!(parse(b"bytes=0-0", 100, 0), R::Whole);
    }

    #[test]
    fn multipart() {
        let parts = Multipart { boundary: 7, content_type: Some(b"text/plain"), length: 100 };
        let ranges = [range(0, 5), range(90, 100)];
        let mut out = Vec::new();
        for part in ranges {
            parts.put_part(&mut out, part);
            out.resize(out.len() + part.len() as usize, b'x');
        }
        parts.put_end(&mut out);
        assert_eq!(out.len() as u64, parts.body_length(&ranges));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with(
            "\r\n--00000000000000000007\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-4/100\r\n\r\nxxxxx\r\n--"
        ));
        assert!(text.ends_with("\r\n--00000000000000000007--\r\n"));
        let mut out = Vec::new();
        put_unsatisfied_range(&mut out, 100);
        assert_eq!(out, b"bytes */100");
    }

    #[test]
    fn content_ranges_are_read_or_refused() {
        let of = |start, end, total| Some((ByteRange { start, end }, total));
        for (value, wanted) in [
            ("bytes 0-99/1000", of(0, 100, Some(1000))),
            ("BYTES 5-5/6", of(5, 6, Some(6))),
            ("bytes 0-3/*", of(0, 4, None)),
            ("bytes */10", None),
            ("bytes 5-4/10", None),
            ("bytes 0-10/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes +1-2/10", None),
            ("bytes 1-2", None),
            ("items 1-2/10", None),
            ("bytes", None),
            ("", None),
        ] {
            assert_eq!(content_range(value.as_bytes()), wanted, "{value}");
        }
    }
}
