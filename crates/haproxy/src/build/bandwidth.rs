//! `filter bwlim-out` and `set-bandwidth-limit`: the pace of responses.
//!
//! Owns: the bytes a second that they come to (HAProxy's Configuration Manual, 9.7).
//! Driven by: `rules`.

use weir_diag::Diagnostic;
use weir_model::{Op, Template};

use super::expression::parse;
use super::problem::Problem;
use super::rules::Reader;
use super::sample;
use crate::read::Word;
use crate::values::{size, time};

/// The value behind a word of a line.
fn behind<'l>(words: &'l [Word], name: &str) -> Option<&'l Word> {
    words.iter().position(|word| word.as_str() == name).and_then(|at| words.get(at + 1))
}

impl Reader<'_, '_> {
    /// `set-bandwidth-limit NAME [limit SIZE|EXPR] [period TIME]`. `None`: it was told why not.
    pub(super) fn bandwidth(&mut self, arguments: &[Word]) -> Option<Vec<Op>> {
        let name = &arguments[0];
        let filters = &self.scope.proxy.settings.bandwidth;
        let Some((line, limits)) = filters.iter().find(|(line, _)| line.text(2) == name.as_str()) else {
            let title = format!("no `filter bwlim-out` or `bwlim-in` is named `{}`", name.text);
            let near = filters.iter().map(|(line, _)| line.text(2));
            let finding = Diagnostic::error("haproxy::unknown-name", title).at(name.span);
            self.findings.push(finding.suggest(&name.text, name.span, near));
            return None;
        };
        let words = line.from(3);
        if !limits {
            // Which was told where the filter stands.
            return Some(Vec::new());
        }
        let limit = behind(&arguments[1..], "limit").or_else(|| behind(words, "default-limit"));
        let period = behind(&arguments[1..], "period").or_else(|| behind(words, "default-period"));
        let (Some(limit), Some(period)) = (limit, period) else {
            let title = format!("the filter `{}` has no limit, or no period", name.text);
            self.findings.push(Diagnostic::error("haproxy::missing-argument", title).at(line.span()));
            return None;
        };
        let millis = self.findings.value(period, time::millis)?.as_millis().max(1);
        let rate = match size::parse(limit.as_str()) {
            Ok(bytes) => Ok(Template::literal((u128::from(bytes) * 1000 / millis).max(1).to_string())),
            Err(_) => parse(&format!("{},mul(1000),div({millis})", limit.text))
                .map_err(Problem::Bad)
                .and_then(|sample| sample::template(&sample, &self.scope)),
        };
        match rate {
            Ok(value) => Some(vec![Op::SetLimitRate(value)]),
            Err(problem) => {
                problem.report(limit.span, self.findings);
                None
            }
        }
    }
}
