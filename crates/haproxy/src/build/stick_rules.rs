//! Actions of rules about stick tables: what tracks entries, and what changes those that are tracked.
//!
//! Owns: what a key may be made from, how long what is tracked is tracked, when sessions and requests count.
//! Never: knows an entry.
//! Driven by: `rules`, for each such action; `route` and `tcp`, for what follows a list of rules.

use weir_expr::{StickData, StickKey, StickOp, StickSpan};
use weir_model::{Condition, Op, Subject, Template, Test, Var, Words};

use super::expression::parse;
use super::problem::Problem;
use super::rules::Reader;
use super::sample;
use super::scope::Scope;
use super::sticks::{counter, table};
use crate::draft::{Mode, Proxy, Rule, RuleList};
use crate::read::Word;
use crate::words::Fetch;

/// An expression as a key of a table, cast as HAProxy casts.
pub(super) fn key(word: &Word, of: StickKey, scope: &Scope<'_>) -> Result<Template, Problem> {
    let sample = parse(word.as_str()).map_err(Problem::Bad)?;
    let kind = sample::kind(&sample)?;
    match (kind, of) {
        (Fetch::Binary, StickKey::Binary(_)) => sample::bytes(&sample, scope),
        (Fetch::Binary, StickKey::Ip | StickKey::Ipv6 | StickKey::Integer)
        | (Fetch::Number, StickKey::Ip | StickKey::Ipv6 | StickKey::Binary(_))
        | (Fetch::Address, StickKey::Binary(_) | StickKey::Integer)
        | (Fetch::Bool, StickKey::Ip | StickKey::Ipv6) => {
            Err(Problem::NotBuilt(format!("`{}` as a key of this type of table", word.text)))
        }
        _ => sample::template(&sample, scope),
    }
}

/// Where a rule stands: how long what it tracks is tracked, and whether the request at hand counts at once.
fn standing(list: RuleList, scope: &Scope<'_>) -> (StickSpan, bool) {
    match list {
        RuleList::TcpConnection => (StickSpan::Connection, false),
        // A frontend's content rules run before its request counts, a backend's after.
        RuleList::TcpContent => {
            let http = scope.proxy.settings.mode.as_ref().is_some_and(|mode| mode.value == Mode::Http);
            (StickSpan::Stream, http && !scope.proxy.kind.is_frontend())
        }
        list => (StickSpan::Stream, list == RuleList::HttpRequest),
    }
}

impl Reader<'_, '_> {
    /// `track-scN KEY [table NAME]`.
    pub(super) fn track(&mut self, list: RuleList, action: &Word, arguments: &[Word]) -> Option<Op> {
        let built = self.tracked(list, action, arguments);
        self.told(built, action)
    }

    fn tracked(&self, list: RuleList, action: &Word, arguments: &[Word]) -> Result<Op, Problem> {
        let counter = counter(action.as_str().trim_start_matches("track-sc"))?;
        let (word, name) = match arguments {
            [word] => (word, None),
            [word, keyword, name] if keyword.as_str() == "table" => (word, Some(name.as_str())),
            _ => return Err(Problem::Bad(format!("`{}` takes a key, and `table` with a name", action.text))),
        };
        let (table, of) = table(name, &self.scope)?;
        let key = key(word, of, &self.scope)?;
        let (span, counts_request) = standing(list, &self.scope);
        Ok(Op::Stick(StickOp::Track { counter, table, key, span, counts_request }))
    }

    /// `sc-inc-gpc0(N)`, `sc-add-gpc(I,N) NUMBER`, `sc-set-gpt0(N) NUMBER` and their kin.
    pub(super) fn stick_change(&mut self, name: &str, action: &Word, arguments: &[Word]) -> Option<Op> {
        let built = self.changed(name, action, arguments);
        self.told(built, action)
    }

    fn changed(&self, name: &str, action: &Word, arguments: &[Word]) -> Result<Op, Problem> {
        let inner = action.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or("");
        let numbers: Vec<u8> = inner.split(',').map(|text| counter(text.trim())).collect::<Result<_, _>>()?;
        let (data, counter) = match (name, numbers.as_slice()) {
            ("sc-inc-gpc0", [counter]) => (StickData::Gpc(0), *counter),
            ("sc-inc-gpc1", [counter]) => (StickData::Gpc(1), *counter),
            ("sc-set-gpt0", [counter]) => (StickData::Gpt(0), *counter),
            ("sc-inc-gpc" | "sc-add-gpc", [n, counter]) => (StickData::Gpc(*n), *counter),
            ("sc-set-gpt", [n, counter]) => (StickData::Gpt(*n), *counter),
            _ => {
                return Err(Problem::Bad(format!(
                    "`{}` has not the numbers that `{name}` takes",
                    action.text
                )));
            }
        };
        let by = match arguments {
            [] if name.starts_with("sc-inc") => None,
            [word] if !name.starts_with("sc-inc") => Some(match word.text.parse::<u32>() {
                Ok(number) => Template::literal(number.to_string()),
                Err(_) => {
                    let sample = parse(word.as_str()).map_err(Problem::Bad)?;
                    sample::template(&sample, &self.scope)?
                }
            }),
            _ => return Err(Problem::Bad(format!("`{}` takes another number of arguments", action.text))),
        };
        Ok(Op::Stick(StickOp::Change { counter, data, by, adds: !name.starts_with("sc-set") }))
    }

    fn told(&mut self, built: Result<Op, Problem>, word: &Word) -> Option<Op> {
        match built {
            Ok(op) => Some(op),
            Err(problem) => {
                problem.report(word.span, self.findings);
                None
            }
        }
    }
}

/// Whether a rule tracks.
fn tracks(rule: &Rule) -> bool {
    rule.line.text(rule.from).starts_with("track-sc")
}

/// What follows the rules about connections, or about sessions: the session counts, once for all that it tracks.
pub(crate) fn count_session<'a>(mut rules: impl Iterator<Item = &'a Rule>) -> Option<Op> {
    rules.any(tracks).then_some(Op::Stick(StickOp::CountSession))
}

/// What follows the rules of a frontend that come before its requests: each request counts.
pub(crate) fn count_request(proxy: &Proxy) -> Option<Op> {
    let early = |rule: &&Rule| matches!(rule.list, RuleList::TcpConnection | RuleList::TcpContent);
    let any = proxy.settings.rules.iter().filter(early).any(tracks);
    any.then_some(Op::Stick(StickOp::CountRequest))
}

/// Rules about sessions, which Weir looks at with each request: what they do to tables they do with the first.
pub(crate) fn once(ops: Vec<Op>) -> Vec<Op> {
    let has = |ops: &[Op]| format!("{ops:?}").contains("Stick(");
    if !has(&ops) {
        return ops;
    }
    let words = Words { any_of: vec![Template::literal("1")], ignore_case: false };
    let subject = Subject::Value(Template::var(Var::ConnectionRequests));
    let condition = Condition::Test { subject, test: Test::Equals(words) };
    vec![Op::When { condition, then: ops, otherwise: Vec::new() }]
}
