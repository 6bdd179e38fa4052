//! Entity tags: RFC 9110 §8.8.3.
//!
//! Owns: parsing, both comparisons, lists of tags, and the tag that nginx gives to files.

use crate::list;

/// An entity tag, borrowed from where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag<'a> {
    /// `W/`.
    pub weak: bool,
    /// With its quotes.
    pub opaque: &'a [u8],
}

impl<'a> ETag<'a> {
    /// Parses `"abc"` or `W/"abc"`.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (weak, opaque) = match text.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let [b'"', inner @ .., b'"'] = opaque else { return None };
        let valid = inner.iter().all(|&b| b == 0x21 || (b >= 0x23 && b != 0x7f));
        valid.then_some(Self { weak, opaque })
    }

    /// Equal, and neither weak.
    #[must_use]
    pub fn strong_eq(self, other: ETag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Equal, weak or not.
    #[must_use]
    pub fn weak_eq(self, other: ETag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// The tags of a list; members that are no tags are left out.
pub fn tags(value: &[u8]) -> impl Iterator<Item = ETag<'_>> {
    list::items(value).filter_map(ETag::parse)
}

/// Appends nginx's tag of a file: `"mtime-size"` in hexadecimal.
pub fn put_file_tag(out: &mut Vec<u8>, modified: u64, size: u64) {
    // Writing to a vector does not fail.
    let _ = std::io::Write::write_fmt(out, format_args!("\"{modified:x}-{size:x}\""));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_rfc() {
        let tag = |text: &'static str| ETag::parse(text.as_bytes()).unwrap();
        for (a, b, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(a).strong_eq(tag(b)), strong);
            assert_eq!(tag(a).weak_eq(tag(b)), weak);
        }
    }

    #[test]
    fn shapes() {
        for bad in ["", "1", "\"", "\"1", "1\"", "w/\"1\"", "W/1", "\"a\"b\"", "\"a b\"", "W/ \"1\""] {
            assert_eq!(ETag::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(tags(b"\"a\", W/\"b,c\", x, \"\"").count(), 3);
        let mut out = Vec::new();
        put_file_tag(&mut out, 0x5f5e_1000, 255);
        assert_eq!(out, b"\"5f5e1000-ff\"");
    }
}
