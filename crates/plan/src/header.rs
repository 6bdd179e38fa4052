//! Field names, prepared: number, spelling to be written, spelling to compare with.
//!
//! Owns: [`HeaderName`] and sets of names.
//! Never: holds values.
//! Driven by: header edits, upstream heads, the filters of both directions.
//! Why: a known name is compared as one byte and found in a set by one bit.

use std::fmt;

use serde::{Serialize, Serializer};
use weir_http::HeaderId;

/// A field name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HeaderName {
    /// Its number, or [`HeaderId::Unknown`].
    pub id: HeaderId,
    /// As to be written.
    pub name: Box<str>,
    /// In lower case, to compare with.
    pub lower: Box<str>,
}

impl HeaderName {
    /// Prepares a name.
    pub fn new(name: &str) -> Self {
        Self { id: HeaderId::of(name.as_bytes()), name: name.into(), lower: name.to_ascii_lowercase().into() }
    }

    /// True if a field of a message, whose number is `id`, has this name.
    #[inline]
    pub fn is(&self, id: HeaderId, name: &[u8]) -> bool {
        id == self.id && (id != HeaderId::Unknown || name.eq_ignore_ascii_case(self.lower.as_bytes()))
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Serialize for HeaderName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

/// A set of field names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderSet {
    /// Known ones, by [`HeaderId::bit`].
    pub known: u128,
    /// Others in lower case, sorted.
    pub others: Box<[Box<str>]>,
}

impl HeaderSet {
    /// The set of these names, in any case.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = 0;
        let mut others: Vec<Box<str>> = Vec::new();
        for name in names {
            match HeaderId::of(name.as_bytes()) {
                HeaderId::Unknown => others.push(name.to_ascii_lowercase().into()),
                id => known |= id.bit(),
            }
        }
        others.sort_unstable();
        others.dedup();
        Self { known, others: others.into() }
    }

    /// True if a field, whose number is `id`, is in the set.
    #[inline]
    pub fn contains(&self, id: HeaderId, name: &[u8]) -> bool {
        is_in(self.known, id) || id == HeaderId::Unknown && self.contains_other(name)
    }

    /// True if a line of a head that stands in `bytes` is in the set. The name is looked at only where it has no number.
    #[inline]
    pub fn contains_line(&self, line: &weir_http::Field, bytes: &[u8]) -> bool {
        is_in(self.known, line.id) || line.id == HeaderId::Unknown && self.contains_other(line.name(bytes))
    }

    /// True if a name without a number is in the set.
    fn contains_other(&self, name: &[u8]) -> bool {
        // Such lists are a handful of names; the lengths differ at most comparisons.
        self.others.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.known == 0 && self.others.is_empty()
    }
}

/// Whether a known name is in a set of bits. In halves: a shift of 128 bits by a variable is a dozen instructions.
#[inline]
fn is_in(known: u128, id: HeaderId) -> bool {
    let (number, low, high) = (id as u32, known as u64, (known >> 64) as u64);
    let half = if number < 64 { low } else { high };
    half >> (number & 63) & 1 != 0
}

// A name without a number has a bit of its own, which is in no set.
const _: () = assert!((HeaderId::Unknown as u32) < u128::BITS && HeaderId::Unknown.bit() == 0);

impl Serialize for HeaderSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all: Vec<&str> = self.others.iter().map(|name| &**name).collect();
        all.extend(HeaderId::all().filter(|id| self.known & id.bit() != 0).map(|id| id.name() as &str));
        serializer.collect_seq(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let set = HeaderSet::new(["Connection", "X-Own"]);
        assert!(set.contains(HeaderId::Connection, b"connection"));
        assert!(set.contains(HeaderId::Unknown, b"x-OWN"));
        assert!(!set.contains(HeaderId::Unknown, b"x-owner"));
        assert!(HeaderName::new("X-Own").is(HeaderId::Unknown, b"x-own"));
        assert!(!HeaderName::new("X-Own").is(HeaderId::Host, b"host"));
    }
}
