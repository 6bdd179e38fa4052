//! `set-var`, `set-var-fmt`, `unset-var` and their conditions.
//!
//! Owns: how a rule assigns a variable, of whatever scope.
//! Driven by: `rules`; `course`, for variables that a look-up sets.

use weir_expr::{Arithmetic, Routine};
use weir_model::{Condition, Op, Step, Subject, Template, Test, Var};

use super::expression::{parse, variable};
use super::problem::Problem;
use super::rules::Reader;
use super::sample;
use crate::read::Word;
use crate::words::Fetch;

/// Sets a variable, unless there is no value: then it stays as it was. `number`: the value is one.
pub(super) fn set_found(written: &str, value: Template, number: bool) -> Result<Op, Problem> {
    Ok(match variable(written)? {
        Var::Kept(of, name) => {
            let condition = present(value.clone());
            let then = vec![Op::Keep { of, name, value: Some(value), number }];
            Op::When { condition, then, otherwise: Vec::new() }
        }
        _ => Op::SetFound { variable: written.to_owned(), value },
    })
}

/// Whether there is a value.
fn present(value: Template) -> Condition {
    Condition::Test { subject: Subject::Value(value), test: Test::Present }
}

impl Reader<'_, '_> {
    pub(super) fn set(&mut self, action: &str, first: &Word, arguments: &[Word]) -> Option<Op> {
        let inner = first.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or("");
        let (written, conditions) =
            inner.split_once(',').map_or((inner, ""), |(name, conditions)| (name.trim(), conditions));
        let set = match action {
            "unset-var" => unset(written),
            "set-var-fmt" => {
                let value = self.template(&arguments[0], false)?;
                self.conditional(written, conditions, &value, set_text(written, value.clone()))
            }
            _ => parse(arguments[0].as_str()).map_err(Problem::Bad).and_then(|sample| {
                let value = sample::template(&sample, &self.scope)?;
                let number = matches!(sample::kind(&sample), Ok(Fetch::Number | Fetch::Bool));
                self.conditional(written, conditions, &value, set_found(written, value.clone(), number))
            }),
        };
        match set {
            Ok(op) => Some(op),
            Err(problem) => {
                problem.report(arguments.first().map_or(first.span, |word| word.span), self.findings);
                None
            }
        }
    }

    /// `set-var(txn.a,ifnotset,ifnotempty)`: all of the conditions have to hold.
    fn conditional(
        &self,
        written: &str,
        conditions: &str,
        value: &Template,
        set: Result<Op, Problem>,
    ) -> Result<Op, Problem> {
        let known = Template::var(variable(written)?);
        let empty = || {
            let subject = Subject::Value(value.clone());
            Condition::Test { subject, test: Test::Length(vec![(0, 0)]) }
        };
        let not = |condition| Condition::Not(Box::new(condition));
        let mut all = Vec::new();
        for word in conditions.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            all.push(match word {
                "ifexists" | "ifset" => present(known.clone()),
                "ifnotexists" | "ifnotset" => not(present(known.clone())),
                "ifempty" => empty(),
                "ifnotempty" => not(empty()),
                "ifgt" => self.differs(&known, value, (1, i64::MAX)),
                "iflt" => self.differs(&known, value, (i64::MIN, -1)),
                _ => return Err(Problem::Bad(format!("`{word}` is no condition of `set-var`"))),
            });
        }
        let set = set?;
        Ok(match all.is_empty() {
            true => set,
            false => Op::When { condition: Condition::All(all), then: vec![set], otherwise: Vec::new() },
        })
    }
}

impl Reader<'_, '_> {
    /// Whether what the variable holds, less the value, is a number in a range.
    fn differs(&self, known: &Template, value: &Template, range: (i64, i64)) -> Condition {
        let less =
            Step::Call { routine: Routine::Arithmetic(Arithmetic::Sub), arguments: vec![value.clone()] };
        let subject = Subject::Value(sample::through(known.clone(), vec![less], &self.scope));
        Condition::Test { subject, test: Test::Number(vec![range]) }
    }
}

fn set_text(written: &str, value: Template) -> Result<Op, Problem> {
    Ok(match variable(written)? {
        Var::Kept(of, name) => Op::Keep { of, name, value: Some(value), number: false },
        _ => Op::Set { variable: written.to_owned(), value },
    })
}

fn unset(written: &str) -> Result<Op, Problem> {
    Ok(match variable(written)? {
        Var::Kept(of, name) => Op::Keep { of, name, value: None, number: false },
        _ => Op::Unset(written.to_owned()),
    })
}
