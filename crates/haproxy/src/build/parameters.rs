//! Words after the address of a `bind` or `server`: looked up in their table, then kept by name.

use std::collections::BTreeMap;

use weir_diag::Span;

use crate::findings::Findings;
use crate::read::Word;
use crate::words::{Parameter, ParameterStatus};

/// Parameters that were written, by name; the last of a name counts, but all values of `crt` are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    by_name: BTreeMap<&'static str, Vec<(Span, Option<Word>)>>,
}

impl Parameters {
    /// Reads words after those already there; `what` names the line (`bind`).
    pub(crate) fn read(
        &mut self,
        words: &[Word],
        table: &'static [Parameter],
        what: &str,
        findings: &mut Findings,
    ) {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let Some(parameter) = table.iter().find(|p| p.name == word.text) else {
                findings.unknown(word, &format!("`{what}` parameter"), table.iter().map(|p| p.name));
                return;
            };
            let wanted = usize::from(parameter.arguments);
            let value = words.get(at).filter(|_| wanted > 0).cloned();
            if wanted > 0 && value.is_none() {
                findings.bad_value(word, format!("`{}` lacks its value", word.text));
                return;
            }
            at += wanted;
            let name = format!("{what} … {}", parameter.name);
            match parameter.status {
                ParameterStatus::Built => {}
                ParameterStatus::Accepted => continue,
                ParameterStatus::Tuning(instead) => findings.tuning(word.span, &name, instead),
                ParameterStatus::NotYet(why) => findings.not_built(word.span, &name, why),
            }
            self.by_name.entry(parameter.name).or_default().push((word.span, value));
        }
    }

    /// Where a parameter was written last.
    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.by_name.get(name).and_then(|all| all.last()).map(|&(span, _)| span)
    }

    /// True if it was written.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether `on` was written after every one of `off`.
    pub(crate) fn is_on(&self, on: &str, off: &[&str]) -> bool {
        let Some(at) = self.span(on) else { return false };
        off.iter().filter_map(|off| self.span(off)).all(|off| (off.source, off.start) < (at.source, at.start))
    }

    /// Its last value.
    pub(crate) fn value(&self, name: &str) -> Option<&Word> {
        self.by_name.get(name).and_then(|all| all.last()).and_then(|(_, value)| value.as_ref())
    }

    /// All its values.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &Word> {
        self.by_name.get(name).into_iter().flatten().filter_map(|(_, value)| value.as_ref())
    }

    /// Its last value, read; a bad one is reported.
    pub(crate) fn read_value<T>(
        &self,
        name: &str,
        findings: &mut Findings,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        findings.value(self.value(name)?, read)
    }
}
