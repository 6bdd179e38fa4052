//! `upstream` blocks.

use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::Spread;
use weir_model::{EndpointAddress, Pool, Resolver, Resolving};

use super::Lowering;
use super::args::count;
use super::target::{endpoint, endpoint_address, pool, split_port};
use crate::table::{Contexts, Lower};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// A pool while its block is read.
pub(crate) struct PoolParts {
    pub pool: Pool,
    /// The word that chose the algorithm.
    pub balance_span: Option<Span>,
    pub resolver_timeout: Option<Duration>,
}

/// Lowers one block. `resolver`: that of the block around it.
pub(crate) fn lower(lo: &mut Lowering<'_>, d: &Directive, resolver: Option<&Resolver>) {
    let name = d.arg(0);
    if lo.defined_pool(name).is_some() {
        let text = format!("the upstream `{name}` is defined twice");
        return lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
    }
    let unique = lo.register_pool(name);
    let mut parts = PoolParts { pool: pool(&unique, d.span), balance_span: None, resolver_timeout: None };
    let context = if lo.dialect == Dialect::Http { Contexts::UPSTREAM } else { Contexts::STREAM_UPSTREAM };
    for word in lo.admit(d.children(), context) {
        if let Lower::Pool(f) = word.entry.lower {
            f(lo, &mut parts, word.directive);
        }
    }
    super::sticky::name_endpoints(&mut parts);
    let mut pool = parts.pool;
    // Servers that are wrong were told by themselves.
    let written = d.children().iter().any(|word| word.name() == "server");
    if pool.endpoints.iter().all(|endpoint| endpoint.backup) && (!written || !pool.endpoints.is_empty()) {
        let text = format!(
            "the upstream `{name}` has no servers{}",
            if pool.endpoints.is_empty() { "" } else { " but backups" }
        );
        if pool.endpoints.is_empty() {
            lo.report(Diagnostic::error("nginx::empty-upstream", text).at(d.span));
        } else {
            lo.report(Diagnostic::warning("nginx::empty-upstream", text).at(d.span));
        }
    }
    let running = pool.endpoints.iter().any(|endpoint| endpoint.resolve.is_some());
    if running && pool.resolver.is_none() {
        pool.resolver = resolver.cloned();
    }
    if let (Some(timeout), Some(resolver)) = (parts.resolver_timeout, &mut pool.resolver) {
        (resolver.timeout, resolver.again) = (timeout, timeout);
    }
    if running && !pool.shared {
        let text =
            format!("names of `{name}` are resolved while running, so its endpoints need shared memory");
        let found = Diagnostic::error("nginx::no-zone", text).at(d.span);
        lo.report(found.help(format!("write `zone {name} 64k;` in the upstream")));
    }
    if running && pool.resolver.is_none() {
        let text = format!("no resolver is defined to resolve names of `{name}` while running");
        let found = Diagnostic::error("nginx::no-resolver", text).at(d.span);
        lo.report(found.help("write `resolver ADDRESS;` in the upstream or around it"));
    }
    lo.model.pools.push(pool);
}

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
