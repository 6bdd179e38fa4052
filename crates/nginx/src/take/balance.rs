//! Words that choose an endpoint.

use weir_diag::Diagnostic;
use weir_model::Balance;
use weir_model::settings::Ties;

use super::{Lowering, PoolParts};
use crate::tree::Directive;

fn choose(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive, balance: Balance) {
    if let Some(first) = parts.balance_span.replace(d.span) {
        lo.report(
            Diagnostic::warning(
                "nginx::balance-twice",
                "the way of balancing is chosen twice; the last one holds",
            )
            .at(d.span)
            .also(first, "first here"),
        );
    }
    parts.pool.balance = balance;
}

pub(crate) fn least_conn(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    choose(lo, parts, d, Balance::LeastConnections(Ties::Turns));
}

pub(crate) fn ip_hash(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    choose(lo, parts, d, Balance::IpHash);
}

/// `hash key [consistent]`.
pub(crate) fn hash(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let consistent = d.args.len() == 2;
    if consistent && d.arg(1) != "consistent" {
        return lo.bad_value(d, 1, "`consistent`");
    }
    let key = lo.template(&d.args[0]);
    choose(lo, parts, d, Balance::Hash { key, consistent });
}

/// `random [two [method]]`.
pub(crate) fn random(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let two = match d.args.first().map(|word| word.text.as_str()) {
        None => false,
        Some("two") => true,
        Some(_) => return lo.bad_value(d, 0, "`two`"),
    };
    match d.arg(1) {
        "" | "least_conn" => choose(lo, parts, d, Balance::Random { two }),
        method if method.starts_with("least_time") => {
            let text = "balancing by response time is not supported yet";
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.arg_span(1)));
        }
        _ => lo.bad_value(d, 1, "`least_conn`"),
    }
}
