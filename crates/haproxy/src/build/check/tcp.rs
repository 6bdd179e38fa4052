//! `option tcp-check` with `tcp-check`.

use weir_expr::check::CheckStep;

use super::connect::connect;
use super::expect::{expectation, hex};
use super::rule::Rule;
use crate::findings::Findings;
use crate::read::Line;

/// The rules of a script.
pub(super) fn rules(lines: &[Line], findings: &mut Findings) -> Vec<Rule> {
    let mut rules = Vec::new();
    for line in lines {
        let step = match line.text(1) {
            "connect" => {
                rules.push(Rule::Connect(connect(line.from(2), findings)));
                continue;
            }
            "send" => line.word(2).map(|word| CheckStep::Send(word.text.clone().into_bytes())),
            "send-binary" => line.word(2).and_then(|word| findings.value(word, hex)).map(CheckStep::Send),
            "expect" => expectation(line.from(2), false, findings)
                .map(|expectation| CheckStep::Expect(Box::new(expectation))),
            _ => None,
        };
        rules.extend(step.map(Rule::Step));
    }
    rules
}
