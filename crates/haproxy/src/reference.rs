//! The tables as a reference: for `weir explain`, documentation and the compatibility table.

use crate::table::keywords;
use crate::words::{BIND, ParameterStatus, SERVER, Sections, Status};

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
