//! FLV files that are begun in their middle.
//!
//! Owns: the header that stands before the rest of a file.
//! Driven by: `engine::action::files`.
//! Why: players ask for a byte that they know from the file's own index; a tag begins there.

/// The header of a file with sound and pictures, and the size of the tag before the first: none.
pub const HEADER: &[u8; 13] = b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00";

/// The byte from which on a file of this size is sent; `None`: all of it, as it is. `text`: the argument `start`.
#[must_use]
pub fn start(text: &[u8], size: u64) -> Option<u64> {
    let number =
        std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.parse().ok().filter(|&start| start > 0 && start < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_byte_of_the_file_means_all_of_it() {
        assert_eq!(start(b"10", 11), Some(10));
        for text in [&b"11"[..], b"0", b"", b"-1", b"+1", b"1.5", b"x", b"99999999999999999999"] {
            assert_eq!(start(text, 11), None, "{}", text.escape_ascii());
        }
    }
}
