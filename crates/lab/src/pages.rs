//! What servers serve: pages of the sizes that a scenario asks for.
//!
//! Owns: what pages hold. Most hold one letter; those that are compressed hold text, because what repeats one letter
//! costs next to nothing to compress.
//! Driven by: `servers`.

use std::fmt::Write as _;

/// A page of so many bytes.
pub(crate) fn plain(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes]
}

/// Words of text and markup, about as frequent as pages of the web have them.
const WORDS: [&str; 48] = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "this",
    "are",
    "or",
    "from",
    "at",
    "which",
    "but",
    "have",
    "an",
    "had",
    "they",
    "you",
    "were",
    "their",
    "one",
    "all",
    "balancer",
    "request",
    "connection",
    "server",
    "proxy",
    "response",
    "</p>\n<p>",
    "</li>\n<li>",
    "<b>",
    "</b>",
    "<a href=\"/docs/",
    "\">",
    "</a>",
    "<td class=\"n\">",
];

/// A text of so many bytes, the same each time. zlib makes about a third of it.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut out = String::from("<!doctype html>\n<p>");
    while out.len() < bytes {
        let drawn = next();
        // Two draws: the first words come more often.
        let word = (drawn % 48).min((drawn >> 32) % 48) as usize;
        out += WORDS.get(word).copied().unwrap_or_default();
        // Now and then a number, as identifiers and dates are.
        match drawn >> 60 {
            0 => _ = write!(out, " {}", drawn % 10_000),
            _ => out.push(' '),
        }
    }
    out.truncate(bytes);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_their_sizes() {
        for bytes in [0, 1, 1024, 10_240] {
            assert_eq!((plain(bytes).len(), text(bytes).len()), (bytes, bytes));
        }
        assert_eq!(text(10_240), text(10_240));
    }
}
