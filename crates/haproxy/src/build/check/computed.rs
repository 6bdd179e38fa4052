//! Computed texts of checks: `set-var(check.x)`, `send-lf`, `hdr NAME FORMAT` and their kin.
//!
//! Owns: the values that a script's rules give to variables, rule by rule, and texts with them in it.
//! Why while the file is read: what rules can compute in a check are constants, the environment and names; a value that only a
//! check itself could have (the server at hand, an answer) is an error that says so.

use std::collections::BTreeMap;

use weir_model::Step;

use super::super::convert;
use super::super::expression::{Sample, parse};
use super::super::problem::Problem;
use super::super::scope::Scope;
use crate::findings::Findings;
use crate::read::{Line, Word};

/// See the module.
pub(super) struct Computed<'a> {
    scope: Scope<'a>,
    values: BTreeMap<String, Vec<u8>>,
}

impl<'a> Computed<'a> {
    pub(super) fn new(scope: &Scope<'a>) -> Self {
        Self { scope: *scope, values: BTreeMap::new() }
    }

    /// `set-var(NAME) EXPR`, `set-var-fmt(NAME) FORMAT` and `unset-var(NAME)`; false: it is none of them.
    pub(super) fn rule(&mut self, line: &Line, findings: &mut Findings) -> bool {
        let word = line.text(1);
        let Some((action, rest)) = word.split_once('(') else { return false };
        let name =
            rest.strip_suffix(')').unwrap_or(rest).split(',').next().unwrap_or_default().trim().to_owned();
        let value = match (action, line.word(2)) {
            ("unset-var", _) => None,
            ("set-var", Some(value)) => match self.expression(value.as_str()) {
                Ok(value) => value,
                Err(problem) => {
                    problem.report(value.span, findings);
                    return true;
                }
            },
            ("set-var-fmt", Some(value)) => self.text(value, findings).map(String::into_bytes),
            ("set-var" | "set-var-fmt", None) => {
                findings.missing(line, "a value");
                return true;
            }
            _ => return false,
        };
        match value {
            Some(value) => drop(self.values.insert(name, value)),
            None => drop(self.values.remove(&name)),
        }
        true
    }

    /// What an expression comes to; `None`: it has no value.
    fn expression(&self, text: &str) -> Result<Option<Vec<u8>>, Problem> {
        let sample = parse(text).map_err(Problem::Bad)?;
        let Some(mut value) = self.fetch(&sample)? else { return Ok(None) };
        for call in sample.converters.iter().filter(|call| !matches!(call.name.as_str(), "str" | "debug")) {
            let [Step::Convert(change)] = &convert::steps(call, &self.scope)?[..] else {
                return Err(Problem::NotBuilt(format!("the converter {} in a check", call.name)));
            };
            match change.apply(value) {
                Some(changed) => value = changed,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn fetch(&self, sample: &Sample) -> Result<Option<Vec<u8>>, Problem> {
        let argument = sample.argument();
        let text = |text: &str| Ok(Some(text.as_bytes().to_vec()));
        match sample.fetch.name.as_str() {
            "var" => Ok(self.values.get(argument).cloned()),
            "str" | "int" | "ipv4" | "ipv6" => text(argument),
            "bool" => text(if matches!(argument, "1" | "true" | "yes" | "on") { "1" } else { "0" }),
            "always_true" => text("1"),
            "always_false" => text("0"),
            "env" => Ok(self.scope.env.value(argument).map(|value| value.as_bytes().to_vec())),
            "be_name" => text(self.scope.proxy.name.as_str()),
            "hostname" => Ok(self.hostname()),
            name => Err(Problem::NotBuilt(format!("{name} in a check"))),
        }
    }

    fn hostname(&self) -> Option<Vec<u8>> {
        let name = self.scope.files.read(std::path::Path::new("/proc/sys/kernel/hostname")).ok()?;
        Some(name.trim_ascii().to_vec())
    }

    /// A text with `%[EXPR]`, `%H` and `%%` in it. `None` after an error.
    pub(super) fn text(&self, word: &Word, findings: &mut Findings) -> Option<String> {
        let (mut out, mut rest) = (String::new(), word.as_str());
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (value, used) = if let Some(inner) = after.strip_prefix('[') {
                let Some(end) = inner.find(']') else {
                    findings.bad_value(word, "`%[` is never closed");
                    return None;
                };
                let value = match self.expression(&inner[..end]) {
                    Ok(value) => value.unwrap_or_default(),
                    Err(problem) => {
                        problem.report(word.span, findings);
                        return None;
                    }
                };
                (value, end + 2)
            } else if after.starts_with('%') {
                (b"%".to_vec(), 1)
            } else if after.starts_with('H') {
                (self.hostname().unwrap_or_default(), 1)
            } else {
                let tag: String = after.chars().take_while(char::is_ascii_alphabetic).collect();
                findings.not_built(
                    word.span,
                    &format!("%{tag} in a check"),
                    "it decides which servers are used",
                );
                return None;
            };
            out.push_str(&String::from_utf8_lossy(&value));
            rest = &after[used..];
        }
        out.push_str(rest);
        Some(out)
    }

    /// A number, or an expression that is one.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        word: &Word,
        what: &str,
        findings: &mut Findings,
    ) -> Option<T> {
        if let Ok(number) = word.as_str().parse() {
            return Some(number);
        }
        let computed = match self.expression(word.as_str()) {
            Ok(value) => value.and_then(|value| String::from_utf8(value).ok()?.parse().ok()),
            Err(problem) => {
                problem.report(word.span, findings);
                return None;
            }
        };
        if computed.is_none() {
            findings.bad_value(word, format!("`{}` is no {what}", word.text));
        }
        computed
    }
}
