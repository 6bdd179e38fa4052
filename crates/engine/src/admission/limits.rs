//! Limits of rates and of concurrency, before access.
//!
//! Owns: asking the zones, the words for logs.
//! Never: waits; it gives the time to wait.
//! Driven by: the walk's hooks.

use std::time::Duration;

use weir_expr::settings::LogLevel;
use weir_plan::{CountedKind, LimitConn};
use weir_policy::limit::{RateLimit, RateVerdict};

use crate::eval::text;
use crate::exchange::errors;
use crate::exchange::{Ending, Exchange, Phase, Session, Traffic};
use crate::worker::Installed;
use crate::worker::zones::Limited;

/// Checks the current route's limits of rates. The time to wait, if any.
///
/// # Errors
/// The status to refuse with.
pub(crate) fn rates(exchange: &mut Exchange, installed: &Installed) -> Result<Option<Duration>, u16> {
    // Counted once a request, however often it is redirected inside.
    if exchange.limit_req_status.is_some() {
        return Ok(None);
    }
    let limits = &*installed.plan.route(exchange.route).settings.limit_req;
    let keys: Vec<Vec<u8>> =
        limits.iter().map(|limit| text(exchange, &installed.plan.req_zone(limit.zone).key)).collect();
    let asked: Vec<RateLimit<'_>> = limits
        .iter()
        .zip(&keys)
        .map(|(limit, key)| RateLimit {
            zone: &installed.prepared.rates[limit.zone.at()],
            rule: limit.rule,
            key,
        })
        .collect();
    let verdict = RateVerdict::of(&asked, exchange.worker.millis());
    if installed.plan.counts_details {
        count_rates(exchange, installed, &verdict);
    }
    match verdict {
        // An empty key is not limited, and says nothing.
        RateVerdict::Pass if keys.iter().all(Vec::is_empty) => {}
        RateVerdict::Pass => exchange.limit_req_status = Some("PASSED"),
        RateVerdict::Delay { wait, limit, excess } => {
            let rule = &limits[limit];
            let zone = &installed.plan.req_zone(rule.zone).name;
            let dry = if rule.dry_run { ", dry run" } else { "" };
            let words = format!(
                "delaying request{dry}, excess: {}.{:03}, by zone \"{zone}\"",
                excess / 1000,
                excess % 1000
            );
            errors::at(exchange, lower(rule.log_level), &words);
            exchange.limit_req_status = Some(if rule.dry_run { "DELAYED_DRY_RUN" } else { "DELAYED" });
            if !rule.dry_run {
                return Ok(Some(wait));
            }
        }
        RateVerdict::Reject(refusal) => {
            let rule = &limits[refusal.limit];
            let zone = &installed.plan.req_zone(rule.zone).name;
            let (dry, excess) = (if rule.dry_run { ", dry run" } else { "" }, refusal.excess);
            let words = format!(
                "limiting requests{dry}, excess: {}.{:03} by zone \"{zone}\"",
                excess / 1000,
                excess % 1000
            );
            errors::at(exchange, rule.log_level, &words);
            exchange.limit_req_status = Some(if rule.dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" });
            if !rule.dry_run {
                exchange.ending = Ending::Proxy(Phase::Request);
                return Err(rule.status);
            }
        }
    }
    Ok(None)
}

/// Counts what limits of rates did: those that a refusal came before have done nothing.
fn count_rates(exchange: &Exchange, installed: &Installed, verdict: &RateVerdict) {
    let limits = &installed.plan.route(exchange.route).settings.limit_req;
    for (at, limit) in limits.iter().enumerate() {
        let outcome = match verdict {
            RateVerdict::Delay { limit: by, .. } if *by == at && limit.dry_run => Limited::DelayedDryRun,
            RateVerdict::Delay { limit: by, .. } if *by == at => Limited::Delayed,
            RateVerdict::Reject(refusal) if refusal.limit == at && limit.dry_run => Limited::RejectedDryRun,
            RateVerdict::Reject(refusal) if refusal.limit == at => Limited::Rejected,
            RateVerdict::Reject(refusal) if !limits[refusal.limit].dry_run => continue,
            _ => Limited::Passed,
        };
        let name = &installed.plan.req_zone(limit.zone).name;
        exchange.worker.counters.limited(CountedKind::Rates.id(name), outcome);
    }
}

/// Checks the current route's limits of concurrency.
///
/// # Errors
/// The status to refuse with.
pub(crate) fn connections(exchange: &mut Exchange, installed: &Installed) -> Result<(), u16> {
    if exchange.limit_conn_status.is_some() {
        return Ok(());
    }
    let limits = &installed.plan.route(exchange.route).settings.limit_conn;
    concurrency(exchange, installed, limits)
}

fn concurrency(exchange: &mut impl Traffic, installed: &Installed, limits: &[LimitConn]) -> Result<(), u16> {
    exchange.limit_conn_status = Some("PASSED");
    for limit in limits {
        let zone = installed.plan.conn_zone(limit.zone);
        let key = text(exchange, &zone.key);
        let entered = installed.prepared.conns[limit.zone.at()].enter(&key, limit.limit);
        if installed.plan.counts_details {
            let outcome = match &entered {
                Some(_) => Limited::Passed,
                None if limit.dry_run => Limited::RejectedDryRun,
                None => Limited::Rejected,
            };
            exchange.worker.counters.limited(CountedKind::Concurrency.id(&zone.name), outcome);
        }
        match entered {
            Some(guard) => exchange.guards.push(guard),
            None => {
                let dry = if limit.dry_run { ", dry run" } else { "" };
                let words = format!("limiting connections{dry} by zone \"{}\"", zone.name);
                errors::at(exchange, limit.log_level, &words);
                exchange.limit_conn_status =
                    Some(if limit.dry_run { "REJECTED_DRY_RUN" } else { "REJECTED" });
                if !limit.dry_run {
                    exchange.guards.clear();
                    exchange.ending = Ending::Proxy(Phase::Request);
                    return Err(limit.status);
                }
            }
        }
    }
    Ok(())
}

/// Limits of sessions of a TCP service. `Err`: the session's status.
pub(crate) fn sessions(
    session: &mut Session,
    installed: &Installed,
    limits: &[LimitConn],
) -> Result<(), u16> {
    concurrency(session, installed, limits).map_err(|_| 503)
}

/// One level less severe.
fn lower(level: LogLevel) -> LogLevel {
    match level {
        LogLevel::Debug | LogLevel::Info => LogLevel::Debug,
        LogLevel::Notice => LogLevel::Info,
        LogLevel::Warn => LogLevel::Notice,
        LogLevel::Error => LogLevel::Warn,
        LogLevel::Crit => LogLevel::Error,
        LogLevel::Alert => LogLevel::Crit,
        LogLevel::Emerg => LogLevel::Alert,
    }
}
