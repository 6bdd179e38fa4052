//! `map(FILE[,DEFAULT])` and its kin, as user variables; the files of keys that these and ACLs look things up in.
//!
//! Owns: reading of such files, each once, and which way of matching a converter asks for.
//! Never: looks a value up; the engine does.
//! Driven by: `sample`, when an expression goes through a map; `condition` and `rules`, which name such files, too.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_diag::Span;
use weir_model::{Definition, KeyList, KeyListId, KeyMatch, KeyUse, MapTable, Step, Template, Var, Variable};

use super::expression::Call;
use super::problem::Problem;
use crate::Files;

/// The maps of a configuration: one variable for each use that differs.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    by_use: RefCell<BTreeMap<String, Variable>>,
    lists: RefCell<Vec<KeyList>>,
}

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
        let how = way(&call.name)?;
        let list = self.list(file, true, files, span)?;
        let list = KeyUse { list, how, ignore_case: false };
        let definition = Definition::Listed { source, list, default };
        let name = format!("haproxy.map.{}", by_use.len() + 1);
        by_use.insert(key, Variable { name: name.clone(), origin: span, definition });
        Ok(name)
    }

    /// The list that a file begins; read when first asked for. `values`: its lines are a key and a value.
    pub(crate) fn list(
        &self,
        file: &str,
        values: bool,
        files: &dyn Files,
        span: Option<Span>,
    ) -> Result<KeyListId, Problem> {
        let mut lists = self.lists.borrow_mut();
        if let Some(at) = lists.iter().position(|list| list.name == file && list.values == values) {
            return Ok(KeyListId(at as u32));
        }
        let (what, user) = if values { ("map", "map") } else { ("list", "acl") };
        let bytes = files.read(std::path::Path::new(file));
        let bytes =
            bytes.map_err(|error| Problem::Bad(format!("cannot read the {what} `{file}`: {error}")))?;
        lists.push(KeyList {
            name: file.to_owned(),
            values,
            about: format!("pattern loaded from file '{file}' used by {user}"),
            entries: entries(&String::from_utf8_lossy(&bytes), values),
            origin: span,
        });
        Ok(KeyListId(lists.len() as u32 - 1))
    }

    /// All lists.
    pub(crate) fn lists(&self) -> Vec<KeyList> {
        self.lists.take()
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

    /// The name of a variable that is what a value stands for in a table; of others it is empty.
    pub(crate) fn table(&self, fetch: &str, source: Template, exact: Vec<(String, Template)>) -> String {
        let name = format!("haproxy.{fetch}");
        let table = MapTable { exact, ..empty_table(source) };
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

    /// How many of the first bytes of a session conversions need: a stretch at an offset is there whole, or not at all.
    pub(crate) fn bytes_needed(&self, of: &weir_expr::Peeked) -> u64 {
        let number = |text: &Template| text.as_literal().and_then(|text| text.parse::<u64>().ok());
        let by_use = self.by_use.borrow();
        let steps = by_use.values().filter_map(|variable| match &variable.definition {
            Definition::Converted { source, steps } => Some((source, steps.first()?)),
            _ => None,
        });
        let needed = steps.filter_map(|(source, step)| match step {
            Step::Call { routine: weir_expr::Routine::Whole, arguments }
                if source.vars().any(|var| matches!(var, Var::Peeked(what) if what == of)) =>
            {
                Some(number(&arguments[0])?.saturating_add(number(&arguments[1])?.max(1)))
            }
            _ => None,
        });
        needed.max().unwrap_or(0)
    }

    /// What maps and conversions themselves read.
    pub(crate) fn sources(&self) -> Vec<Template> {
        let mut all = Vec::new();
        for variable in self.by_use.borrow().values() {
            match &variable.definition {
                Definition::Map(table) => all.push(table.source.clone()),
                Definition::Listed { source, .. } => all.push(source.clone()),
                Definition::Converted { source, steps } => {
                    all.push(source.clone());
                    for step in steps {
                        all.extend(step.templates().iter().cloned());
                        all.extend(step.written().map(|name| Template::var(Var::User(name.to_owned()))));
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

/// The lines of a file: keys, with values after spaces where it has some.
fn entries(text: &str, values: bool) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (key, value) = match values {
            true => line.split_once([' ', '\t']).unwrap_or((line, "")),
            false => (line, ""),
        };
        (key.to_owned(), value.trim_start().to_owned())
    };
    lines.map(entry).collect()
}

/// How a converter looks its value up.
fn way(name: &str) -> Result<KeyMatch, Problem> {
    let parts: Vec<&str> = name.split('_').collect();
    Ok(match parts.as_slice() {
        ["map"] | ["map", "str"] | ["map", "str", "str" | "int"] => KeyMatch::Equals,
        ["map", way] | ["map", way, "str" | "int"] => match *way {
            "beg" => KeyMatch::Begins,
            "end" => KeyMatch::Ends,
            "sub" => KeyMatch::Contains,
            "dir" => KeyMatch::Segment,
            "dom" => KeyMatch::Label,
            "reg" => KeyMatch::Pattern,
            "ip" => KeyMatch::Network,
            "int" => KeyMatch::Number,
            _ => return Err(Problem::NotBuilt(format!("converter {name}"))),
        },
        _ => return Err(Problem::NotBuilt(format!("converter {name}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_lines_of_keys_and_values() {
        let text = "# hosts\na.example.org  be_a\n\tb.example.org\tbe b \nalone\n";
        let shown = |values| {
            let all = entries(text, values);
            all.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(true), ["a.example.org=be_a", "b.example.org=be b", "alone="]);
        assert_eq!(shown(false), ["a.example.org  be_a=", "b.example.org\tbe b=", "alone="]);
        assert_eq!(way("map_int").ok(), Some(KeyMatch::Number));
        assert_eq!(way("map_str_int").ok(), Some(KeyMatch::Equals));
    }
}
