//! Words that choose an endpoint.

use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model::Balance;
use weir_model::settings::{Measured, Ties, Times};

use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

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

/// `weir_maglev KEY`.
pub(crate) fn maglev(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let key = lo.template(&d.args[0]);
    choose(lo, parts, d, Balance::Maglev { key });
}

/// `weir_peak_ewma [decay=TIME]`.
pub(crate) fn peak_ewma(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let decay = match d.args.first() {
        None => Some(Duration::from_secs(10)),
        Some(word) => word.text.strip_prefix("decay=").and_then(value::time).filter(|time| !time.is_zero()),
    };
    match decay {
        Some(decay) => choose(lo, parts, d, Balance::PeakEwma { decay }),
        None => lo.bad_value(d, 0, "`decay=` with a time such as `10s`"),
    }
}

/// `least_time header | last_byte [inflight]`; of `stream`, `connect | first_byte | last_byte [inflight]`.
pub(crate) fn least_time(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let Some(of) = measured(lo.dialect, d.arg(0)) else {
        let words = match lo.dialect {
            Dialect::Http => "`header` or `last_byte`",
            Dialect::Stream => "`connect`, `first_byte` or `last_byte`",
        };
        return lo.bad_value(d, 0, words);
    };
    let in_flight = d.args.len() == 2;
    if in_flight && d.arg(1) != "inflight" {
        return lo.bad_value(d, 1, "`inflight`");
    }
    choose(lo, parts, d, Balance::LeastTime(Times { of, in_flight }));
}

fn measured(dialect: Dialect, word: &str) -> Option<Measured> {
    match (dialect, word) {
        (Dialect::Http, "header") | (Dialect::Stream, "first_byte") => Some(Measured::First),
        (Dialect::Stream, "connect") => Some(Measured::Connect),
        (_, "last_byte") => Some(Measured::Last),
        _ => None,
    }
}

/// `random [two [method]]`.
pub(crate) fn random(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let two = match d.args.first().map(|word| word.text.as_str()) {
        None => false,
        Some("two") => true,
        Some(_) => return lo.bad_value(d, 0, "`two`"),
    };
    let times = match d.arg(1) {
        "" | "least_conn" => None,
        method => match method.strip_prefix("least_time=").and_then(|word| measured(lo.dialect, word)) {
            Some(of) => Some(Times { of, in_flight: false }),
            None => return lo.bad_value(d, 1, "`least_conn` or `least_time=` with what is measured"),
        },
    };
    choose(lo, parts, d, Balance::Random { two, times });
}
