//! Patterns, compiled once each.

use ahash::HashMap;
use std::sync::Arc;

use weir_diag::{Diagnostic, Origin, Span};
use weir_model as model;
use weir_plan::{Pattern, PatternError};

use crate::context::Cx;

/// Compiled patterns by text and case.
#[derive(Default)]
pub(crate) struct Patterns<'m> {
    known: HashMap<(&'m str, bool), Result<Arc<Pattern>, PatternError>>,
}

impl<'m> Cx<'m> {
    /// Compiles a pattern; one that does not compile is reported where it was written, and stands in as one that
    /// matches nothing, so that other mistakes are found, too.
    pub(crate) fn pattern(&mut self, pattern: &'m model::Pattern) -> Arc<Pattern> {
        let key = (pattern.source.as_str(), pattern.ignore_case);
        if !self.patterns.known.contains_key(&key) {
            let names = &self.names;
            let compiled = Pattern::new(key.0, key.1, |name| names.slot(name)).map(Arc::new);
            if let Ok(compiled) = &compiled {
                self.assigned.extend(compiled.named().iter().map(|named| named.1));
            }
            self.patterns.known.insert(key, compiled);
        }
        match &self.patterns.known[&key] {
            Ok(compiled) => compiled.clone(),
            Err(error) => {
                let finding = invalid(pattern, error, self.here);
                self.report(finding);
                nothing()
            }
        }
    }

    pub(crate) fn patterns(&mut self, patterns: &'m [model::Pattern]) -> Box<[Arc<Pattern>]> {
        patterns.iter().map(|pattern| self.pattern(pattern)).collect()
    }

    /// A pattern of plain text, matched without regard to case (`gzip_disable`).
    pub(crate) fn text_pattern(&mut self, source: &'m str) -> Arc<Pattern> {
        match Pattern::new(source, true, |_| None) {
            Ok(compiled) => Arc::new(compiled),
            Err(error) => {
                let pattern = model::Pattern { source: source.to_owned(), ignore_case: true, origin: None };
                let finding = invalid(&pattern, &error, self.here);
                self.report(finding);
                nothing()
            }
        }
    }
}

fn nothing() -> Arc<Pattern> {
    // `[^\s\S]` holds no byte; it compiles with every version of the engine.
    #[allow(clippy::expect_used, reason = "a constant that the tests compile")]
    let pattern = Pattern::new(r"[^\s\S]", false, |_| None).expect("a constant pattern compiles");
    Arc::new(pattern)
}

fn invalid(pattern: &model::Pattern, error: &PatternError, here: Origin) -> Diagnostic {
    let title = format!("the pattern `{}` does not compile: {}", pattern.source, error.message);
    let mut finding = Diagnostic::error("pattern::invalid", title);
    let exact =
        pattern.origin.zip(error.offset).and_then(|(span, offset)| inside(span, &pattern.source, offset));
    if let Some(span) = exact.or(pattern.origin).or(here) {
        finding = finding.labelled(span, "here");
    }
    match error.offset {
        Some(offset) if exact.is_none() => {
            let read = pattern.source.get(..offset).unwrap_or_default();
            finding.help(format!("it was understood up to byte {offset}: `{read}`"))
        }
        _ => finding,
    }
}

/// The place of a pattern's byte in the text, where the text holds the pattern as it is, perhaps in quotes.
fn inside(span: Span, source: &str, offset: usize) -> Option<Span> {
    let quotes = match (span.end - span.start) as usize {
        bare if bare == source.len() => 0,
        quoted if quoted == source.len() + 2 => 1,
        _ => return None,
    };
    let start = span.start + quotes + offset as u32;
    Some(Span { start, end: (start + 1).min(span.end), ..span })
}
