//! From bytes to text.
//!
//! Owns: the decoding rule. UTF-8 stays as it is. A file that is not UTF-8 is read as Latin-1: each byte becomes the
//! character of that number, so that no byte is lost and columns count bytes.
//! Never: guesses an encoding by its words.
//! Driven by: the include pass, once per file.

use std::borrow::Cow;

/// Text and what was odd about its bytes.
pub(crate) struct Decoded<'a> {
    /// The text, without a byte order mark.
    pub text: Cow<'a, str>,
    /// First byte that is not UTF-8, if the fallback was used.
    pub not_utf8_at: Option<usize>,
    /// A byte order mark was dropped.
    pub byte_order_mark: bool,
}

/// Decodes a file.
pub(crate) fn decode(bytes: &[u8]) -> Decoded<'_> {
    let (bytes, byte_order_mark) = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => (rest, true),
        None => (bytes, false),
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Decoded { text: Cow::Borrowed(text), not_utf8_at: None, byte_order_mark },
        Err(error) => Decoded {
            text: Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
            not_utf8_at: Some(error.valid_up_to()),
            byte_order_mark,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_never_lost() {
        assert_eq!(decode("ä".as_bytes()).text, "ä");
        let latin = decode(b"# caf\xE9");
        assert_eq!(latin.text, "# café");
        assert_eq!(latin.not_utf8_at, Some(5));
        let marked = decode(b"\xEF\xBB\xBFuser x;");
        assert!(marked.byte_order_mark);
        assert_eq!(marked.text, "user x;");
    }
}
