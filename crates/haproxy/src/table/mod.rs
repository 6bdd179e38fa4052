//! Every word of haproxy.cfg: one entry each.
//!
//! Owns: [`Keyword`] and the tables, which say where a word may stand, how many arguments it takes, what it defaults
//! to, what it means, and what becomes of it here.
//! Never: reads a line by itself; `take` asks, and calls the taker an entry names.
//! Why: reference, completion, compatibility table and checks all come from one entry, so they cannot disagree.
//! Words that only tune are warnings; words that decide who gets in, or what is answered, are errors until built.

mod actions;
mod bind;
mod checks;
mod fetches;
mod global;
mod options;
mod others;
mod proxy;
mod removed;
mod section;
mod server;
mod stats;
mod timeouts;
mod tuning;

pub(crate) use actions::{Action, RuleSet, action, action_names};
pub(crate) use bind::{BIND, CRT_LIST};
pub(crate) use fetches::{Converter, Fetch, Matching, acl_word, converter, fetch, nearest_fetch, predefined};
pub(crate) use others::words as section_words;
pub(crate) use section::SectionKind;
pub(crate) use server::SERVER;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::draft::{Global, Proxy};
use crate::findings::Findings;
use crate::read::{Line, Word};

/// Sections a word may stand in, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sections(pub(crate) u32);

impl Sections {
    /// `global`.
    pub(crate) const GLOBAL: Sections = Sections(1);
    /// `defaults`.
    pub(crate) const DEFAULTS: Sections = Sections(1 << 1);
    /// `frontend`, and `listen`.
    pub(crate) const FRONTEND: Sections = Sections(1 << 2);
    /// `backend`, and `listen`.
    pub(crate) const BACKEND: Sections = Sections(1 << 3);

    /// Both.
    pub(crate) const fn and(self, other: Sections) -> Sections {
        Sections(self.0 | other.0)
    }

    /// True if they share a section.
    pub(crate) const fn meets(self, other: Sections) -> bool {
        self.0 & other.0 != 0
    }
}

/// `defaults`, `frontend`, `listen`.
pub(crate) const DF: Sections = Sections::DEFAULTS.and(Sections::FRONTEND);
/// `defaults`, `backend`, `listen`.
pub(crate) const DB: Sections = Sections::DEFAULTS.and(Sections::BACKEND);
/// `frontend`, `backend`, `listen`.
pub(crate) const FB: Sections = Sections::FRONTEND.and(Sections::BACKEND);
/// All proxies.
pub(crate) const DFB: Sections = DF.and(FB);

/// No bound on the number of arguments.
pub(crate) const MANY: u8 = u8::MAX;

/// One word and all that is known about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyword {
    /// As written; several words where the first alone says nothing (`timeout connect`).
    pub(crate) name: &'static str,
    /// Where it may stand.
    pub(crate) sections: Sections,
    /// Fewest arguments after the name.
    pub(crate) least: u8,
    /// Most arguments after the name.
    pub(crate) most: u8,
    /// What holds where it is not written; empty: nothing.
    pub(crate) default: &'static str,
    /// What it means, in a line.
    pub(crate) doc: &'static str,
    /// What becomes of it.
    pub(crate) status: Status,
}

/// A line as its keyword's taker sees it.
pub(crate) struct Call<'a> {
    /// The whole line.
    pub(crate) line: &'a Line,
    /// Its entry.
    pub(crate) keyword: &'static Keyword,
    /// The words after the name.
    pub(crate) arguments: &'a [Word],
}

