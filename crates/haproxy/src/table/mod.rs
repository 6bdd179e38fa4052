//! Every keyword of haproxy.cfg: one entry each.
//!
//! Owns: the tables, which say where a word may stand, how many arguments it takes, what it defaults to, what it means,
//! and what becomes of it here: they name the function of `take` that takes it in.
//! Never: reads a line by itself; `sections` asks.
//! Why: reference, completion, compatibility table and checks all come from one entry, so they cannot disagree.
//! Words that only tune are warnings; words that decide who gets in, or what is answered, are errors until built.

mod checks;
mod global;
mod options;
mod proxy;
mod removed;
mod stats;
mod timeouts;
mod tuning;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::read::Line;
use crate::words::Keyword;

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
        // What is called with a name (`set-var(check.a)`) is known without it.
        let plain = |word: &'_ crate::read::Word| {
            word.text.split_once('(').map_or(word.text.len(), |(name, _)| name.len())
        };
        line.words.len() >= words
            && keyword.name.split(' ').zip(&line.words).all(|(a, b)| {
                a == b.as_str()
                    || a.ends_with("-var") && a == &b.text[..plain(b)]
                    || a.ends_with("-var-fmt") && a == &b.text[..plain(b)]
            })
    };
    let candidates = by_first_word().get(line.keyword().as_str()).into_iter().flatten();
    let mut found: Vec<_> =
        candidates.copied().filter(named).map(|k| (k, k.name.split(' ').count())).collect();
    let longest = found.iter().map(|&(_, words)| words).max().unwrap_or(0);
    found.retain(|&(_, words)| words == longest);
    found
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
    }
}
