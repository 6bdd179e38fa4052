//! Words of `upstream` blocks.

use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::settings::{Locality, Outliers, PoolGroup, RetryBudget, Spread};
use weir_model::{EndpointAddress, Queue, Resolving};

use super::args::count;
use super::target::{endpoint, endpoint_address, split_port};
use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `zone name [size]`: endpoints can be changed while running.
pub(crate) fn zone(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let bytes = match d.args.get(1).map(|word| value::size(&word.text)) {
        Some(None) => return lo.bad_value(d, 1, "a size such as `64k`"),
        size => size.flatten().unwrap_or(0),
    };
    parts.pool.shared = true;
    parts.pool.group = Some(PoolGroup {
        name: parts.written.clone(),
        zone: d.arg(0).to_owned(),
        bytes,
        tcp: lo.dialect == Dialect::Stream,
        state: None,
    });
    let anywhere = EndpointAddress::Unix(std::path::PathBuf::new());
    parts.pool.fresh = Some(Box::new(endpoint("", anywhere, d.span)));
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
            (Some((host, None)), Dialect::Stream)
                if d.args.iter().any(|word| word.text.starts_with("service=")) =>
            {
                endpoint_address(host, 0)
            }
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
    let service = d.args[1..].iter().find_map(|word| word.text.strip_prefix("service="));
    if let Some(service) = service
        && serves(lo, d, service, &mut new).is_none()
    {
        return;
    }
    parts.pool.endpoints.push(new);
}