impl Call<'_> {
    /// The text of an argument; empty where there is none.
    pub(crate) fn text(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", Word::as_str)
    }

    /// All arguments with spaces between them.
    pub(crate) fn joined(&self) -> String {
        self.arguments.iter().map(Word::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Index of the first argument in the line.
    pub(crate) fn first(&self) -> usize {
        self.line.words.len() - self.arguments.len()
    }
}

/// What becomes of a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Status {
    /// Built: taken in by this.
    Global(fn(&mut Global, &Call<'_>, &mut Findings)),
    /// Built: taken in by this.
    Proxy(fn(&mut Proxy, &Call<'_>, &mut Findings)),
    /// Nothing is to be done, and nothing is lost.
    Accepted,
    /// It only tunes: a warning that says what holds instead.
    Tuning(&'static str),
    /// It decides who gets in, or what is answered, and is not built: an error that says what it would do.
    NotYet(&'static str),
    /// HAProxy removed it: accepted with a warning that names the modern word.
    Removed {
        /// Since this version.
        version: &'static str,
        /// What to write today.
        instead: &'static str,
        /// How the old word is still taken in; `None`: an error, as its meaning cannot be had.
        taker: Option<fn(&mut Proxy, &Call<'_>, &mut Findings)>,
    },
}

/// A shorthand for tables.
const fn word(
    name: &'static str,
    sections: Sections,
    arguments: (u8, u8),
    default: &'static str,
    doc: &'static str,
    status: Status,
) -> Keyword {
    Keyword { name, sections, least: arguments.0, most: arguments.1, default, doc, status }
}

const TABLES: &[&[Keyword]] = &[
    global::WORDS,
    tuning::WORDS,
    proxy::WORDS,
    timeouts::WORDS,
    options::WORDS,
    stats::WORDS,
    checks::WORDS,
    removed::WORDS,
];

/// All keywords of `global`, `defaults`, `frontend`, `backend` and `listen`.
pub(crate) fn keywords() -> impl Iterator<Item = &'static Keyword> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// Entries by the first word of their names.
fn by_first_word() -> &'static HashMap<&'static str, Vec<&'static Keyword>> {
    static INDEX: OnceLock<HashMap<&'static str, Vec<&'static Keyword>>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index: HashMap<&'static str, Vec<&'static Keyword>> = HashMap::new();
        for keyword in keywords() {
            let first = keyword.name.split(' ').next().unwrap_or(keyword.name);
            index.entry(first).or_default().push(keyword);
        }
        index
    })
}

/// Entries that a line's first words name, the longest name first. Several sections may use one name.
pub(crate) fn lookup(line: &Line) -> Vec<(&'static Keyword, usize)> {
    let named = |keyword: &&Keyword| {
        let words = keyword.name.split(' ').count();
        line.words.len() >= words && keyword.name.split(' ').zip(&line.words).all(|(a, b)| a == b.as_str())
    };
    let candidates = by_first_word().get(line.keyword().as_str()).into_iter().flatten();
    let mut found: Vec<_> =
        candidates.copied().filter(named).map(|k| (k, k.name.split(' ').count())).collect();
    let longest = found.iter().map(|&(_, words)| words).max().unwrap_or(0);
    found.retain(|&(_, words)| words == longest);
    found
}

/// A parameter of `bind`, `server` or `default-server`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    /// The word.
    pub(crate) name: &'static str,
    /// How many words follow that belong to it.
    pub(crate) arguments: u8,
    /// What it means, in a line.
    pub(crate) doc: &'static str,
    /// What becomes of it.
    pub(crate) status: ParameterStatus,
}

/// What becomes of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterStatus {
    /// Built.
    Built,
    /// Nothing is to be done, and nothing is lost.
    Accepted,
    /// A warning that says what holds instead.
    Tuning(&'static str),
    /// An error that says what it would do.
    NotYet(&'static str),
}

const fn parameter(
    name: &'static str,
    arguments: u8,
    doc: &'static str,
    status: ParameterStatus,
) -> Parameter {
    Parameter { name, arguments, doc, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_for_each_section() {
        let mut seen: Vec<&Keyword> = Vec::new();
        for keyword in keywords() {
            let twin = seen.iter().find(|k| k.name == keyword.name && k.sections.meets(keyword.sections));
            assert!(twin.is_none(), "{} stands twice", keyword.name);
            assert!(
                !keyword.doc.is_empty() && keyword.doc.ends_with('.'),
                "{} has no doc line",
                keyword.name
            );
            assert!(keyword.least <= keyword.most, "{}", keyword.name);
            seen.push(keyword);
        }
        for table in [BIND, SERVER] {
            for (at, parameter) in table.iter().enumerate() {
                assert!(
                    table[..at].iter().all(|p| p.name != parameter.name),
                    "{} stands twice",
                    parameter.name
                );
                assert!(parameter.doc.ends_with('.'), "{} has no doc line", parameter.name);
            }
        }
    }
}
