//! The expression language at work: templates, conditions, tables, the rule program.
//!
//! Owns: evaluation. Never: I/O, but for the file tests that the language has.
//! Driven by: the exchange's walk, actions, logs.

pub(crate) mod condition;
mod convert;
pub(crate) mod program;
mod tables;
mod tls;
pub(crate) mod vars;

pub(crate) use tables::render_with_groups;

use std::cell::RefCell;

use weir_plan::{Captures, Filter, Pattern, Piece, Slot, Template};

use crate::exchange::Exchange;

/// Values of user variables, kept for the request.
#[derive(Default, Clone)]
pub(crate) struct Slots {
    values: RefCell<Vec<Value>>,
}

#[derive(Default, Clone)]
enum Value {
    /// Not computed or assigned yet.
    #[default]
    Unset,
    /// Being computed: a table that refers to itself sees nothing.
    Busy,
    /// Known.
    Known(Box<[u8]>),
}

impl Slots {
    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.values.get_mut().clear();
    }

    /// Assigns a value.
    pub(crate) fn set(&self, slot: Slot, value: &[u8]) {
        self.put(slot, Value::Known(value.into()));
    }

    fn put(&self, slot: Slot, value: Value) {
        let mut values = self.values.borrow_mut();
        let at = usize::from(slot.0);
        if values.len() <= at {
            values.resize(at + 1, Value::Unset);
        }
        values[at] = value;
    }

    fn state(&self, slot: Slot, out: &mut Vec<u8>) -> Option<bool> {
        match self.values.borrow().get(usize::from(slot.0)) {
            Some(Value::Known(value)) => {
                out.extend_from_slice(value);
                Some(true)
            }
            Some(Value::Busy) => Some(false),
            Some(Value::Unset) | None => None,
        }
    }
}

/// Appends the text of a template.
pub(crate) fn render(exchange: &Exchange, template: &Template, out: &mut Vec<u8>) {
    for piece in &template.pieces {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Var(var, filters) => {
                let start = out.len();
                vars::append(exchange, var, out);
                apply(filters, out, start);
            }
        }
    }
}

/// The text of a template.
pub(crate) fn text(exchange: &Exchange, template: &Template) -> Vec<u8> {
    let mut out = Vec::new();
    render(exchange, template, &mut out);
    out
}

/// Changes what stands behind `start` by filters.
pub(crate) fn apply(filters: &[Filter], out: &mut Vec<u8>, start: usize) {
    for filter in filters {
        match filter {
            Filter::Lower => out[start..].make_ascii_lowercase(),
            Filter::Upper => out[start..].make_ascii_uppercase(),
            Filter::DashIfEmpty => {
                if out.len() == start {
                    out.push(b'-');
                }
            }
            Filter::Quote => {
                out.insert(start, b'"');
                out.push(b'"');
            }
            Filter::UrlEncode => {
                let plain = out.split_off(start);
                weir_http::uri::escape(weir_http::uri::Escape::Component, &plain, out);
            }
            Filter::UrlDecode => {
                let coded = out.split_off(start);
                weir_http::uri::unescape(&coded, out);
            }
        }
    }
}

/// Keeps the groups of a match: numbered ones for `$1`, named ones as user variables.
pub(crate) fn keep_match(exchange: &mut Exchange, pattern: &Pattern, captures: &Captures, subject: &[u8]) {
    for &(group, slot) in pattern.named() {
        exchange.slots.set(slot, captures.text(usize::from(group), subject));
    }
    if captures.len() > 1 || pattern.named().is_empty() {
        let ranges =
            (0..captures.len()).map(|group| captures.range(group).map(|range| (range.start, range.end)));
        exchange.captures.keep(subject, ranges);
    }
}

/// A hash for keys of kept connections; the same within a process.
pub(crate) fn hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    thread_local! { static STATE: RandomState = RandomState::new(); }
    STATE.with(|state| state.hash_one(value))
}
