//! Stick tables and what reads them: tables, fetches, converters.
//!
//! Owns: which table is meant, what is asked of it.
//! Never: reads a rule; `stick_rules` does.
//! Driven by: `proxies` (tables), `sample` and `condition` (fetches), `convert` (converters).

use weir_expr::{StickAsk, StickKey, StickOp, StickWhat, StickWhom};
use weir_model::{Condition, Op, Step, StickTable, Subject, Template, Test, Var, Words};

use super::expression::{Call, Sample};
use super::problem::Problem;
use super::scope::Scope;
use crate::draft::Draft;
use crate::words::{StickPrefix, StickWord, stick_converter, stick_fetch};

/// Most counters: `tune.stick-counters` goes no further.
const MOST_COUNTERS: u8 = 100;

/// The tables of all proxies. Of one name the first counts.
pub(crate) fn tables(draft: &Draft) -> Vec<StickTable> {
    let mut tables: Vec<StickTable> = Vec::new();
    for peers in &draft.peers {
        tables.extend(peers.tables.iter().map(|(name, config, _)| StickTable {
            name: format!("{}/{}", peers.name.text, name.text),
            origin: Some(name.span),
            config: config.clone(),
        }));
    }
    for proxy in &draft.proxies {
        let Some(config) = &proxy.stick_table else { continue };
        if tables.iter().all(|table| table.name != proxy.name.text) {
            let config = config.clone();
            tables.push(StickTable { name: proxy.name.text.clone(), origin: Some(proxy.name.span), config });
        }
    }
    tables
}

/// What the keys of a table are; without a name that of the rules' own proxy.
pub(super) fn table(name: Option<&str>, scope: &Scope<'_>) -> Result<(String, StickKey), Problem> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or(scope.proxy.name.as_str());
    let mut having = scope.draft.proxies.iter().filter(|proxy| proxy.stick_table.is_some());
    match having.clone().find(|proxy| proxy.name.text == name).and_then(|proxy| proxy.stick_table.as_ref()) {
        Some(config) => Ok((name.to_owned(), config.key)),
        None if name.contains('/') => {
            let mut tables = scope.draft.peers.iter().flat_map(|peers| {
                peers
                    .tables
                    .iter()
                    .map(|(own, config, _)| (format!("{}/{}", peers.name.text, own.text), config))
            });
            let found = tables.find(|(known, _)| known == name);
            found
                .map(|(name, config)| (name, config.key))
                .ok_or_else(|| Problem::Bad(format!("`{name}` is no table of a `peers` section")))
        }
        None => {
            let near = weir_diag::nearest(name, having.by_ref().map(|proxy| proxy.name.as_str()));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Err(Problem::Bad(format!("`{name}` has no stick table{near}")))
        }
    }
}

/// The number of a counter.
pub(super) fn counter(text: &str) -> Result<u8, Problem> {
    let counter = text.parse::<u8>().ok().filter(|counter| *counter < MOST_COUNTERS);
    counter
        .ok_or_else(|| Problem::Bad(format!("`{text}` is no counter; those are 0 to {}", MOST_COUNTERS - 1)))
}

/// The question of a word, and its arguments behind the number that it may take.
fn what<'a>(
    word: StickWord,
    name: &str,
    arguments: &'a [String],
) -> Result<(StickWhat, &'a [String]), Problem> {
    match (word, arguments.split_first()) {
        (StickWord::Plain(what), _) => Ok((what, arguments)),
        (StickWord::Numbered(what), Some((first, rest))) => Ok((what(counter(first)?), rest)),
        (StickWord::Numbered(_), None) => {
            Err(Problem::Bad(format!("`{name}` lacks the number of its counter")))
        }
    }
}

fn too_many(name: &str) -> Problem {
    Problem::Bad(format!("`{name}` has too many arguments"))
}

/// A fetch about a stick table; `None` if it is another.
pub(super) fn fetch(sample: &Sample, scope: &Scope<'_>) -> Result<Option<Var>, Problem> {
    let name = sample.fetch.name.as_str();
    let Some((prefix, word)) = stick_fetch(name) else { return Ok(None) };
    let (what, rest) = what(word, name, &sample.fetch.arguments)?;
    let named = |rest: &[String]| match rest {
        [] => Ok(None),
        [name] => table(Some(name), scope).map(|(name, _)| Some(name)),
        _ => Err(too_many(name)),
    };
    let own = |rest: &[String]| match named(rest)? {
        Some(name) => Ok(name),
        None => table(None, scope).map(|(name, _)| name),
    };
    let whom = match prefix {
        StickPrefix::Counter(Some(number)) => StickWhom::Counter(number, named(rest)?),
        StickPrefix::Counter(None) => match rest.split_first() {
            Some((number, rest)) => StickWhom::Counter(counter(number)?, named(rest)?),
            None => return Err(Problem::Bad(format!("`{name}` lacks its counter, as in `{name}(0)`"))),
        },
        StickPrefix::Client => StickWhom::Client(own(rest)?),
        StickPrefix::Table => StickWhom::Table(own(rest)?),
    };
    Ok(Some(Var::Stick(Box::new(StickAsk { whom, what }))))
}

/// `sc_tracked(0)` as a condition; `None` if the fetch is another.
pub(super) fn truth(sample: &Sample, scope: &Scope<'_>) -> Result<Option<Condition>, Problem> {
    let Some(var) = fetch(sample, scope)? else { return Ok(None) };
    let words = Words { any_of: vec![Template::literal("1")], ignore_case: false };
    Ok(Some(Condition::Test { subject: Subject::Value(Template::var(var)), test: Test::Equals(words) }))
}

/// A converter about a stick table; `None` if it is another.
pub(super) fn step(call: &Call, scope: &Scope<'_>) -> Result<Option<Step>, Problem> {
    let Some(word) = stick_converter(&call.name) else { return Ok(None) };
    let (what, rest) = what(word, &call.name, &call.arguments)?;
    match rest {
        [name] => table(Some(name), scope).map(|(table, _)| Some(Step::Stick { table, what })),
        [] => Err(Problem::Bad(format!("`{}` lacks the name of a table", call.name))),
        [_, default] => Err(Problem::NotBuilt(format!("{} with a default, `{default}`,", call.name))),
        _ => Err(too_many(&call.name)),
    }
}

/// What comes before an answer that asks for a password: it counts as an error, where anything is counted.
pub(super) fn count_error(scope: &Scope<'_>) -> Option<Op> {
    let counts = scope.draft.proxies.iter().any(|proxy| proxy.stick_table.is_some());
    counts.then_some(Op::Stick(StickOp::CountError))
}
