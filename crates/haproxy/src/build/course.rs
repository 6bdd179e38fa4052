//! Actions about the course of an exchange: its times, its waits, interim responses, who its client is.
//!
//! Owns: what `early-hint`, `wait-for-body`, `pause`, `set-timeout`, `set-src`, `set-dst` and their kin take.
//! Never: waits; the engine does.
//! Driven by: `rules`.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::{AddressPart, End, OwnTimeout};
use weir_model::{Op, Template, Var};

use super::expression::parse;
use super::pool::resolver;
use super::problem::Problem;
use super::rules::Reader;
use super::sample;
use super::set_var::set_found;
use crate::draft::RuleList;
use crate::read::Word;
use crate::values::{size, time};

impl Reader<'_, '_> {
    /// `early-hint NAME FORMAT`, `wait-for-body time T [at-least N]`, `pause T`, `set-timeout WHICH T`.
    pub(super) fn course(&mut self, name: &str, arguments: &[Word], span: Span) -> Option<Op> {
        match (name, arguments) {
            ("early-hint", [field, value]) => {
                let value = self.template(value, false)?;
                Some(Op::EarlyHints(vec![(field.text.clone(), value)]))
            }
            ("pause", [time]) => Some(Op::Pause(self.time(time)?)),
            ("set-timeout", [which, time]) => {
                let which = match which.as_str() {
                    "server" => OwnTimeout::Endpoint,
                    "tunnel" => OwnTimeout::Tunnel,
                    "client" => OwnTimeout::Client,
                    _ => {
                        self.findings.bad_choice(which, "set-timeout", &["server", "tunnel", "client"]);
                        return None;
                    }
                };
                Some(Op::SetTimeout(which, self.time(time)?))
            }
            _ => self.wait_for_body(arguments, span),
        }
    }

    fn wait_for_body(&mut self, arguments: &[Word], span: Span) -> Option<Op> {
        let (mut millis, mut least) = (None, None);
        let mut pairs = arguments.chunks(2);
        for pair in &mut pairs {
            match pair {
                [key, value] if key.as_str() == "time" => {
                    let time = self.findings.value(value, time::millis)?;
                    millis = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
                }
                [key, value] if key.as_str() == "at-least" => {
                    least = Some(self.findings.value(value, size::parse)?);
                }
                [key, ..] => {
                    self.findings.bad_choice(key, "wait-for-body", &["time", "at-least"]);
                    return None;
                }
                [] => {}
            }
        }
        if millis.is_none() {
            let title = "`wait-for-body` needs `time` with the longest time that it waits";
            self.findings.push(Diagnostic::error("haproxy::missing-argument", title).at(span));
        }
        Some(Op::WaitForBody { millis: millis?, least })
    }

    /// A time, or an expression that is one in milliseconds.
    fn time(&mut self, word: &Word) -> Option<Template> {
        if let Ok(time) = time::millis(word.as_str()) {
            return Some(Template::literal(time.as_millis().to_string()));
        }
        self.expression(word)
    }

    /// `set-retries N` or `set-retries EXPR`.
    pub(super) fn retries(&mut self, word: &Word) -> Option<Template> {
        match word.as_str().parse::<u32>() {
            Ok(most) => Some(Template::literal(most.to_string())),
            Err(_) => self.expression(word),
        }
    }

    /// `set-src EXPR` and its kin; rules on connections set it for all that comes over them.
    pub(super) fn set_address(&mut self, list: RuleList, name: &str, word: &Word) -> Option<Op> {
        let value = self.expression(word)?;
        let part = if name.ends_with("-port") { AddressPart::Port } else { AddressPart::Ip };
        let end = if name.starts_with("set-src") { End::Source } else { End::Destination };
        let connection = list == RuleList::TcpConnection;
        Some(Op::SetAddress { end, part, value, connection })
    }

    /// `do-resolve(VAR,RESOLVERS[,ipv4|ipv6]) EXPR`: what is found is what the variable is set to.
    pub(super) fn resolve(&mut self, first: &Word, name: &Word) -> Option<Vec<Op>> {
        let inner = first.text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or("");
        let mut parts = inner.split(',').map(str::trim);
        let (Some(written), Some(section), family, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            self.findings.bad_value(first, "`do-resolve(VARIABLE,RESOLVERS[,ipv4|ipv6])` is the form");
            return None;
        };
        let ipv4_first = match family {
            Some("ipv4") => true,
            None | Some("ipv6") => false,
            Some(_) => {
                self.findings.bad_choice(first, "do-resolve", &["ipv4", "ipv6"]);
                return None;
            }
        };
        let section = Word { text: section.to_owned(), ..first.clone() };
        let resolver = resolver(&self.scope, &section, self.findings)?;
        let name = self.expression(name)?;
        let set = match set_found(written, Template::var(Var::Resolved), false) {
            Ok(set) => set,
            Err(problem) => {
                problem.report(first.span, self.findings);
                return None;
            }
        };
        Some(vec![Op::Resolve { name, resolver: Arc::new(resolver), ipv4_first }, set])
    }

    pub(super) fn expression(&mut self, word: &Word) -> Option<Template> {
        let sample = parse(word.as_str()).map_err(Problem::Bad);
        match sample.and_then(|sample| sample::template(&sample, &self.scope)) {
            Ok(value) => Some(value),
            Err(problem) => {
                problem.report(word.span, self.findings);
                None
            }
        }
    }
}
