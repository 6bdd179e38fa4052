//! User variables.

use std::sync::Arc;

use serde::Serialize;

use weir_expr::Slot;
use weir_expr::networks::DatabasePart;

use crate::{ByteMap, Captures, Database, KeyUseIx, MatchFailed, NetMap, Pattern, Template};

/// A variable defined by the configuration; its place in the plan's list is its slot.
#[derive(Clone, Debug, Serialize)]
pub struct Variable {
    /// Name without `$`.
    pub name: Box<str>,
    /// How its value comes about.
    pub definition: Definition,
}

/// Peers that are believed about their clients.
#[derive(Clone, Debug, Serialize)]
pub struct GeoProxies {
    /// Their networks.
    #[serde(serialize_with = "crate::net::show_set")]
    pub from: NetMap<()>,
    /// Of the addresses that they name, all are passed over that are such peers themselves.
    pub recursive: bool,
}

/// What a variable takes from a database of networks.
#[derive(Clone, Debug, Serialize)]
pub struct DatabaseUse {
    /// The database.
    pub database: Arc<Database>,
    /// What is wanted of it.
    pub part: DatabasePart,
    /// The address; `None`: the client's.
    pub source: Option<Template>,
    /// Whose X-Forwarded-For is believed instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Box<GeoProxies>>,
    /// Where it says nothing.
    pub default: Option<Box<str>>,
}

/// How a user variable gets its value.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// By an assignment or a named group; empty before.
    Assigned,
    /// By a table.
    Map(Arc<MapTable>),
    /// By an address.
    Geo {
        /// The address; `None`: the client's.
        source: Option<Template>,
        /// Whose X-Forwarded-For is believed instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        proxies: Option<Box<GeoProxies>>,
        /// Index into `values` by network.
        networks: Arc<NetMap<u32>>,
        /// Values.
        values: Arc<[Template]>,
        /// Otherwise.
        default: Template,
    },
    /// By a database of networks.
    Database(Box<DatabaseUse>),
    /// By a hash of a key (MurmurHash2).
    Split {
        /// Key.
        key: Template,
        /// `(inclusive upper bound, value)` in order.
        shares: Box<[(u32, Template)]>,
    },
    /// By a number.
    Numbers(Box<NumberTable>),
    /// By a list of keys and values that changes while running. Computed anew at each use.
    Listed {
        /// What is looked up.
        source: Template,
        /// In which list, and how.
        list: KeyUseIx,
        /// Otherwise.
        default: Template,
    },
    /// By a store of keys and values that are set while running. Computed anew at each use; none where there is no value.
    Keyval {
        /// What is looked up.
        key: Template,
        /// The store.
        zone: crate::KeyvalIx,
    },
    /// A value through steps, computed at each use.
    Converted {
        /// What goes in.
        source: Template,
        /// In order.
        steps: Box<[Step]>,
    },
}

/// One step of a conversion.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A pure change.
    Convert(weir_expr::Convert),
    /// A coding or a hash.
    Coding(weir_expr::Coding),
    /// What the pattern matches becomes this, once or wherever it matches.
    Replace {
        /// Tried on the value.
        pattern: Arc<Pattern>,
        /// Substitute.
        with: Template,
        /// Wherever it matches.
        all: bool,
    },
    /// What a stick table says about the value as a key; none where there is no such key.
    Stick {
        /// The table.
        table: Box<str>,
        /// What is asked.
        what: weir_expr::StickWhat,
    },
    /// Text after the value.
    Append(Template),
    /// What the engine does by arguments.
    Call {
        /// What.
        routine: weir_expr::Routine,
        /// Its arguments, in order.
        arguments: Box<[Template]>,
    },
    /// The value becomes that of a variable as well.
    Note(Slot),
    /// So many bytes at the end become a variable, in Base64, and are cut off.
    NoteEnd(Slot, usize),
    /// The value is kept for longer than the exchange as well.
    Keep {
        /// Where.
        of: weir_expr::KeptIn,
        /// Its name.
        name: Box<str>,
        /// It is a number.
        number: bool,
    },
    /// Takes the value of a variable away; the value that goes through stays.
    Forget(Slot),
    /// The same of one that is kept for longer.
    ForgetKept {
        /// Where.
        of: weir_expr::KeptIn,
        /// Its name.
        name: Box<str>,
    },
}