/// `service=name`: the service records of a name made of both are asked for.
fn serves(lo: &mut Lowering<'_>, d: &Directive, service: &str, new: &mut weir_model::Endpoint) -> Option<()> {
    let mut refuse = |title: String| {
        lo.report(Diagnostic::error("nginx::bad-value", title).at(d.span));
    };
    let has_port = split_port(d.arg(0)).is_some_and(|(_, port)| port.is_some());
    let (EndpointAddress::Name { host, port, .. }, false) = (&mut new.address, has_port) else {
        refuse(format!(
            "with `service=` a server is a name without a port: the port of `{}` is the records'",
            d.arg(0)
        ));
        return None;
    };
    let Some(resolve) = &mut new.resolve else {
        refuse("`service=` needs `resolve` beside it".to_owned());
        return None;
    };
    // A name without a dot is one of RFC 2782, over TCP.
    let prefix = if service.contains('.') { service.to_owned() } else { format!("_{service}._tcp") };
    (*host, *port, resolve.services) = (format!("{prefix}.{host}"), 0, true);
    Some(())
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
        Some(("route", route)) if !route.is_empty() => {
            new.cookie = Some(route.to_owned());
            return Some(());
        }
        Some(("weir_zone", zone)) if !zone.is_empty() => {
            new.zone = Some(zone.to_owned());
            return Some(());
        }
        // It is taken up once all words are known.
        Some(("service", service)) if !service.is_empty() => return Some(()),
        None if word == "backup" => {
            new.backup = true;
            return Some(());
        }
        None if word == "down" => {
            new.down = true;
            return Some(());
        }
        None if word == "drain" => {
            // Only who is bound to it by `sticky` gets there.
            new.drain = true;
            return Some(());
        }
        None if word == "resolve" => {
            // An address needs nobody's help.
            if matches!(new.address, EndpointAddress::Name { .. }) {
                new.resolve = Some(Resolving { spread: Spread::Each, resolver: None, services: false });
            }
            return Some(());
        }
        _ => {
            "one of `weight=`, `max_conns=`, `max_fails=`, `fail_timeout=`, `slow_start=`, `route=`, `weir_zone=`, `service=`, `backup`, `down`, `drain`, `resolve`"
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

/// `queue number [timeout=time]`.
pub(crate) fn queue(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let Some(max) = value::number(d.arg(0)).and_then(|n| u32::try_from(n).ok()).filter(|&max| max > 0) else {
        return lo.bad_value(d, 0, "a number of requests");
    };
    let timeout = match d.args.len() {
        1 => Some(Duration::from_secs(60)),
        _ => d.arg(1).strip_prefix("timeout=").and_then(value::time),
    };
    let Some(timeout) = timeout else { return lo.bad_value(d, 1, "`timeout=` with a time such as `30s`") };
    // Who waits is called by whoever leaves, of all workers.
    parts.pool.shared = true;
    parts.pool.queue = Some(Queue { max: Some(max), timeout });
}

pub(crate) fn resolver(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    parts.pool.resolver = super::client::parse_resolver(lo, d);
}

/// `weir_outliers [failures=PERCENT] [slower=FACTOR] [interval=T] [ejection=T] [most=PERCENT] [requests=N]`: at least one of the first
/// two.
pub(crate) fn outliers(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let mut set = Outliers::default();
    for (at, word) in d.args.iter().enumerate() {
        let (key, text) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let positive = || value::time(text).filter(|time| !time.is_zero());
        let number =
            |least: u32| value::number(text).and_then(|n| u32::try_from(n).ok()).filter(|n| *n >= least);
        let known = match key {
            "failures" => {
                percent(text).filter(|share| *share < 100).map(|share| set.failures_percent = Some(share))
            }
            "slower" => number(2).map(|factor| set.slower = Some(factor)),
            "interval" => positive().map(|time| set.interval = time),
            "ejection" => positive().map(|time| set.ejection = time),
            "most" => percent(text).filter(|share| *share > 0).map(|share| set.most_percent = share),
            "requests" => number(1).map(|count| set.requests = count),
            _ => None,
        };
        if known.is_none() {
            lo.bad_value(
                d,
                at,
                "one of `failures=20%`, `slower=3` (times the middle one), `interval=10s`, `ejection=30s`, `most=33%`, `requests=20`",
            );
        }
    }
    if set.failures_percent.is_none() && set.slower.is_none() {
        let title = "`weir_outliers` needs a measure: `failures=` or `slower=`";
        lo.report(Diagnostic::error("nginx::bad-value", title).at(d.span));
    }
    parts.pool.outliers = Some(set);
}

/// `weir_panic_threshold PERCENT`.
pub(crate) fn panic_threshold(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    match percent(d.arg(0)) {
        Some(share) => parts.pool.panic_percent = share,
        None => lo.bad_value(d, 0, "a percentage such as `50%`"),
    }
}

/// `weir_hash_balance_factor PERCENT`: HAProxy's word and meaning, so 0, or more than 100.
pub(crate) fn load_percent(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    match value::number(d.arg(0)).and_then(|n| u16::try_from(n).ok()).filter(|n| *n == 0 || *n > 100) {
        Some(percent) => parts.pool.load_percent = percent,
        None => lo.bad_value(d, 0, "a percentage above 100, such as `150`, or `0`"),
    }
}

/// `weir_locality ZONE [least=PERCENT]`.
pub(crate) fn locality(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let least = match d.args.get(1) {
        None => Some(70),
        Some(word) => word.text.strip_prefix("least=").and_then(percent),
    };
    match least {
        Some(least_percent) => {
            parts.pool.locality = Some(Locality { zone: d.arg(0).to_owned(), least_percent });
        }
        None => lo.bad_value(d, 1, "`least=` with a percentage such as `70%`"),
    }
}

/// `weir_max_pending N`.
pub(crate) fn max_pending(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    match value::number(d.arg(0)).and_then(|n| u32::try_from(n).ok()).filter(|&most| most > 0) {
        Some(most) => parts.pool.max_pending = Some(most),
        None => lo.bad_value(d, 0, "a number of requests, at least 1"),
    }
}

/// `weir_retry_budget PERCENT [least=N]`.
pub(crate) fn retry_budget(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let mut set = RetryBudget { percent: 0, least: 10 };
    match percent(d.arg(0)) {
        Some(share) => set.percent = share,
        None => return lo.bad_value(d, 0, "a percentage such as `20%`"),
    }
    if let Some(word) = d.args.get(1) {
        match word.text.strip_prefix("least=").and_then(number) {
            Some(least) => set.least = least,
            None => return lo.bad_value(d, 1, "`least=` with retries a second, such as `least=10`"),
        }
    }
    parts.pool.retry_budget = Some(set);
}

fn number(text: &str) -> Option<u32> {
    value::number(text).and_then(|n| u32::try_from(n).ok())
}

/// `N%`, at most 100.
fn percent(text: &str) -> Option<u8> {
    text.strip_suffix('%')?.parse().ok().filter(|share| *share <= 100)
}
