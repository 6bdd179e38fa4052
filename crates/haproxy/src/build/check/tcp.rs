//! `option tcp-check` with `tcp-check`.

use weir_expr::check::CheckStep;

use super::computed::Computed;
use super::connect::connect;
use super::expect::{expectation, hex};
use super::rule::Rule;
use crate::findings::Findings;
use crate::read::{Line, Word};

/// The rules of a script.
pub(super) fn rules(lines: &[Line], computed: &mut Computed<'_>, findings: &mut Findings) -> Vec<Rule> {
    let mut rules = Vec::new();
    for line in lines {
        let step = match line.text(1) {
            "connect" => {
                rules.push(Rule::Connect(connect(line.from(2), computed, findings)));
                continue;
            }
            "send" => line.word(2).map(|word| CheckStep::Send(word.text.clone().into_bytes())),
            "send-binary" => line.word(2).and_then(|word| findings.value(word, hex)).map(CheckStep::Send),
            "expect" => expectation(line.from(2), false, computed, findings)
                .map(|expectation| CheckStep::Expect(Box::new(expectation))),
            "send-lf" => line
                .word(2)
                .and_then(|word| computed.text(word, findings))
                .map(|text| CheckStep::Send(text.into_bytes())),
            "send-binary-lf" => line.word(2).and_then(|word| {
                let text = computed.text(word, findings)?;
                findings.value(&Word { text, span: word.span }, hex).map(CheckStep::Send)
            }),
            _ => {
                computed.rule(line, findings);
                None
            }
        };
        rules.extend(step.map(Rule::Step));
    }
    rules
}
