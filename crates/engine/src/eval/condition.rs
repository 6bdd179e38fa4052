//! Conditions: what `if`, ACLs and conditional edits ask.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use weir_plan::{Condition, FileKind, MatchFailed, Piece, Subject, Template, Test};

use super::users;
use crate::exchange::Traffic;
use crate::exchange::fields::Fields;

/// Whether a condition holds. A pattern that matches leaves its groups in the exchange.
///
/// # Errors
/// It is not known: negated or not, nothing may follow from it but a refusal.
pub(crate) fn holds(exchange: &mut impl Traffic, condition: &Condition) -> Result<bool, MatchFailed> {
    let found = match condition {
        Condition::Always(value) => return Ok(*value),
        Condition::Truthy(template) => is_truthy(&super::text(exchange, template)),
        Condition::Test { subject, test } => tests(exchange, subject, test)?,
        Condition::File { kind, path } => file(*kind, &super::text(exchange, path)),
        // Who sends a session is not known.
        Condition::User(auth) => exchange.exchange_mut().is_some_and(|exchange| users::holds(exchange, auth)),
        Condition::Not(inner) => return Ok(!holds(exchange, inner)?),
        Condition::All(all) => return Ok(!any(all, |inner| Ok(!holds(exchange, inner)?))?),
        Condition::Any(some) => return any(some, |inner| holds(exchange, inner)),
    };
    // A value that it looked at.
    exchange.slots.take_doubt().map_or(Ok(found), Err)
}

/// Whether `holds` for one of them; those behind the first are not looked at.
fn any<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, MatchFailed>,
) -> Result<bool, MatchFailed> {
    for item in items {
        if holds(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Neither empty nor `0`.
pub(crate) fn is_truthy(value: &[u8]) -> bool {
    !value.is_empty() && value != b"0"
}

fn tests(exchange: &mut impl Traffic, subject: &Subject, test: &Test) -> Result<bool, MatchFailed> {
    let (fields, name, split) = match subject {
        Subject::Value(template) if matches!(test, Test::Present) => {
            return Ok(is_present(exchange, template));
        }
        Subject::Value(template) => {
            let value = super::text(exchange, template);
            return passes(exchange, &value, test);
        }
        Subject::RequestHeader { name, split } => {
            (exchange.exchange().map(|exchange| &exchange.request.fields), name, *split)
        }
        Subject::ResponseHeader { name, split } => {
            (exchange.exchange().map(|exchange| &exchange.response.fields), name, *split)
        }
    };
    // Copied out, because a match changes the exchange; fields with tests are short.
    let lines: Vec<Vec<u8>> = fields
        .into_iter()
        .flat_map(Fields::iter)
        .filter(|field| name.is(field.id, field.name))
        .map(|field| field.value.to_vec())
        .collect();
    if matches!(test, Test::Present) {
        return Ok(!lines.is_empty());
    }
    any(&lines, |line| {
        if split {
            any(line.split(|&b| b == b','), |value| passes(exchange, value.trim_ascii(), test))
        } else {
            passes(exchange, line, test)
        }
    })
}

/// Whether there is a value, be it an empty one.
fn is_present(exchange: &impl Traffic, template: &Template) -> bool {
    let mut value = Vec::new();
    match template.pieces.as_slice() {
        [Piece::Var(var, _)] => super::vars::append(exchange, var, &mut value),
        _ => {
            super::render(exchange, template, &mut value);
            !value.is_empty()
        }
    }
}

fn passes(exchange: &mut impl Traffic, value: &[u8], test: &Test) -> Result<bool, MatchFailed> {
    Ok(match test {
        Test::Present => !value.is_empty(),
        Test::Text(words) => {
            words.fixed_holds(value)
                || words.computed().iter().any(|word| words.holds(value, &super::text(exchange, word)))
        }
        Test::Matches(patterns) => any(patterns, |pattern| {
            let found = pattern.matches(value)?;
            if let Some(captures) = &found {
                super::keep_match(exchange, pattern, captures, value);
            }
            Ok(found.is_some())
        })?,
        Test::In(networks) => address(value).is_some_and(|ip| networks.contains(ip)),
        Test::Number(ranges) => number(value).is_some_and(|n| in_ranges(ranges, n)),
        Test::Listed(list) => exchange.installed.key_views[list.at()].find(value, |entry| entry.is_some())?,
        Test::Length(ranges) => in_ranges(ranges, value.len() as i64),
    })
}

fn in_ranges(ranges: &[(i64, i64)], n: i64) -> bool {
    ranges.iter().any(|&(low, high)| (low..=high).contains(&n))
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

fn address(value: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(value).ok()?.trim().parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn file(kind: FileKind, path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let Ok(found) = path.metadata() else { return false };
    match kind {
        FileKind::File => found.is_file(),
        FileKind::Directory => found.is_dir(),
        FileKind::Any => true,
        FileKind::Executable => found.permissions().mode() & 0o111 != 0,
    }
}
