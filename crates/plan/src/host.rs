//! Names to things: exact, `*.suffix`, `prefix.*`, patterns, default.
//!
//! Owns: [`NameIndex`], used for Host (sites) and for SNI (identities).
//! Never: changes case; callers give names in lower case, without port.
//! Driven by: `engine`, once a request or handshake.
//! Why: 10,000 sites cost as much as one: a few hash look-ups, one a label at most, whatever the number of names.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::{Captures, MatchFailed, Pattern, SiteIx};

/// A map of byte strings.
pub type ByteMap<T> = HashMap<Box<[u8]>, T, ahash::RandomState>;

/// Sites by Host.
pub type HostIndex = NameIndex<SiteIx>;

/// Things by host name, as nginx's `server_name` chooses.
#[derive(Clone, Debug, Serialize)]
pub struct NameIndex<T> {
    /// Whole names in lower case.
    #[serde(serialize_with = "show_names")]
    exact: ByteMap<T>,
    /// `*.example.org` by `example.org`.
    #[serde(serialize_with = "show_names")]
    suffixes: ByteMap<T>,
    /// `www.example.*` by `www.example`.
    #[serde(serialize_with = "show_names")]
    prefixes: ByteMap<T>,
    /// In order.
    patterns: Vec<(Arc<Pattern>, T)>,
    /// Longest key of `suffixes` and of `prefixes`: bounds the work that a long Host can cause.
    #[serde(skip)]
    longest: (usize, usize),
    /// Otherwise.
    default: T,
}

/// A name found.
#[derive(Clone, Debug)]
pub struct NameFound<'p, T> {
    /// What it names.
    pub value: T,
    /// No name matched, the default was taken.
    pub is_default: bool,
    /// The pattern that matched with its captures; subject is the name without a final dot.
    pub matched: Option<(&'p Arc<Pattern>, Captures)>,
}

impl<T: Copy> NameIndex<T> {
    /// An index with nothing but a default.
    pub fn new(default: T) -> Self {
        Self {
            exact: ByteMap::default(),
            suffixes: ByteMap::default(),
            prefixes: ByteMap::default(),
            patterns: Vec::new(),
            longest: (0, 0),
            default,
        }
    }

    /// Adds a whole name, lower case. False if it was there: the first stands.
    pub fn add_exact(&mut self, name: &str, value: T) -> bool {
        insert(&mut self.exact, name, value)
    }

    /// Adds `*.NAME`. False if it was there.
    pub fn add_suffix(&mut self, name: &str, value: T) -> bool {
        self.longest.0 = self.longest.0.max(name.len());
        insert(&mut self.suffixes, name, value)
    }

    /// Adds `NAME.*`. False if it was there.
    pub fn add_prefix(&mut self, name: &str, value: T) -> bool {
        self.longest.1 = self.longest.1.max(name.len());
        insert(&mut self.prefixes, name, value)
    }

    /// Adds a pattern, tried after those added before.
    pub fn add_pattern(&mut self, pattern: Arc<Pattern>, value: T) {
        self.patterns.push((pattern, value));
    }

    /// For names that nothing matches.
    pub fn default_value(&self) -> T {
        self.default
    }

    /// True if there is nothing but the default.
    pub fn is_trivial(&self) -> bool {
        self.exact.is_empty()
            && self.suffixes.is_empty()
            && self.prefixes.is_empty()
            && self.patterns.is_empty()
    }

    /// Every value, with repetitions.
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        let named =
            [&self.exact, &self.suffixes, &self.prefixes].into_iter().flat_map(|map| map.values().copied());
        named.chain(self.patterns.iter().map(|entry| entry.1)).chain([self.default])
    }

    /// Finds a name: lower case, without port. One final dot is ignored.
    ///
    /// # Errors
    /// A pattern gave up before any matched: whose name it is is not known.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Result<NameFound<'_, T>, MatchFailed> {
        let name = name.strip_suffix(b".").unwrap_or(name);
        if let Some(&value) = self.exact.get(name) {
            return Ok(NameFound { value, is_default: false, matched: None });
        }
        self.lookup_inexact(name)
    }

    fn lookup_inexact(&self, name: &[u8]) -> Result<NameFound<'_, T>, MatchFailed> {
        if let Some(value) = self.by_suffix(name).or_else(|| self.by_prefix(name)) {
            return Ok(NameFound { value, is_default: false, matched: None });
        }
        for (pattern, value) in &self.patterns {
            if let Some(captures) = pattern.matches(name)? {
                let matched = Some((pattern, captures));
                return Ok(NameFound { value: *value, is_default: false, matched });
            }
        }
        Ok(NameFound { value: self.default, is_default: true, matched: None })
    }

    /// The longest suffix begins after the first dot.
    fn by_suffix(&self, name: &[u8]) -> Option<T> {
        if self.suffixes.is_empty() {
            return None;
        }
        let from = name.len().saturating_sub(self.longest.0 + 1);
        let dots = memchr::memchr_iter(b'.', &name[from..]);
        dots.filter_map(|dot| self.suffixes.get(&name[from + dot + 1..])).next().copied()
    }

    /// The longest prefix ends before the last dot.
    fn by_prefix(&self, name: &[u8]) -> Option<T> {
        if self.prefixes.is_empty() {
            return None;
        }
        let to = name.len().min(self.longest.1 + 1);
        memchr::memrchr_iter(b'.', &name[..to])
            .filter_map(|dot| self.prefixes.get(&name[..dot]))
            .next()
            .copied()
    }
}

fn insert<T>(map: &mut ByteMap<T>, name: &str, value: T) -> bool {
    match map.entry(name.as_bytes().into()) {
        std::collections::hash_map::Entry::Occupied(_) => false,
        std::collections::hash_map::Entry::Vacant(place) => {
            place.insert(value);
            true
        }
    }
}

/// Prints a map in the order of its keys, so that two prints of one plan are equal.
pub(crate) fn show_names<T: Serialize, S: serde::Serializer>(
    map: &ByteMap<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let sorted: std::collections::BTreeMap<String, &T> =
        map.iter().map(|(name, value)| (name.escape_ascii().to_string(), value)).collect();
    serializer.collect_map(sorted)
}

#[cfg(test)]
mod tests;