impl Step {
    /// The variable that it writes to.
    pub fn written(&self) -> Option<Slot> {
        match self {
            Self::Note(slot) | Self::NoteEnd(slot, _) | Self::Forget(slot) => Some(*slot),
            _ => None,
        }
    }

    /// The templates in it.
    pub fn templates(&self) -> &[Template] {
        match self {
            Self::Convert(_)
            | Self::Coding(_)
            | Self::Stick { .. }
            | Self::Note(_)
            | Self::NoteEnd(..)
            | Self::Keep { .. }
            | Self::Forget(_)
            | Self::ForgetKept { .. } => &[],
            Self::Replace { with: text, .. } | Self::Append(text) => std::slice::from_ref(text),
            Self::Call { arguments, .. } => arguments,
        }
    }
}

/// Values by numbers.
#[derive(Clone, Debug, Serialize)]
pub struct NumberTable {
    /// The number.
    pub source: Template,
    /// Single numbers, sorted.
    pub exact: Box<[(i64, Template)]>,
    /// Ranges, both ends included; the first that holds decides.
    pub ranges: Box<[(i64, i64, Template)]>,
    /// Otherwise, and for what is no number.
    pub default: Template,
    /// Computed anew at each use.
    pub volatile: bool,
}

impl NumberTable {
    /// The value for a text that may be a number.
    pub fn find(&self, text: &[u8]) -> &Template {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<i64>().ok());
        let Some(number) = number else { return &self.default };
        if let Ok(at) = self.exact.binary_search_by_key(&number, |one| one.0) {
            return &self.exact[at].1;
        }
        let range = self.ranges.iter().find(|(from, to, _)| (*from..=*to).contains(&number));
        range.map_or(&self.default, |range| &range.2)
    }

    /// The templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let exact = self.exact.iter().map(|one| &one.1);
        exact.chain(self.ranges.iter().map(|one| &one.2)).chain([&self.source, &self.default])
    }
}

/// The share that a hash falls into.
pub fn share_of(shares: &[(u32, Template)], hash: u32) -> Option<&Template> {
    shares.iter().find(|share| hash <= share.0).map(|share| &share.1)
}

/// A table from text to text.
#[derive(Clone, Debug, Serialize)]
pub struct MapTable {
    /// What is looked up.
    pub source: Template,
    /// In lower case.
    #[serde(serialize_with = "crate::host::show_names")]
    exact: ByteMap<Template>,
    #[serde(serialize_with = "crate::host::show_names")]
    suffixes: ByteMap<Template>,
    #[serde(serialize_with = "crate::host::show_names")]
    prefixes: ByteMap<Template>,
    patterns: Box<[(Arc<Pattern>, Template)]>,
    /// Otherwise.
    pub default: Template,
    hostnames: bool,
    /// Computed anew at each use.
    pub volatile: bool,
}

