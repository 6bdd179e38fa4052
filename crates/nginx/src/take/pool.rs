//! Words of `upstream` blocks.

use weir_diag::Diagnostic;
use weir_expr::settings::Spread;
use weir_model::{EndpointAddress, Resolving};

use super::args::count;
use super::target::{endpoint, endpoint_address, split_port};
use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `server address [parameters]`.
pub(crate) fn server(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let text = d.arg(0);
    let address = match text.strip_prefix("unix:") {
        Some("") => return lo.bad_value(d, 0, "a path after `unix:`"),
        Some(path) => EndpointAddress::Unix(path.into()),
        None => match (split_port(text), lo.dialect) {
            (Some((host, Some(port))), _) => endpoint_address(host, port),
            (Some((host, None)), Dialect::Http) => endpoint_address(host, 80),
            (Some(_), Dialect::Stream) => return lo.bad_value(d, 0, "an address with a port"),
            (None, _) => return lo.bad_value(d, 0, "an address such as `10.0.0.1:8080` or `unix:/path`"),
        },
    };
    let mut new = endpoint(text, address, d.span);
    // The same address may stand twice; names are unique in a pool.
    let twins =
        parts.pool.endpoints.iter().filter(|known| known.name.split('#').next() == Some(text)).count();
    if twins > 0 {
        new.name = format!("{text}#{}", twins + 1);
    }
    for n in 1..d.args.len() {
        if parameter(lo, d, n, &mut new).is_none() {
            return;
        }
    }
    parts.pool.endpoints.push(new);
}

fn parameter(lo: &mut Lowering<'_>, d: &Directive, n: usize, new: &mut weir_model::Endpoint) -> Option<()> {
    let number = |text: &str| value::number(text).and_then(|n| u32::try_from(n).ok());
    let word = d.arg(n);
    let expected = match word.split_once('=') {
        Some(("weight", text)) => match number(text) {
            Some(weight @ 1..=65535) => {
                new.weight = weight;
                return Some(());
            }
            _ => "`weight=` with a number from 1 to 65535",
        },
        Some(("max_conns", text)) => match number(text) {
            Some(most) => {
                new.max_connections = Some(most).filter(|&most| most > 0);
                return Some(());
            }
            None => "`max_conns=` with a number",
        },
        Some(("max_fails", text)) => match number(text) {
            Some(fails) => {
                new.max_fails = fails;
                return Some(());
            }
            None => "`max_fails=` with a number",
        },
        Some(("fail_timeout", text)) => match value::time(text) {
            Some(time) => {
                new.fail_timeout = time;
                return Some(());
            }
            None => "`fail_timeout=` with a time such as `10s`",
        },
        Some(("slow_start", text)) => match value::time(text) {
            Some(time) => {
                new.slow_start = super::args::limit(time);
                return Some(());
            }
            None => "`slow_start=` with a time such as `30s`",
        },
        Some(("route" | "service", _)) => {
            let text = format!("`{word}` of an upstream's server is not supported yet");
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.arg_span(n)));
            return None;
        }
        None if word == "backup" => {
            new.backup = true;
            return Some(());
        }
        None if word == "down" || word == "drain" => {
            new.down = true;
            return Some(());
        }
        None if word == "resolve" => {
            // An address needs nobody's help.
            if matches!(new.address, EndpointAddress::Name { .. }) {
                new.resolve = Some(Resolving { spread: Spread::Each, resolver: None });
            }
            return Some(());
        }
        _ => {
            "one of `weight=`, `max_conns=`, `max_fails=`, `fail_timeout=`, `slow_start=`, `backup`, `down`, `resolve`"
        }
    };
    lo.bad_value(d, n, expected);
    None
}

/// `keepalive connections [local]`.
pub(crate) fn keepalive(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    if value::number(d.arg(0)).is_none() {
        return lo.bad_value(d, 0, "a number");
    }
    if d.args.len() == 2 && d.arg(1) != "local" {
        return lo.bad_value(d, 1, "`local`");
    }
    parts.pool.keepalive.idle = count(d).min(u64::from(u32::MAX)) as u32;
}

pub(crate) fn resolver(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    parts.pool.resolver = super::client::parse_resolver(lo, d);
}
