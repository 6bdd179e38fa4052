//! The findings of this front end, worded in one place.
//!
//! Owns: the list of diagnostics while a configuration is read, and the sentences that several places need.
//! Never: decides what is wrong.

use weir_diag::{Diagnostic, Span};

use crate::read::{Line, Word};

/// Diagnostics as they are found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// In the order found.
    pub(crate) all: Vec<Diagnostic>,
}

impl Findings {
    /// Adds one.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.all.push(diagnostic);
    }

    /// A value that cannot be read.
    pub(crate) fn bad_value(&mut self, word: &Word, cause: impl Into<String>) {
        self.push(Diagnostic::error("haproxy::bad-value", cause).at(word.span));
    }

    /// A value that cannot be read, and those that could be.
    pub(crate) fn bad_choice(&mut self, word: &Word, what: &str, choices: &[&str]) {
        let title = format!("`{}` is no {what}", word.text);
        let found = Diagnostic::error("haproxy::bad-value", title).at(word.span);
        let found = found.suggest(&word.text, word.span, choices.iter().copied());
        self.push(found.help(format!("those are {}", list(choices))));
    }

    /// An argument is missing.
    pub(crate) fn missing(&mut self, line: &Line, what: &str) {
        let title = format!("`{}` lacks {what}", line.keyword().text);
        self.push(Diagnostic::error("haproxy::missing-argument", title).at(line.span()));
    }

    /// Something that is known, decides what is served, and is not built.
    pub(crate) fn not_built(&mut self, span: Span, what: &str, why: &str) {
        self.push(
            Diagnostic::error("haproxy::not-built", format!("`{what}` is not built yet"))
                .at(span)
                .help(why.to_owned()),
        );
    }

    /// Something that is known and changes nothing here.
    pub(crate) fn tuning(&mut self, span: Span, what: &str, instead: &str) {
        self.push(
            Diagnostic::warning("haproxy::no-effect", format!("`{what}` has no effect here"))
                .at(span)
                .help(instead.to_owned()),
        );
    }

    /// Something that is ignored where it stands, in HAProxy too.
    pub(crate) fn ignored(&mut self, span: Span, title: impl Into<String>) {
        self.push(Diagnostic::warning("haproxy::ignored", title).at(span));
    }

    /// A word that is not known at all.
    pub(crate) fn unknown<'a>(
        &mut self,
        word: &Word,
        what: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) {
        let title = format!("unknown {what} `{}`", word.text);
        let found = Diagnostic::error("haproxy::unknown-keyword", title).at(word.span);
        self.push(found.suggest(&word.text, word.span, candidates));
    }

    /// Reads a word's value, or says what is wrong with it.
    pub(crate) fn value<T>(
        &mut self,
        word: &Word,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match read(word.as_str()) {
            Ok(value) => Some(value),
            Err(cause) => {
                self.bad_value(word, cause);
                None
            }
        }
    }
}

/// "`a`, `b` and `c`".
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
