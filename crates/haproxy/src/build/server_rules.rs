//! Rules of a backend about the server: `use-server`, `force-persist`, `ignore-persist`.
//!
//! Owns: what each names or says, and on what condition.
//! Never: chooses a server.
//! Driven by: `pool`.

use weir_model::{EndpointRule, PersistenceRule};

use super::condition::{Acls, clause};
use super::format::Formatter;
use super::problem::Problem;
use super::scope::Scope;
use crate::findings::Findings;
use crate::read::{Line, Word};

/// The rules of a backend; those that fail are reported.
pub(super) fn rules(scope: &Scope<'_>, findings: &mut Findings) -> Vec<EndpointRule> {
    let lines = &scope.proxy.server_rules;
    if lines.is_empty() {
        return Vec::new();
    }
    // Mistakes in ACLs are reported where the proxy's other rules are read.
    let acls = Acls::build(scope, &mut Findings::default());
    lines.iter().filter_map(|line| rule(line, scope, &acls, findings)).collect()
}

/// What becomes of persistence in a backend: its rules, then `option persist`.
pub(super) fn persistence(scope: &Scope<'_>, findings: &mut Findings) -> Vec<PersistenceRule> {
    let acls = Acls::build(scope, &mut Findings::default());
    let rule = |line: &Line| {
        let condition = clause(line.from(1), &acls, scope, findings)?;
        Some(PersistenceRule { force: line.text(0) == "force-persist", condition: Some(condition) })
    };
    let mut rules: Vec<PersistenceRule> = scope.proxy.persistence.iter().filter_map(rule).collect();
    if scope.proxy.settings.flag("persist") {
        rules.push(PersistenceRule { force: true, condition: None });
    }
    rules
}

fn rule(line: &Line, scope: &Scope<'_>, acls: &Acls, findings: &mut Findings) -> Option<EndpointRule> {
    let (name, tail) = line.from(1).split_first()?;
    let condition = match tail {
        [] => None,
        [word, ..] if matches!(word.as_str(), "if" | "unless") => Some(clause(tail, acls, scope, findings)?),
        [word, ..] => {
            let problem =
                Problem::Bad(format!("`use-server` takes a name and a condition, not `{}`", word.text));
            problem.report(word.span, findings);
            return None;
        }
    };
    if !name.text.contains('%') && !is_server(name, scope) {
        let problem = Problem::Bad(format!("`{}` has no server `{}`", scope.proxy.name.text, name.text));
        problem.report(name.span, findings);
        return None;
    }
    let mut formatter = Formatter { scope: *scope, log: None, groups: false, span: name.span, findings };
    Some(EndpointRule { endpoint: formatter.template(name.as_str())?, condition })
}

/// Whether the backend has a server of this name; those of a template are its prefix and a number.
fn is_server(name: &Word, scope: &Scope<'_>) -> bool {
    scope.proxy.servers.iter().any(|server| {
        let own = server.line.text(1);
        match &server.template {
            None => own == name.text,
            Some(_) => name.text.starts_with(own),
        }
    })
}
