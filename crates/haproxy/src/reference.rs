//! The tables as a reference: for `weir explain`, documentation and the compatibility table.

use crate::table::keywords;
use crate::words::{Action, BIND, Converter, Fetch, ParameterStatus, SERVER, Sections, Status};

/// One word, as a reader of the reference sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word; parameters are written `bind … NAME`.
    pub name: String,
    /// Sections it may stand in.
    pub sections: Vec<&'static str>,
    /// What holds where it is not written.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// `built`, `accepted`, `no effect`, `not built`, `removed`.
    pub status: &'static str,
    /// What holds instead, what is missing, or what to write today.
    pub note: &'static str,
}

/// All words, in the order of the tables.
pub fn entries() -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for keyword in keywords() {
        let (status, note) = match keyword.status {
            Status::Global(_) | Status::Proxy(_) => ("built", ""),
            Status::Accepted => ("accepted", ""),
            Status::Tuning(note) => ("no effect", note),
            Status::NotYet(note) => ("not built", note),
            Status::Removed { instead, .. } => ("removed", instead),
        };
        let places = [
            (Sections::GLOBAL, "global"),
            (Sections::DEFAULTS, "defaults"),
            (Sections::FRONTEND, "frontend"),
            (Sections::BACKEND, "backend"),
        ];
        let sections =
            places.iter().filter(|(bit, _)| keyword.sections.meets(*bit)).map(|&(_, name)| name).collect();
        all.push(Entry {
            name: keyword.name.into(),
            sections,
            default: keyword.default,
            doc: keyword.doc,
            status,
            note,
        });
    }
    for (what, table) in [("bind", BIND), ("server", SERVER)] {
        for parameter in table {
            let (status, note) = match parameter.status {
                ParameterStatus::Built => ("built", ""),
                ParameterStatus::Accepted => ("accepted", ""),
                ParameterStatus::Tuning(note) => ("no effect", note),
                ParameterStatus::NotYet(note) => ("not built", note),
            };
            let name = format!("{what} … {}", parameter.name);
            all.push(Entry { name, sections: vec![what], default: "", doc: parameter.doc, status, note });
        }
    }
    all
}

/// A word of rules and expressions, as a reader of the reference sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleWord {
    /// The word.
    pub name: String,
    /// Where it may stand; empty: wherever its kind may.
    pub places: Vec<&'static str>,
    /// `built`, `no effect`, `not built`.
    pub status: &'static str,
    /// What holds instead, or what is missing.
    pub note: &'static str,
}

fn of_kind(name: &str, built: bool) -> RuleWord {
    RuleWord {
        name: name.to_owned(),
        places: Vec::new(),
        status: if built { "built" } else { "not built" },
        note: "",
    }
}

fn in_order(mut all: Vec<RuleWord>) -> Vec<RuleWord> {
    all.sort_by(|one, other| (&one.name, one.status).cmp(&(&other.name, other.status)));
    all
}

/// All sample fetches that are known by name. Those of stick tables (`sc_…`, `src_…`) are too many to list.
pub fn fetches() -> Vec<RuleWord> {
    let name = |name: &'static str| of_kind(name, crate::words::fetch(name) != Some(Fetch::NotYet));
    in_order(crate::words::fetch_names().map(name).collect())
}

/// All converters that are known by name.
pub fn converters() -> Vec<RuleWord> {
    let name =
        |name: &'static str| of_kind(name, crate::words::known_converter(name) == Some(Converter::Built));
    in_order(crate::words::converter_names().map(name).collect())
}

/// All actions of rules, with the rules that they may stand in.
pub fn actions() -> Vec<RuleWord> {
    let one = |(name, places, action): (&str, Vec<&'static str>, Action)| {
        let (status, note) = match action {
            Action::Built => ("built", ""),
            Action::Tuning(note) => ("no effect", note),
            Action::NotYet(note) => ("not built", note),
        };
        RuleWord { name: name.to_owned(), places, status, note }
    };
    in_order(crate::words::all_actions().map(one).collect())
}