/// A value, and the captures of the pattern that gave it.
pub type MapFound<'t> = (&'t Template, Option<(&'t Arc<Pattern>, Captures)>);

/// The parts of a table, to build one from.
#[derive(Debug)]
pub struct MapParts {
    /// See [`MapTable::source`].
    pub source: Template,
    /// Whole keys; the first of equals stands.
    pub exact: Vec<(String, Template)>,
    /// `*.example.org` as `example.org`.
    pub suffixes: Vec<(String, Template)>,
    /// `mail.*` as `mail`.
    pub prefixes: Vec<(String, Template)>,
    /// In order.
    pub patterns: Vec<(Arc<Pattern>, Template)>,
    /// Otherwise.
    pub default: Template,
    /// A final dot of the subject is ignored.
    pub hostnames: bool,
    /// Computed anew at each use.
    pub volatile: bool,
}

impl MapTable {
    /// Prepares a table.
    pub fn new(parts: MapParts) -> Self {
        Self {
            source: parts.source,
            exact: first_of_each(parts.exact),
            suffixes: first_of_each(parts.suffixes),
            prefixes: first_of_each(parts.prefixes),
            patterns: parts.patterns.into(),
            default: parts.default,
            hostnames: parts.hostnames,
            volatile: parts.volatile,
        }
    }

    /// The value for a subject, with the captures of the pattern that gave it (their subject is `subject` itself).
    ///
    /// # Errors
    /// A pattern gave up before any matched. nginx takes the default then, which may be what lets a request pass.
    pub fn find(&self, subject: &[u8]) -> Result<MapFound<'_>, MatchFailed> {
        let folded: smallvec::SmallVec<[u8; 128]> = subject.iter().map(u8::to_ascii_lowercase).collect();
        let key = if self.hostnames { folded.strip_suffix(b".").unwrap_or(&folded) } else { &folded[..] };
        if let Some(value) = self.exact.get(key).or_else(|| self.by_label(key)) {
            return Ok((value, None));
        }
        for (pattern, value) in &self.patterns {
            if let Some(captures) = pattern.matches(subject)? {
                return Ok((value, Some((pattern, captures))));
            }
        }
        Ok((&self.default, None))
    }

    /// Every template in it: the source and the values.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        let named = [&self.exact, &self.suffixes, &self.prefixes].into_iter().flat_map(|map| map.values());
        let patterns = self.patterns.iter().map(|(_, value)| value);
        named.chain(patterns).chain([&self.source, &self.default])
    }

    /// The longest suffix, then the longest prefix.
    fn by_label(&self, key: &[u8]) -> Option<&Template> {
        let suffix = || memchr::memchr_iter(b'.', key).find_map(|dot| self.suffixes.get(&key[dot + 1..]));
        let prefix = || memchr::memrchr_iter(b'.', key).find_map(|dot| self.prefixes.get(&key[..dot]));
        let suffix = if self.suffixes.is_empty() { None } else { suffix() };
        suffix.or_else(|| if self.prefixes.is_empty() { None } else { prefix() })
    }
}

fn first_of_each(entries: Vec<(String, Template)>) -> ByteMap<Template> {
    let mut map = ByteMap::default();
    for (key, value) in entries {
        map.entry(key.to_ascii_lowercase().into_bytes().into()).or_insert(value);
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(entries: &[(&str, &str)]) -> Vec<(String, Template)> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), Template::literal(*value))).collect()
    }

    #[test]
    fn exact_then_suffix_then_prefix_then_pattern_then_default() {
        let pattern = Arc::new(Pattern::new("^(x+)$", false, |_| None).unwrap());
        let table = MapTable::new(MapParts {
            source: Template::default(),
            exact: texts(&[("A.example", "exact"), ("a.example", "later")]),
            suffixes: texts(&[("example", "short"), ("b.example", "long")]),
            prefixes: texts(&[("mail", "mail")]),
            patterns: vec![(pattern, Template::literal("pattern"))],
            default: Template::literal("default"),
            hostnames: true,
            volatile: false,
        });
        let check =
            |subject: &str| table.find(subject.as_bytes()).unwrap().0.as_literal().unwrap().to_owned();
        assert_eq!(check("a.EXAMPLE."), "exact");
        assert_eq!(check("c.b.example"), "long");
        assert_eq!(check("c.example"), "short");
        assert_eq!(check("mail.org"), "mail");
        assert_eq!(check("xxx"), "pattern");
        assert_eq!(check("XXX"), "default", "patterns see the subject as it is");
    }
}
