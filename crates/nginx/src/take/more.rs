//! Words of the headers-more module: `more_set_headers` and its kin.
//!
//! Owns: reading their parameters and fields.
//! Never: lets a field be changed by which a message is told from the next.
//! Driven by: the entries of the table.

use std::sync::Arc;

use weir_model::{Condition, EditKind, HeaderEdit, Subject, Template, Test, Var, Words};

use super::headers::is_field_name;
use super::{Lowering, Scope};
use crate::lexer::Word;
use crate::tree::Directive;

/// Fields that say where a message ends.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// What stands before the fields.
#[derive(Default)]
struct Parameters {
    statuses: Vec<u16>,
    types: Vec<String>,
    /// Only fields that are there are changed.
    replace: bool,
    /// Fields are added to those that are there.
    append: bool,
    /// Where the fields begin.
    fields: usize,
}

/// Which side of an exchange is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// `more_set_headers [-a] [-t types] [-s statuses] 'Name: value' …`.
pub(crate) fn set_headers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let edits = edits(lo, d, Side::Response, set);
    Arc::make_mut(&mut s.more_headers).extend(edits);
}

/// `more_clear_headers [-t types] [-s statuses] Name …`; a name may end in `*`.
pub(crate) fn clear_headers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let edits = edits(lo, d, Side::Response, clear);
    Arc::make_mut(&mut s.more_headers).extend(edits);
}

/// `more_set_input_headers [-r] [-t types] 'Name: value' …`.
pub(crate) fn set_input_headers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let edits = edits(lo, d, Side::Request, set);
    Arc::make_mut(&mut s.more_input_headers).extend(edits);
}

/// `more_clear_input_headers [-t types] Name …`.
pub(crate) fn clear_input_headers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let edits = edits(lo, d, Side::Request, clear);
    Arc::make_mut(&mut s.more_input_headers).extend(edits);
}

/// Reads one field: its name, what is done, and the value.
type Read = fn(&mut Lowering<'_>, &Word) -> Option<(String, EditKind, Template)>;

fn edits(lo: &mut Lowering<'_>, d: &Directive, side: Side, read: Read) -> Vec<HeaderEdit> {
    let Some(parameters) = parameters(lo, d, side) else { return Vec::new() };
    let mut out = Vec::new();
    for (n, word) in d.args.iter().enumerate().skip(parameters.fields) {
        let Some((name, kind, value)) = read(lo, word) else {
            lo.bad_value(d, n, "a field such as `Name: value`, or its name alone");
            return Vec::new();
        };
        if FRAMING.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            lo.bad_value(d, n, "a field that may be changed: Weir says by it where a message ends");
            return Vec::new();
        }
        let kind = if parameters.append && kind == EditKind::Assign { EditKind::Add } else { kind };
        let condition = condition(&parameters, side, &name);
        let statuses = parameters.statuses.clone();
        out.push(HeaderEdit { skip_empty: kind == EditKind::Add, kind, name, value, statuses, condition });
    }
    if out.is_empty() {
        lo.bad_value(d, d.args.len().saturating_sub(1), "followed by a field");
    }
    out
}

fn parameters(lo: &mut Lowering<'_>, d: &Directive, side: Side) -> Option<Parameters> {
    let mut out = Parameters::default();
    while let Some(word) = d.args.get(out.fields) {
        let list = d.args.get(out.fields + 1).map_or("", |list| list.text.as_str());
        match word.text.as_str() {
            "-t" => out.types.extend(list.split_ascii_whitespace().map(str::to_ascii_lowercase)),
            "-s" if side == Side::Response => {
                for status in list.split_ascii_whitespace() {
                    match status.parse() {
                        Ok(status @ 100..=999) => out.statuses.push(status),
                        _ => {
                            lo.bad_value(d, out.fields + 1, "a list of statuses such as `404 500`");
                            return None;
                        }
                    }
                }
            }
            "-r" if side == Side::Request => {
                (out.replace, out.fields) = (true, out.fields + 1);
                continue;
            }
            "-a" if side == Side::Response => {
                (out.append, out.fields) = (true, out.fields + 1);
                continue;
            }
            text if text.starts_with('-') => {
                lo.bad_value(d, out.fields, "a parameter of this directive");
                return None;
            }
            _ => break,
        }
        if list.trim().is_empty() {
            lo.bad_value(d, out.fields, "followed by a list");
            return None;
        }
        out.fields += 2;
    }
    Some(out)
}

fn condition(parameters: &Parameters, side: Side, name: &str) -> Option<Condition> {
    let mut all = Vec::new();
    if !parameters.types.is_empty() {
        let var = match side {
            Side::Request => Var::ContentType,
            Side::Response => Var::SentHeader("content-type".into()),
        };
        let test = |test: fn(Words) -> Test, end: &str| {
            let any_of =
                parameters.types.iter().map(|media| Template::literal(format!("{media}{end}"))).collect();
            Condition::Test {
                subject: Subject::Value(Template::var(var.clone())),
                test: test(Words { any_of, ignore_case: true }),
            }
        };
        all.push(match side {
            // The module compares the whole field of a request, and the type alone of a response.
            Side::Request => test(Test::Equals, ""),
            Side::Response => {
                Condition::Any(vec![test(Test::Equals, ""), test(Test::Begins, ";"), test(Test::Begins, " ")])
            }
        });
    }
    if parameters.replace {
        let subject = Subject::RequestHeader { name: name.to_ascii_lowercase(), split: false };
        all.push(Condition::Test { subject, test: Test::Present });
    }
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(Condition::All(all)),
    }
}

/// `Name: value`; a name alone, or one without a value, clears the field.
fn set(lo: &mut Lowering<'_>, word: &Word) -> Option<(String, EditKind, Template)> {
    let (name, value) = word.text.split_once(':').unwrap_or((&word.text, ""));
    let (name, value) = (name.trim(), value.trim_start());
    if !is_field_name(name) {
        return None;
    }
    let kind = if value.is_empty() { EditKind::Remove } else { EditKind::Assign };
    Some((name.to_owned(), kind, lo.template_of(value, word)))
}

/// `Name`, or the beginning of names with `*`.
fn clear(_: &mut Lowering<'_>, word: &Word) -> Option<(String, EditKind, Template)> {
    let name = word.text.trim().trim_end_matches(':');
    match name.strip_suffix('*') {
        Some(start) if is_field_name(start) => {
            Some((start.to_owned(), EditKind::RemovePrefix, Template::default()))
        }
        None if is_field_name(name) => Some((name.to_owned(), EditKind::Remove, Template::default())),
        _ => None,
    }
}
