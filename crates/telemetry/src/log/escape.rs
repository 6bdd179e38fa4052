//! Making text from peers safe in a log line.
//!
//! Owns: nginx's `escape=default` and `escape=json`. (`escape=none` is to append the bytes.)
//! Never: allocates; appends to the line.
//! Driven by: compiled log formats, for each variable.
//! Why: without it a client writes lines of its own into the log.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// nginx's default: `"`, `\`, controls and bytes from 0x7F on become `\xXX`.
pub fn escape_default(out: &mut Vec<u8>, text: &[u8]) {
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte == b'"' || byte == b'\\' || !(0x20..0x7f).contains(&byte) {
            out.extend_from_slice(&text[plain..at]);
            out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            plain = at + 1;
        }
    }
    out.extend_from_slice(&text[plain..]);
}

/// nginx's `escape=json`: `"` and `\` get a backslash, controls the short form or `\u00XX`; other bytes pass.
pub fn escape_json(out: &mut Vec<u8>, text: &[u8]) {
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&text[plain..at]);
        plain = at + 1;
        match short {
            0 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            short => out.extend_from_slice(&[b'\\', short]),
        }
    }
    out.extend_from_slice(&text[plain..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn default(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape_default(&mut out, text);
        out
    }

    fn json(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape_json(&mut out, text);
        out
    }

    /// Recorded from nginx 1.22.
    #[test]
    fn as_nginx() {
        assert_eq!(default(b"a\"b\\c\xe9\td"), b"a\\x22b\\x5Cc\\xE9\\x09d");
        assert_eq!(default(b"u\x7f\"/\\"), b"u\\x7F\\x22/\\x5C");
        assert_eq!(json(b"u\x7f\"/\\"), b"u\x7f\\\"/\\\\");
        assert_eq!(json(b"\x01\n\x1f"), b"\\u0001\\n\\u001F");
        assert_eq!(default(b""), b"");
    }

    proptest! {
        #[test]
        fn no_line_can_be_broken(text in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(default(&text).iter().all(|b| (0x20..0x7f).contains(b) && *b != b'"'));
            prop_assert!(json(&text).iter().all(|b| *b >= 0x20));
        }
    }
}
