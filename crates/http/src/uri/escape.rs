//! Percent-encoding as nginx writes it, and the lenient decoding of its variables.
//!
//! Owns: the three sets of bytes that nginx escapes (`ngx_escape_uri`), and [`unescape`].
//! Why: a decoded path goes back into a request line or a Location field only through here, so that a CR, LF or space
//! that came in as `%0d` goes out as `%0D`.

/// Where escaped text will stand. The sets are those of nginx since 1.21.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// In a path: controls, space, `"` `#` `%` `<` `>` `?` `\` `^` `` ` `` `{` `|` `}`, and all from 0x7f on.
    Uri,
    /// In an argument: as [`Escape::Uri`], and `&` `+` `;`.
    Args,
    /// A whole component on its own: all but letters, digits and `-` `.` `_` `~`.
    Component,
    /// In an attribute of a page: as [`Escape::Uri`] but for `#` `%` `?`, and `'` `~`.
    Refresh,
}

impl Escape {
    /// Whether `byte` is written as `%XX`.
    #[must_use]
    pub fn applies(self, byte: u8) -> bool {
        let in_uri = !(0x21..0x7f).contains(&byte)
            || matches!(
                byte,
                b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            );
        match self {
            Self::Uri => in_uri,
            Self::Refresh => in_uri && !matches!(byte, b'#' | b'%' | b'?') || matches!(byte, b'\'' | b'~'),
            Self::Args => in_uri || matches!(byte, b'&' | b'+' | b';'),
            Self::Component => !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.' | b'_' | b'~'),
        }
    }
}

/// Appends `text`, escaped.
pub fn escape(kind: Escape, text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if kind.applies(byte) {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Appends `text`, decoded. What is no escape stays as it is, as nginx leaves it in arguments and rewrites.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        match super::normalize::escaped(&rest[at + 1..]) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[at + 3..];
            }
            None => {
                out.push(b'%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nginx's own tables (`src/core/ngx_string.c`) as facts: bit n of word w is byte 32 w + n.
    const NGINX: [(Escape, [u32; 4]); 3] = [
        (Escape::Uri, [0xffff_ffff, 0xd000_002d, 0x5000_0000, 0xb800_0001]),
        (Escape::Args, [0xffff_ffff, 0xd800_086d, 0x5000_0000, 0xb800_0001]),
        (Escape::Component, [0xffff_ffff, 0xfc00_9fff, 0x7800_0001, 0xb800_0001]),
    ];

    #[test]
    fn the_sets_are_those_of_nginx() {
        for (kind, words) in NGINX {
            for byte in 0..=255u8 {
                let expected =
                    words.get(usize::from(byte / 32)).is_none_or(|word| word >> (byte % 32) & 1 == 1);
                assert_eq!(kind.applies(byte), expected, "{kind:?} {byte:#x}");
            }
        }
    }

    #[test]
    fn there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        for (kind, _) in NGINX {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            escape(kind, &all, &mut there);
            unescape(&there, &mut back);
            assert_eq!(back, all);
        }
        let mut out = Vec::new();
        unescape(b"%", &mut out);
        unescape(b"%4%41%zz%", &mut out);
        assert_eq!(out, b"%%4A%zz%");
    }
}
