//! What TLS settings come to, as a number that only equal content has.
//!
//! Owns: [`Digest`], and how settings are written into one.
//! Never: goes by a path, by a position in a plan or by an address in memory: those stay while the content changes.
//! Driven by: `client` (what a connection was opened with), `server` (what clients are verified by).
//! Why SHA-256: connections and sessions outlive a configuration, and are trusted later because two numbers are equal.
//! Whoever could make two contents meet would borrow the trust of the other; a hash for tables does not stop that.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};

/// The content of TLS settings: equal where, and only where, the settings are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits tell digests apart in a log. Settings hold keys, and who knows no more cannot test guesses at them.
        write!(f, "Digest({:02x}{:02x}{:02x}{:02x}…)", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

impl Digest {
    /// The first half: as hard to meet by chance, for places where space counts.
    pub(crate) fn short(&self) -> [u8; 16] {
        let (half, _) = self.0.split_at(16);
        half.try_into().unwrap_or_default()
    }
}

/// A digest in the making. Each piece is written with its length, so that no two lists of pieces read the same.
pub(crate) struct Digesting(Context);

impl Digesting {
    /// `what` keeps digests of different things apart.
    pub(crate) fn of(what: &str) -> Self {
        let mut new = Self(Context::new(&SHA256));
        new.bytes(what.as_bytes());
        new
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(&number.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        self.number(u64::from(bytes.is_some()));
        bytes.into_iter().for_each(|bytes| self.bytes(bytes));
    }

    pub(crate) fn list(&mut self, items: &[impl AsRef<[u8]>]) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| self.bytes(item.as_ref()));
    }

    pub(crate) fn optional_list(&mut self, items: Option<&[String]>) {
        self.number(u64::from(items.is_some()));
        self.list(items.unwrap_or_default());
    }

    pub(crate) fn done(self) -> Digest {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        Digest(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_run_together() {
        let of = |pieces: &[&str]| {
            let mut digest = Digesting::of("test");
            digest.list(pieces);
            digest.done()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        let mut none = Digesting::of("test");
        none.optional(None);
        let mut empty = Digesting::of("test");
        empty.optional(Some(b""));
        assert_ne!(none.done(), empty.done());
    }
}
