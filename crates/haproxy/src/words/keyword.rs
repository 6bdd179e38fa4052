//! What is known of a keyword, and a line as whoever takes it in sees it.
//!
//! Owns: where a word may stand, how many arguments it takes, what may become of it.
//! Never: knows a word by name; the tables do.
//! Driven by: the tables above, `take`.

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
pub(crate) const fn word(
    name: &'static str,
    sections: Sections,
    arguments: (u8, u8),
    default: &'static str,
    doc: &'static str,
    status: Status,
) -> Keyword {
    Keyword { name, sections, least: arguments.0, most: arguments.1, default, doc, status }
}
