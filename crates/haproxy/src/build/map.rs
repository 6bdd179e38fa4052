//! `map(FILE[,DEFAULT])` and its kin: files of keys and values as user variables.
//!
//! Owns: reading of map files, and which way of matching becomes which part of a table.
//! Never: looks a value up; the engine does.
//! Driven by: `sample`, when an expression goes through a map.
//! Why: the model's exact keys do not regard case and HAProxy's do, so keys become patterns unless the value is in
//! lower case already.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_diag::Span;
use weir_expr::{Filter, Piece};
use weir_model::{Definition, MapTable, Pattern, Step, Template, Var, Variable};

use super::expression::Call;
use super::problem::Problem;
use crate::Files;
use crate::values::network::network;

/// The maps of a configuration: one variable for each use that differs.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    by_use: RefCell<BTreeMap<String, Variable>>,
}

/// Patterns are tried one by one; beyond so many, only exact keys of lower-case values are quick enough.
const MOST_PATTERNS: usize = 20_000;

impl Maps {
    /// The name of the variable that holds a value looked up; made at first use.
    pub(crate) fn lookup(
        &self,
        call: &Call,
        source: Template,
        files: &dyn Files,
        span: Option<Span>,
    ) -> Result<String, Problem> {
        let file = call.arguments.first().map_or("", String::as_str);
        let default = Template::literal(call.arguments.get(1).cloned().unwrap_or_default());
        let key = format!("{}({file},{default}) of {source}", call.name);
        let mut by_use = self.by_use.borrow_mut();
        if let Some(variable) = by_use.get(&key) {
            return Ok(variable.name.clone());
        }
        let bytes = files.read(std::path::Path::new(file));
        let bytes = bytes.map_err(|error| Problem::Bad(format!("cannot read the map `{file}`: {error}")))?;
        let definition = define(call, &String::from_utf8_lossy(&bytes), source, default)?;
        let name = format!("haproxy.map.{}", by_use.len() + 1);
        by_use.insert(key, Variable { name: name.clone(), origin: span, definition });
        Ok(name)
    }

    /// The name of a variable that is `1` where a test holds and `0` where not, as HAProxy writes truth values.
    pub(crate) fn truth(
        &self,
        fetch: &str,
        source: Var,
        equal: &str,
        if_equal: &str,
        otherwise: &str,
    ) -> String {
        let name = format!("haproxy.{fetch}");
        let table = MapTable {
            exact: vec![(equal.to_owned(), Template::literal(if_equal))],
            default: Template::literal(otherwise),
            ..empty_table(Template::var(source))
        };
        let variable = Variable { name: name.clone(), origin: None, definition: Definition::Map(table) };
        self.by_use.borrow_mut().entry(name.clone()).or_insert(variable);
        name
    }

    /// The name of a variable that is a value through steps.
    pub(crate) fn converted(&self, source: Template, steps: Vec<Step>) -> String {
        let key = format!("{source} {steps:?}");
        let mut by_use = self.by_use.borrow_mut();
        if let Some(variable) = by_use.get(&key) {
            return variable.name.clone();
        }
        let name = format!("haproxy.converted.{}", by_use.len() + 1);
        let definition = Definition::Converted { source, steps };
        by_use.insert(key, Variable { name: name.clone(), origin: None, definition });
        name
    }

    /// The definition of a variable that [`Maps::lookup`] named.
    pub(crate) fn definition(&self, name: &str) -> Option<Variable> {
        self.by_use.borrow().values().find(|variable| variable.name == name).cloned()
    }

    /// What maps and conversions themselves read.
    pub(crate) fn sources(&self) -> Vec<Template> {
        let mut all = Vec::new();
        for variable in self.by_use.borrow().values() {
            match &variable.definition {
                Definition::Map(table) => all.push(table.source.clone()),
                Definition::Geo { source, .. } => all.extend(source.clone()),
                Definition::Converted { source, steps } => {
                    all.push(source.clone());
                    for step in steps {
                        if let Step::Append(text) | Step::Replace { with: text, .. } = step {
                            all.push(text.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }
}

/// A table of nothing. Pools and rules change what is looked up, so nothing is kept.
fn empty_table(source: Template) -> MapTable {
    MapTable {
        source,
        exact: Vec::new(),
        suffixes: Vec::new(),
        prefixes: Vec::new(),
        patterns: Vec::new(),
        default: Template::default(),
        hostnames: false,
        volatile: true,
    }
}

/// The lines of a map file: a key, spaces, a value.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        (key, value.trim_start())
    })
}

fn define(call: &Call, text: &str, source: Template, default: Template) -> Result<Definition, Problem> {
    let parts: Vec<&str> = call.name.split('_').collect();
    let way = match parts.as_slice() {
        ["map"] | ["map", "str"] | ["map", "str", "str" | "int"] | ["map", "int"] => "str",
        ["map", way @ ("beg" | "end" | "sub" | "dir" | "dom" | "reg" | "ip")] => way,
        ["map", way @ ("beg" | "end" | "sub" | "dir" | "dom" | "reg" | "ip"), "str" | "int"] => way,
        _ => return Err(Problem::NotBuilt(format!("converter {}", call.name))),
    };
    if way == "ip" {
        let networks: Result<Vec<_>, String> = entries(text)
            .map(|(key, value)| network(key).map(|net| (net, Template::literal(value))))
            .collect();
        return Ok(Definition::Geo {
            proxies: Vec::new(),
            recursive: false,
            source: Some(source),
            networks: networks.map_err(Problem::Bad)?,
            default,
        });
    }
    let lower = source.pieces.iter().all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Var(_, filters) => filters.last() == Some(&Filter::Lower),
    });
    let mut table = MapTable { default, ..empty_table(source) };
    let mut all: Vec<(&str, &str)> = entries(text).collect();
    if way == "beg" {
        // HAProxy takes the longest prefix, wherever it stands.
        all.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    }
    for (key, value) in all {
        let value = Template::literal(value);
        if way == "str" && lower {
            // A key with capitals can never equal a value in lower case.
            if !key.bytes().any(|b| b.is_ascii_uppercase()) {
                table.exact.push((key.to_owned(), value));
            }
            continue;
        }
        table.patterns.push((Pattern { source: pattern(way, key), ignore_case: false, origin: None }, value));
    }
    if table.patterns.len() > MOST_PATTERNS {
        let what = format!("a map of {} entries whose values are not in lower case", table.patterns.len());
        return Err(Problem::NotBuilt(what));
    }
    Ok(Definition::Map(table))
}

fn pattern(way: &str, key: &str) -> String {
    let text = escape(key);
    match way {
        "str" => format!("^{text}$"),
        "beg" => format!("^{text}"),
        "end" => format!("{text}$"),
        "dir" => format!("(?:^|/){text}(?:[/?]|$)"),
        "dom" => format!(r"(?:^|[./?:]){text}(?:[./?:]|$)"),
        "reg" => key.to_owned(),
        _ => text,
    }
}

/// The pattern that matches just this text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if !(c.is_alphanumeric() || c == '_' || c == '-' || c == '/') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_lines_of_keys_and_values() {
        let text = "# hosts\na.example.org  be_a\n\tb.example.org\tbe b \nalone\n";
        let all: Vec<_> = entries(text).collect();
        assert_eq!(all, [("a.example.org", "be_a"), ("b.example.org", "be b"), ("alone", "")]);
        assert_eq!(pattern("str", "a.b"), r"^a\.b$");
        assert_eq!(pattern("reg", "^a.b"), "^a.b");
    }
}
