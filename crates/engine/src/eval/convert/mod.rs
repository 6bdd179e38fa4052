//! Values through steps: HAProxy's converters.
//!
//! Owns: the steps that need a library, a pattern or another variable; the pure ones are `expr`'s.
//! Driven by: `eval::tables`, for variables that are defined so.
//! Why: a step may find no value, and then there is none at the end; HAProxy's conditions depend on that.

mod dates;
mod digests;
mod distcc;
mod encrypted;
mod fix;
mod json;
mod language;
mod lenient;
mod mqtt;
mod node;
mod packet;
mod payload;
mod protobuf;
mod routine;
mod token;
mod verify_names;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha1::Digest as _;
use weir_expr::Coding;
use weir_http::uri;
use weir_plan::{Pattern, Piece, Step, Template};
use weir_policy::hash;

use super::{render, render_with_groups, vars};
use crate::exchange::Traffic;

/// Most replacements of one value.
const MOST: usize = 4096;

/// The value of a template after all steps; `None` if there is none.
pub(super) fn converted(exchange: &impl Traffic, source: &Template, steps: &[Step]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    match source.pieces.as_slice() {
        // One variable alone may have no value, which is other than an empty one.
        [Piece::Var(var, filters)] => {
            if !vars::append(exchange, var, &mut value) {
                return None;
            }
            super::apply(filters, &mut value, 0);
        }
        _ => render(exchange, source, &mut value),
    }
    for step in steps {
        value = match step {
            Step::Convert(convert) => convert.apply(value)?,
            Step::Coding(coding) => coded(*coding, value)?,
            Step::Stick { table, what } => super::sticks::of_value(exchange, table, *what, &value)?,
            Step::Append(text) => {
                render(exchange, text, &mut value);
                value
            }
            Step::Replace { pattern, with, all } => replaced(exchange, pattern, with, *all, value),
            Step::Call { routine, arguments } => {
                let given: Vec<Vec<u8>> =
                    arguments.iter().map(|argument| vars::text(exchange, argument)).collect();
                routine::call(exchange, *routine, &given, value)?
            }
            Step::Note(slot) => {
                exchange.slots.set(*slot, &value);
                value
            }
            Step::NoteEnd(slot, length) => {
                let end = value.split_off(value.len().saturating_sub(*length));
                exchange.slots.set(*slot, STANDARD.encode(end).as_bytes());
                value
            }
            Step::Keep { of, name, number } => {
                let kept = weir_expr::KeptValue { text: value.clone(), number: *number };
                exchange.keep_value(*of, name, Some(kept));
                value
            }
            Step::Forget(slot) => {
                exchange.slots.put(*slot, crate::exchange::Value::Unset);
                value
            }
            Step::ForgetKept { of, name } => {
                exchange.keep_value(*of, name, None);
                value
            }
        };
    }
    Some(value)
}

fn coded(coding: Coding, value: Vec<u8>) -> Option<Vec<u8>> {
    let number = |hash: u32, mixed: bool| {
        let hash = if mixed { hash::avalanche(hash) } else { hash };
        Some(hash.to_string().into_bytes())
    };
    match coding {
        Coding::Sha1 => Some(sha1::Sha1::digest(&value).to_vec()),
        Coding::Base64 => Some(STANDARD.encode(value).into_bytes()),
        Coding::FromBase64 => STANDARD.decode(value).ok(),
        Coding::UrlBase64 => Some(URL_SAFE_NO_PAD.encode(value).into_bytes()),
        Coding::FromUrlBase64 => URL_SAFE_NO_PAD.decode(value).ok(),
        Coding::UrlEncode => {
            let mut out = Vec::new();
            uri::escape(uri::Escape::Component, &value, &mut out);
            Some(out)
        }
        Coding::UrlDecode => {
            let mut out = Vec::new();
            uri::unescape(&value, &mut out);
            Some(out)
        }
        Coding::Crc32(mixed) => number(hash::crc32(&value), mixed),
        Coding::Sdbm(mixed) => number(hash::sdbm(&value), mixed),
        Coding::Djb2(mixed) => number(hash::djb2(&value), mixed),
        Coding::Wt6(mixed) => number(hash::wt6(&value), mixed),
    }
}

fn replaced(
    exchange: &impl Traffic,
    pattern: &Pattern,
    with: &Template,
    all: bool,
    value: Vec<u8>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_slice();
    for _ in 0..if all { MOST } else { 1 } {
        let captures = match pattern.matches(rest) {
            Ok(Some(captures)) => captures,
            Ok(None) => break,
            Err(why) => {
                exchange.slots.doubt(why);
                break;
            }
        };
        let Some(whole) = captures.range(0) else { break };
        out.extend_from_slice(&rest[..whole.start]);
        render_with_groups(exchange, with, &captures, rest, &mut out);
        // An empty match moves on by a byte, or it would match there for ever.
        let end = if whole.is_empty() { (whole.end + 1).min(rest.len()) } else { whole.end };
        out.extend_from_slice(&rest[whole.end..end]);
        rest = &rest[end..];
        if rest.is_empty() {
            break;
        }
    }
    out.extend_from_slice(rest);
    out
}

/// What converters find in bytes that a client sent: a byte that says which, then its path and its kind, each ended by a zero byte.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((&which, rest)) = data.split_first() else { return };
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    let (Some(path), Some(kind), Some(value)) = (parts.next(), parts.next(), parts.next()) else { return };
    let within = |found: Option<Vec<u8>>| {
        // Numbers are written out: twenty digits of one byte.
        assert!(found.is_none_or(|found| found.len() <= value.len().max(20)));
    };
    match which % 8 {
        0 => drop(json::query(value, path, kind)),
        1 => within(protobuf::field(value, path, kind)),
        2 => within(protobuf::grpc_field(value, path, kind)),
        3 => drop((token::part(value, 0, path, kind), token::part(value, 1, path, kind))),
        4 => {
            // A secret or a public key that nobody has signed with.
            let verified = token::verify(value, path, b"a secret of the house", kind);
            assert!(verified < 1 || path == b"none");
        }
        5 => {
            within(node::parameter(value, path));
            within(payload::sized(value, path, kind, b""));
            assert!(!(fix::is_valid(value) && mqtt::is_valid(value)));
            assert!(payload::rdp_cookie(value, path).is_none_or(|found| found.len() <= value.len()));
        }
        6 => {
            within(packet::fuzz(value, path.len() as u8));
            assert!(distcc::body(value, path, kind).is_none_or(|body| body.len() <= value.len()));
            assert!(node::parts(value).is_none_or(|(name, _)| name.len() <= value.len()));
        }
        _ => {
            let found = language::best(value, path, b"");
            assert!(found.is_none_or(|found| path.split(|byte| *byte == b';').any(|one| one == found)));
        }
    }
}
