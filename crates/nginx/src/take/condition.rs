//! Conditions of `if`.

use weir_diag::Diagnostic;
use weir_model::{Condition, FileKind, Subject, Template, Test, Words};

use super::Lowering;
use crate::lexer::Word;
use crate::tree::Directive;

/// The condition between the parentheses of `if (…)`; `None` if it is none, which was told.
pub(crate) fn condition(lo: &mut Lowering<'_>, d: &Directive) -> Option<Condition> {
    let words = inner(lo, d)?;
    let texts: Vec<&str> = words.iter().map(Word::as_str).collect();
    if let [kind, _] = texts.as_slice()
        && let Some((negated, kind)) = file_test(kind)
    {
        return Some(negate(negated, Condition::File { kind, path: lo.template(&words[1]) }));
    }
    if !texts[0].starts_with('$') {
        return wrong(lo, d);
    }
    match texts.as_slice() {
        [_] => Some(Condition::Truthy(variable(lo, &words[0]))),
        [_, operator @ ("=" | "!="), _] => {
            let words_ = Words { any_of: vec![lo.template(&words[2])], ignore_case: false };
            let test = test(lo, &words[0], Test::Equals(words_));
            Some(negate(*operator == "!=", test))
        }
        [_, operator @ ("~" | "~*" | "!~" | "!~*"), pattern] => {
            let pattern = lo.pattern(pattern, operator.ends_with('*'), &words[2]);
            let test = test(lo, &words[0], Test::Matches(vec![pattern]));
            Some(negate(operator.starts_with('!'), test))
        }
        _ => wrong(lo, d),
    }
}

fn wrong(lo: &mut Lowering<'_>, d: &Directive) -> Option<Condition> {
    let span = d.arg_span(0).to(d.arg_span(d.args.len() - 1));
    lo.report(
        Diagnostic::error("nginx::bad-condition", "this is no condition of `if`")
            .at(span)
            .help("it is `($variable)`, `($variable = text)`, `!=`, `~ pattern`, `~*`, `!~`, `!~*`, or `(-f path)`, `-d`, `-e`, `-x`")
            .help("several conditions cannot be joined; set a variable in one `if` and test it in another, or use `map`"),
    );
    None
}

/// The words between the parentheses.
fn inner(lo: &mut Lowering<'_>, d: &Directive) -> Option<Vec<Word>> {
    let mut words = d.args.clone();
    let opens = words.first().is_some_and(|word| word.quote.is_none() && word.text.starts_with('('));
    let closes = words.last().is_some_and(|word| word.quote.is_none() && word.text.ends_with(')'));
    if !opens || !closes {
        wrong(lo, d);
        return None;
    }
    if let Some(first) = words.first_mut() {
        first.text.remove(0);
    }
    if let Some(last) = words.last_mut() {
        last.text.pop();
    }
    if words.len() > 1 && words[0].text.is_empty() && words[0].quote.is_none() {
        words.remove(0);
    }
    if words.len() > 1 && words.last().is_some_and(|word| word.text.is_empty() && word.quote.is_none()) {
        words.pop();
    }
    if words.is_empty() || words[0].text.is_empty() {
        wrong(lo, d);
        return None;
    }
    Some(words)
}

fn file_test(text: &str) -> Option<(bool, FileKind)> {
    let (negated, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let kind = match text {
        "-f" => FileKind::File,
        "-d" => FileKind::Directory,
        "-e" => FileKind::Any,
        "-x" => FileKind::Executable,
        _ => return None,
    };
    Some((negated, kind))
}

fn variable(lo: &mut Lowering<'_>, word: &Word) -> Template {
    lo.template(word)
}

fn test(lo: &mut Lowering<'_>, word: &Word, test: Test) -> Condition {
    Condition::Test { subject: Subject::Value(variable(lo, word)), test }
}

fn negate(negated: bool, condition: Condition) -> Condition {
    if negated { Condition::Not(Box::new(condition)) } else { condition }
}
