//! Words about response fields.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{EditKind, Expires, HeaderEdit, Template};

use super::scope::Inheritance;
use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

/// Statuses that `add_header` without `always` and `expires` hold for (nginx.org, ngx_http_headers_module).
pub(crate) const USUAL: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// `add_header name value [always]`.
pub(crate) fn add_header(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some((name, value, statuses)) = field(lo, d) else { return };
    // nginx replaces these two and adds all others.
    let single = name.eq_ignore_ascii_case("last-modified") || name.eq_ignore_ascii_case("etag");
    let kind = if single { EditKind::Assign } else { EditKind::Add };
    s.add_headers
        .push(s.level, HeaderEdit { kind, name, value, skip_empty: !single, statuses, condition: None });
}

/// `add_trailer name value [always]`.
pub(crate) fn add_trailer(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some((name, value, statuses)) = field(lo, d) else { return };
    let kind = EditKind::Add;
    let level = s.level;
    s.parts()
        .filters
        .trailers
        .push(level, HeaderEdit { kind, name, value, skip_empty: true, statuses, condition: None });
}

/// `add_header_inherit on | off | merge`.
pub(crate) fn inheritance(d: &Directive) -> Inheritance {
    match d.arg(0) {
        "off" => Inheritance::Off,
        "merge" => Inheritance::Merge,
        _ => Inheritance::Usual,
    }
}

/// `name value [always]`, with the statuses that it holds for.
fn field(lo: &mut Lowering<'_>, d: &Directive) -> Option<(String, Template, Vec<u16>)> {
    let always = d.args.len() == 3;
    if always && d.arg(2) != "always" {
        lo.bad_value(d, 2, "`always`");
        return None;
    }
    let name = d.arg(0).to_owned();
    if !is_field_name(&name) {
        lo.bad_value(d, 0, "a field name");
        return None;
    }
    let value = lo.template(&d.args[1]);
    Some((name, value, if always { Vec::new() } else { USUAL.to_vec() }))
}

/// RFC 9110 §5.6.2: a token.
pub(crate) fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// `expires [modified] time`, `expires epoch | max | off`.
pub(crate) fn expires(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let modified = d.args.len() == 2;
    if modified && d.arg(0) != "modified" {
        return lo.bad_value(d, 0, "`modified` before a time");
    }
    let n = d.args.len() - 1;
    let text = d.arg(n);
    if text.contains('$') {
        if modified {
            let text = "`expires modified` made of variables is not supported yet";
            return lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
        }
        s.expires = Some(Arc::new(Expires::Template(lo.template(&d.args[n]))));
        return;
    }
    s.expires = match (parse_expires(text), modified) {
        (Some(Parsed::Off), false) => None,
        (Some(Parsed::Is(Expires::After(seconds))), true) => Some(Arc::new(Expires::AfterModified(seconds))),
        (Some(Parsed::Is(expires)), false) => Some(Arc::new(expires)),
        _ => return lo.bad_value(d, n, "a time such as `24h` or `-1`, `@15h30m`, `epoch`, `max` or `off`"),
    };
}

enum Parsed {
    Off,
    Is(Expires),
}

fn parse_expires(text: &str) -> Option<Parsed> {
    Some(Parsed::Is(match text {
        "off" => return Some(Parsed::Off),
        "epoch" => Expires::Epoch,
        "max" => Expires::Max,
        _ => {
            if let Some(time) = text.strip_prefix('@') {
                return Some(Parsed::Is(Expires::Daily(
                    value::seconds(time).filter(|&s| s <= 86_400)? as u32
                )));
            }
            let (negative, time) = match text.strip_prefix('-') {
                Some(time) => (true, time),
                None => (false, text.strip_prefix('+').unwrap_or(text)),
            };
            let seconds = i64::try_from(value::seconds(time)?).ok()?;
            Expires::After(if negative { -seconds } else { seconds })
        }
    }))
}
