//! `stick on`, `stick match`, `stick store-request` and `stick store-response`: keys that are kept at servers.
//!
//! Owns: what each rule matches and stores, the number of a server that tables of such rules hold.
//! Never: chooses a server.
//! Driven by: `pool`.

use weir_expr::{StickData, Stored};
use weir_model::{StickRule, StickTable};

use super::condition::{Acls, clause};
use super::problem::Problem;
use super::scope::Scope;
use super::stick_rules::key;
use super::sticks::table;
use crate::draft::Draft;
use crate::findings::Findings;
use crate::read::{Line, Word};

/// The rules of a backend; those that fail are reported.
pub(super) fn rules(scope: &Scope<'_>, findings: &mut Findings) -> Vec<StickRule> {
    let lines = &scope.proxy.stick_rules;
    if lines.is_empty() {
        return Vec::new();
    }
    // Mistakes in ACLs are reported where the proxy's other rules are read.
    let acls = Acls::build(scope, &mut Findings::default());
    lines.iter().filter_map(|line| rule(line, *scope, &acls, findings)).collect()
}

fn rule(line: &Line, mut scope: Scope<'_>, acls: &Acls, findings: &mut Findings) -> Option<StickRule> {
    let kind = line.text(1);
    let words = line.from(2);
    let end = words.iter().position(|word| matches!(word.as_str(), "if" | "unless")).unwrap_or(words.len());
    let (arguments, tail) = words.split_at(end);
    let response = kind == "store-response";
    scope.response = response;
    let found = read(arguments, line, &scope);
    let condition = match tail {
        [] => None,
        tail => Some(clause(tail, acls, &scope, findings)?),
    };
    match found {
        Ok((table, key)) => {
            let (matches, stores) = (matches!(kind, "on" | "match"), kind != "match");
            Some(StickRule { table, key, condition, matches, stores, response })
        }
        Err(problem) => {
            problem.report(line.span(), findings);
            None
        }
    }
}

fn read(
    arguments: &[Word],
    line: &Line,
    scope: &Scope<'_>,
) -> Result<(String, weir_model::Template), Problem> {
    let (word, name) = match arguments {
        [word] => (word, None),
        [word, keyword, name] if keyword.as_str() == "table" => (word, Some(name.as_str())),
        _ => {
            let rule = line.text(1);
            return Err(Problem::Bad(format!("`stick {rule}` takes a key, and `table` with a name")));
        }
    };
    let (table, of) = table(name, scope)?;
    Ok((table, key(word, of, scope)?))
}

/// Tables of such rules hold the numbers of servers, be it written or not.
pub(super) fn with_server_ids(draft: &Draft, tables: &mut [StickTable]) {
    let data = StickData::ServerId;
    for proxy in &draft.proxies {
        for line in &proxy.stick_rules {
            let words = line.from(2);
            let named =
                words.iter().position(|word| word.as_str() == "table").and_then(|at| words.get(at + 1));
            let name = named.map_or(proxy.name.as_str(), Word::as_str);
            let Some(table) = tables.iter_mut().find(|table| table.name == name) else { continue };
            if table.config.store.iter().all(|stored| stored.data != data) {
                table.config.store.insert(0, Stored { data, period: std::time::Duration::ZERO });
            }
        }
    }
}
