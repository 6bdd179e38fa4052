//! Diagnostics as data.
//!
//! Owns: source texts, byte spans, [`Diagnostic`] values, near-word suggestions.
//! Never: prints by itself, or knows a configuration language.
//! Driven by: the front ends and `lower`, which collect diagnostics and carry on; the binary draws them.
//! Why: every mistake is reported at once, each with file, line, column, cause and remedy, and the same value
//! serves a terminal, JSON and (later) a Kubernetes status condition.

#![forbid(unsafe_code)]

mod render;
mod source;

pub use render::{render_json, render_terminal, summary};
pub use source::{LineColumn, SourceId, Sources, Span};

use serde::Serialize;

/// How bad a finding is. Only [`Severity::Error`] keeps a configuration from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something worth knowing; nothing needs to change.
    Note,
    /// It runs, but not, or not wholly, as the text may suggest.
    Warning,
    /// It must be mended before this configuration can run.
    Error,
}

/// A span with a few words about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The marked bytes.
    pub span: Span,
    /// What the mark says; may be empty.
    pub text: String,
}

/// A field of an object that is no text with lines: of a secret in a cluster, of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectField {
    /// The object, as its owners name it.
    pub object: String,
    /// The path of the field in it.
    pub field: String,
}

/// A replacement that would mend the finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The bytes to replace.
    pub span: Span,
    /// What to write there.
    pub replacement: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable, documented, `family::name`, e.g. `nginx::unknown-directive`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence: the cause.
    pub title: String,
    /// Where; `None` only for findings about no text at all (a missing file, a port in use).
    pub primary: Option<Label>,
    /// Where, of what came from an object and not from a text.
    pub object: Option<ObjectField>,
    /// Other places that explain it ("first defined here").
    pub secondary: Vec<Label>,
    /// Remedies and consequences, each one sentence.
    pub help: Vec<String>,
    /// A mechanical remedy, where there is one.
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// A new error.
    pub fn error(code: &'static str, title: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, title)
    }

    /// A new warning.
    pub fn warning(code: &'static str, title: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, title)
    }

    /// A new note.
    pub fn note(code: &'static str, title: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, title)
    }

    fn new(severity: Severity, code: &'static str, title: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            title: readable(title.into()),
            primary: None,
            object: None,
            secondary: Vec::new(),
            help: Vec::new(),
            fix: None,
        }
    }

    /// Marks the place.
    #[must_use]
    pub fn at(self, span: Span) -> Self {
        self.labelled(span, "")
    }

    /// Marks the place, with words.
    #[must_use]
    pub fn labelled(mut self, span: Span, text: impl Into<String>) -> Self {
        self.primary = Some(Label { span, text: text.into() });
        self
    }

    /// Says whose field it is about.
    #[must_use]
    pub fn of_field(mut self, object: impl Into<String>, field: impl Into<String>) -> Self {
        self.object = Some(ObjectField { object: object.into(), field: field.into() });
        self
    }

    /// Marks another place.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Adds a remedy or consequence.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Adds a mechanical remedy.
    #[must_use]
    pub fn fix(mut self, span: Span, replacement: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, replacement: replacement.into() });
        self
    }

    /// Adds "did you mean …?" with the nearest of `candidates`, and the fix, if one is near enough.
    #[must_use]
    pub fn suggest<'a>(self, word: &str, span: Span, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, candidates) {
            Some(near) => self.help(format!("did you mean `{near}`?")).fix(span, near),
            None => self,
        }
    }
}

/// Most bytes of a title: it may hold a word of the text, and a word may be megabytes.
const LONGEST_TITLE: usize = 2000;

/// A title that fits, without what would move a terminal's cursor.
fn readable(mut title: String) -> String {
    if title.len() > LONGEST_TITLE {
        title.truncate(title.floor_char_boundary(LONGEST_TITLE));
        title.push('…');
    }
    if title.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return title.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}");
    }
    title
}

/// True if any finding is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// The candidate nearest to `word`, if it is near enough to be a plausible slip (a third of its letters).
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    let bound = (letters / 3).max(1);
    candidates
        .into_iter()
        // No edit is shorter than the difference in length; a long word is not compared letter by letter with short ones.
        .filter(|candidate| letters.abs_diff(candidate.chars().count()) <= bound)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|&(distance, _)| distance > 0 && distance <= bound)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Where a model node was written. `None` for nodes that come from defaults.
pub type Origin = Option<Span>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_readable() {
        assert_eq!(Diagnostic::error("a::b", "x\x1b[2Jy\nz").title, "x\u{fffd}[2Jy\nz");
        assert!(Diagnostic::error("a::b", "ä".repeat(1_000_000)).title.len() < 2010);
    }

    #[test]
    fn a_slip_is_suggested_and_a_stranger_is_not() {
        assert_eq!(nearest("proxy_pas", ["proxy_pass", "root"]), Some("proxy_pass"));
        assert_eq!(nearest("listne", ["listen", "return"]), Some("listen"));
        assert_eq!(nearest("banana", ["listen", "return"]), None);
    }
}
