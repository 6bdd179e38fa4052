//! The checks that every word gets.
//!
//! Owns: unknown words, wrong places, wrong numbers and kinds of arguments, repetitions, and the fate of words that
//! are not built.
//! Driven by: the building of every block, once.

use std::collections::HashMap;

use weir_diag::{Diagnostic, Span};

use crate::table::{Contexts, Entry, Kind, Status, Taker, named, words_in};
use crate::take::state::next_directive;
use crate::take::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

/// A word that passed its checks and does something.
#[derive(Clone, Copy)]
pub(crate) struct Admitted<'d> {
    pub entry: &'static Entry,
    pub directive: &'d Directive,
}

impl Lowering<'_> {
    /// Checks the words of a block; those that Weir acts on are returned in order.
    pub(crate) fn admit<'d>(&mut self, block: &'d [Directive], context: Contexts) -> Vec<Admitted<'d>> {
        let mut out = Vec::with_capacity(block.len());
        let mut seen: HashMap<&'static str, Span> = HashMap::new();
        for directive in block {
            let Some(entry) = self.find(directive, context) else { continue };
            if !self.shape_is_right(directive, entry) {
                continue;
            }
            let first = *seen.entry(entry.name).or_insert(directive.span);
            if first != directive.span && !entry.repeats {
                self.duplicate(directive, first);
                continue;
            }
            if entry.status == Status::Built {
                out.push(Admitted { entry, directive });
            } else if !asks_for_nothing(directive, entry) {
                self.not_built(directive, entry);
            }
        }
        out
    }

    fn find(&mut self, directive: &Directive, context: Contexts) -> Option<&'static Entry> {
        let name = directive.name();
        let entries = named(name);
        if let Some(entry) = entries.iter().find(|entry| entry.contexts.has(context)) {
            return Some(entry);
        }
        let span = directive.name.span;
        if entries.is_empty() {
            let unknown =
                Diagnostic::error("nginx::unknown-directive", format!("unknown directive `{name}`"));
            let unknown = unknown.at(span);
            // Each suggestion costs a look at all words; a file of a thousand strangers is no slip of the pen.
            self.strangers += 1;
            let suggested = self.strangers <= 1000;
            self.report(if suggested { unknown.suggest(name, span, words_in(context)) } else { unknown });
            return None;
        }
        let places: Vec<String> = entries.iter().map(|entry| entry.contexts.to_string()).collect();
        let text = format!("`{name}` cannot stand in `{context}`");
        let help = format!("it belongs in: {}", places.join(", "));
        self.report(Diagnostic::error("nginx::wrong-context", text).at(span).help(help));
        None
    }

    fn shape_is_right(&mut self, directive: &Directive, entry: &Entry) -> bool {
        let name = directive.name();
        if entry.block != directive.block.is_some() {
            let (text, help) = if entry.block {
                (format!("`{name}` opens a block, but ends with `;`"), "write its words between `{` and `}`")
            } else {
                (format!("`{name}` takes no block"), "end it with `;`")
            };
            self.report(Diagnostic::error("nginx::block", text).at(directive.span).help(help));
            return false;
        }
        let (least, most) = entry.arity;
        if directive.args.len() < least || directive.args.len() > most {
            self.wrong_number(directive, entry);
            return false;
        }
        match kind_of(entry.kind, directive.arg(0)) {
            _ if directive.args.is_empty() => true,
            Ok(()) => true,
            Err(expected) => {
                self.bad_value(directive, 0, &expected);
                false
            }
        }
    }

    fn wrong_number(&mut self, directive: &Directive, entry: &Entry) {
        let expected = match entry.arity {
            (least, most) if least == most => format!("{least}"),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        let given = directive.args.len();
        let plural = if expected == "1" { "" } else { "s" };
        let text = format!("`{}` takes {expected} argument{plural}, not {given}", entry.name);
        let mut found = Diagnostic::error("nginx::arguments", text).at(directive.span);
        if let Some(at) = self.forgotten_end(directive) {
            found = next_directive(found, directive, at);
        }
        if let Some(word) =
            directive.args.iter().find(|word| word.quote.is_some() && self.spans_lines(word.span))
        {
            found = found
                .also(word.span, "this quoted text goes over several lines; is its closing quote missing?");
        }
        self.report(found);
    }

    /// Applies the words that set something, then computes what depends on several of them.
    pub(crate) fn apply(&mut self, words: &[Admitted<'_>], scope: &mut Scope) {
        for word in words {
            if let Taker::Scope(f) = word.entry.taker {
                f(self, scope, word.directive);
            }
        }
        scope.finish();
    }

    fn spans_lines(&self, span: Span) -> bool {
        self.sources.slice(span).contains('\n')
    }

    fn duplicate(&mut self, directive: &Directive, first: Span) {
        let text = format!("`{}` stands twice in this block", directive.name());
        let found = Diagnostic::error("nginx::duplicate", text)
            .labelled(directive.span, "again here")
            .also(first, "first here")
            .help("remove one of them");
        self.report(found);
    }

    fn not_built(&mut self, directive: &Directive, entry: &'static Entry) {
        let name = entry.name;
        match entry.status {
            Status::Built => {}
            Status::TuningOnly => match self.tuned.get_mut(name) {
                Some((_, count)) => *count += 1,
                None => {
                    self.tuned.insert(name, (self.diagnostics.len(), 1));
                    let text = format!("`{name}` has no effect: {}", entry.why);
                    self.report(Diagnostic::warning("nginx::no-effect", text).at(directive.span));
                }
            },
            Status::NotYet => {
                let text = format!("`{name}` is not supported yet: {}", entry.why);
                let found = Diagnostic::error("nginx::not-built", text).at(directive.span).help(
                    "it decides who gets in or what is answered, so this configuration does not run without it",
                );
                self.report(found);
            }
            Status::Removed => {
                let text = format!("`{name}` is no directive any more: {}", entry.why);
                self.report(Diagnostic::error("nginx::removed", text).at(directive.span));
            }
        }
    }
}

/// True if a word says no more than its default, or turns off what is not built.
fn asks_for_nothing(directive: &Directive, entry: &Entry) -> bool {
    let said: Vec<&str> = directive.args.iter().map(|arg| arg.text.as_str()).collect();
    let said = said.join(" ");
    !said.is_empty() && (said == entry.default || said == "off" && entry.kind == Kind::Flag)
}

fn kind_of(kind: Kind, text: &str) -> Result<(), String> {
    let (fine, expected) = match kind {
        Kind::Text => (true, ""),
        Kind::Flag => (value::flag(text).is_some(), "`on` or `off`"),
        Kind::Size => (value::size(text).is_some(), "a size such as `8k` or `1m`"),
        Kind::Offset => (value::offset(text).is_some(), "a size such as `8k`, `1m` or `2g`"),
        Kind::Time => (value::time(text).is_some(), "a time such as `30s`, `5m` or `500ms`"),
        Kind::Seconds => (value::seconds(text).is_some(), "a time in seconds or more, such as `30s` or `5m`"),
        Kind::Number => (value::number(text).is_some(), "a number"),
        Kind::OneOf(words) => {
            if words.contains(&text) {
                return Ok(());
            }
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            return Err(format!("one of {}", words.join(", ")));
        }
    };
    if fine { Ok(()) } else { Err(expected.to_owned()) }
}
