//! Values of variables.
//!
//! Owns: the text of templates; which family a variable is of, and whether what is served has any of that family.
//! Never: keeps a value; tables and their cache are in `eval::tables`.
//! Driven by: templates, conditions, log lines.
//! Why: values are appended to the caller's buffer, so that a line of twenty variables allocates nothing. Families are
//! enums of their own (`weir_expr::Family`): a variable that nobody computes does not compile, and what only requests
//! have is computed from an exchange alone.

mod client;
mod common;
mod course;
mod message;
mod process;
mod request;
mod response;
mod session;
mod trace;
mod upstream;
pub(super) mod write;

use weir_expr::{Family, Slot, StickVar, Var};
use weir_plan::{Filter, Piece, Template};

use crate::exchange::{Kind, Traffic};

pub(crate) use common::append as append_common;
pub use process::NGINX_LANGUAGE;
pub(crate) use write::short;

/// Appends the text of a template.
pub(crate) fn render(traffic: &impl Traffic, template: &Template, out: &mut Vec<u8>) {
    for piece in &template.pieces {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Var(var, filters) => {
                let start = out.len();
                append(traffic, var, out);
                apply(filters, out, start);
            }
        }
    }
}

/// The text of a template.
pub(crate) fn text(traffic: &impl Traffic, template: &Template) -> Vec<u8> {
    let mut out = Vec::new();
    render(traffic, template, &mut out);
    out
}

/// The text of a template that is one variable, if that has a value; of any other, its text.
pub(crate) fn found(traffic: &impl Traffic, template: &Template) -> Option<Vec<u8>> {
    let [Piece::Var(var, filters)] = template.pieces.as_slice() else { return Some(text(traffic, template)) };
    let mut out = Vec::new();
    let found = append(traffic, var, &mut out);
    apply(filters, &mut out, 0);
    found.then_some(out)
}

/// Changes what stands behind `start` by filters, of which mostly there are none.
#[inline]
pub(crate) fn apply(filters: &[Filter], out: &mut Vec<u8>, start: usize) {
    if !filters.is_empty() {
        apply_all(filters, out, start);
    }
}

fn apply_all(filters: &[Filter], out: &mut Vec<u8>, start: usize) {
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
            Filter::Hexadecimal(digits) => {
                let plain = out.split_off(start);
                write::hexadecimal(&plain, usize::from(*digits), out);
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

/// Appends the value of `var`; false if there is none (logs show `-`).
pub(crate) fn append(traffic: &impl Traffic, var: &Var<Slot>, out: &mut Vec<u8>) -> bool {
    match (var.family(), traffic.kind()) {
        (Family::Request(var), Kind::Request(exchange)) => request::append(exchange, var, out),
        (Family::Judged(var), Kind::Request(exchange)) => {
            let value = super::facts::value(exchange, var, |template| text(exchange, template));
            write::extend(out, value.as_deref())
        }
        (Family::Identity(var), Kind::Request(exchange)) => {
            let value = super::tokens::value(exchange, var, |template| text(exchange, template));
            write::extend(out, value.as_deref())
        }
        (Family::Place(var), Kind::Request(exchange)) => request::append_place(exchange, var, out),
        (Family::Response(var), Kind::Request(exchange)) => response::append(exchange, var, out),
        (Family::Session(var), Kind::Session(session)) => session::append(session, var, out),
        (Family::Client(var), _) => client::append(traffic, var, out),
        (Family::Tls(weir_expr::TlsVar::TlsOwnPart(part)), _) => super::tls::own_part(traffic, part, out),
        (Family::Tls(var), _) => {
            traffic.client.tls.as_deref().is_some_and(|facts| super::tls::append(facts, var, out))
        }
        (Family::Upstream(var), _) => upstream::append(traffic, var, out),
        (Family::Course(var), _) => course::append(traffic, var, out),
        (Family::Stick(StickVar::Stick(ask)), _) => super::sticks::append(traffic, ask, out),
        (Family::Process(var), _) => process::append(traffic, var, out),
        (Family::User(slot), _) => super::tables::append_user(traffic, *slot, out),
        // What only requests have, asked of a session, or the other way round.
        (
            Family::Request(_)
            | Family::Judged(_)
            | Family::Identity(_)
            | Family::Place(_)
            | Family::Response(_),
            Kind::Session(_),
        )
        | (Family::Session(_), Kind::Request(_)) => false,
    }
}
