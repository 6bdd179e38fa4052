//! `upstream` blocks.
//!
//! Owns: the pool of a block, and what only the whole block can tell.
//! Driven by: `http`, `stream`.

use weir_diag::Diagnostic;
use weir_model::Resolver;

use crate::table::{Contexts, Taker};
use crate::take::sticky::name_endpoints;
use crate::take::target::pool;
use crate::take::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::variables::Dialect;

/// Lowers one block. `resolver`: that of the block around it.
pub(crate) fn build(lo: &mut Lowering<'_>, d: &Directive, resolver: Option<&Resolver>) {
    let name = d.arg(0);
    if lo.defined_pool(name).is_some() {
        let text = format!("the upstream `{name}` is defined twice");
        return lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
    }
    let unique = lo.register_pool(name);
    let mut parts = PoolParts {
        pool: pool(&unique, d.span),
        balance_span: None,
        resolver_timeout: None,
        written: name.to_owned(),
        state: None,
        sticky_key: None,
    };
    let context = if lo.dialect == Dialect::Http { Contexts::UPSTREAM } else { Contexts::STREAM_UPSTREAM };
    for word in lo.admit(d.children(), context) {
        if let Taker::Pool(f) = word.entry.taker {
            f(lo, &mut parts, word.directive);
        }
    }
    name_endpoints(lo, &mut parts);
    let mut pool = parts.pool;
    if let Some((path, span)) = parts.state {
        match &mut pool.group {
            Some(group) => group.state = Some(path),
            None => {
                let text = format!(
                    "`state` of `{name}` keeps what is changed while running, which needs shared memory"
                );
                let found = Diagnostic::error("nginx::no-zone", text).at(span);
                lo.report(found.help(format!("write `zone {name} 64k;` in the upstream")));
            }
        }
    }
    // Servers that are wrong were told by themselves.
    let written = d.children().iter().any(|word| word.name() == "server");
    // Endpoints may come while running.
    pool.may_be_empty = pool.group.is_some();
    let lacks = !(written || pool.may_be_empty) || !pool.endpoints.is_empty();
    if pool.endpoints.iter().all(|endpoint| endpoint.backup) && lacks {
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
    if (running || pool.group.is_some()) && pool.resolver.is_none() {
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
