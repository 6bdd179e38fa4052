//! What holds for the head of a request in every version of HTTP.
//!
//! Owns: how its exchange begins, which site a request is for, what of its head that site lets pass, what no site serves.
//! Never: reads a head: the version's own module has, and has filled in the request.
//! Driven by: [`super::connection`], [`super::h2`].

use std::rc::Rc;

use weir_http::{HeaderId, Method};
use weir_plan::{HostIndex, Listener, SiteIx};

use crate::exchange::errors;
use crate::exchange::{Client, Exchange};
use crate::worker::{Installed, Worker};

/// Begins an exchange, for the default site of a listener until [`settle`] knows better.
pub(super) fn begin(
    worker: &Rc<Worker>,
    installed: &Rc<Installed>,
    hosts: &HostIndex,
    client: &Rc<Client>,
) -> Box<Exchange> {
    let mut exchange = Exchange::take(worker, installed.clone(), client.clone());
    exchange.site = hosts.default_value();
    exchange.route = installed.plan.site(exchange.site).fallback;
    exchange
}

/// Fields that a request has once, where [`weir_expr::settings::Conduct::single_fields`] asks for that. Others of that kind
/// are judged by all (Host, Content-Length), or their first line is taken.
pub(super) const SINGLE: u128 = HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit()
    | HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::IfRange.bit()
    | HeaderId::ContentRange.bit()
    | HeaderId::Expect.bit()
    | HeaderId::Authorization.bit();

/// What a head says that the request does not keep.
pub(super) struct Asked<'a> {
    /// The path as received.
    pub(super) path: &'a [u8],
    /// Something is expected that nobody knows.
    pub(super) unknown_expectation: bool,
    /// One of [`SINGLE`] has several lines.
    pub(super) repeats_single: bool,
    /// `https` is asked for over a connection that is not secured (RFC 9110 §7.4).
    pub(super) insecure: bool,
}

/// Finds the site of a request whose fields are known, and sets its path. `Err`: the status to refuse it with.
pub(super) fn settle(
    exchange: &mut Exchange,
    hosts: &HostIndex,
    heads_differ: bool,
    asked: &Asked<'_>,
) -> Result<(), u16> {
    let default = exchange.site;
    find_site(exchange, hosts)?;
    if heads_differ {
        apply_head_rules(exchange, default)?;
    }
    let method = exchange.request.method;
    // What TRACE would show (cookies, credentials, fields that this proxy adds) is nothing for scripts.
    let traced = method == Method::Trace && !exchange.site().client.forward_trace;
    if method == Method::Connect || traced {
        return Err(405);
    }
    let conduct = &exchange.site().conduct;
    if asked.repeats_single && conduct.single_fields
        || method == Method::Other && conduct.capital_methods && !is_capital(&exchange.request.method_text)
    {
        return Err(400);
    }
    if asked.unknown_expectation && !exchange.site().conduct.any_expectation {
        return Err(417);
    }
    if asked.insecure {
        return Err(421);
    }
    // Paths are read before the site is known: as in nginx the default site says how.
    let client = &exchange.installed.plan.site(default).client;
    let (reading, merge_slashes) = (client.paths, client.merge_slashes);
    exchange.set_raw_path(asked.path, reading, merge_slashes).map_err(|error| error.status())
}

/// Whether a method is made of what nginx takes for one.
fn is_capital(method: &[u8]) -> bool {
    method.iter().all(|&byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'))
}

/// Applies the rules for heads where sites of a listener have different ones: to fields before Host those of the
/// default site, to the others those of the request's own, as in nginx. `Err`: the status to refuse with.
fn apply_head_rules(exchange: &mut Exchange, default: SiteIx) -> Result<(), u16> {
    let installed = exchange.installed.clone();
    let before = &installed.plan.site(default).heads;
    let after = &installed.plan.site(exchange.site).heads;
    let line = exchange.request.line.len() as u64;
    let together = usize::try_from(exchange.request.bytes.saturating_sub(line)).unwrap_or(usize::MAX);
    let fields = &mut exchange.request.fields;
    let too_long = |field: crate::exchange::fields::Field<'_>| {
        field.name.len() + field.value.len() + 4 > after.field_line
    };
    if together > after.head || fields.iter().count() > after.fields || fields.iter().any(too_long) {
        return Err(431);
    }
    let mut rules = before;
    fields.retain(|field| {
        let keep = rules.keeps(field.name);
        if field.id == HeaderId::Host {
            rules = after;
        }
        keep
    });
    Ok(())
}

/// Finds the site by the host. `Err`: the status to refuse with, where a pattern gave up.
fn find_site(exchange: &mut Exchange, hosts: &weir_plan::HostIndex) -> Result<(), u16> {
    if hosts.is_trivial() {
        return Ok(());
    }
    let host = std::mem::take(&mut exchange.request.host);
    let found = hosts.lookup(&host);
    if let Ok(weir_plan::NameFound { matched: Some((pattern, captures)), .. }) = &found {
        crate::eval::keep_match(exchange, pattern, captures, &host);
    }
    exchange.request.host = host;
    let site: SiteIx = found.map(|found| found.value).map_err(|why| {
        errors::undecided(exchange, &why);
        500_u16
    })?;
    exchange.site = site;
    exchange.route = exchange.installed.plan.site(site).fallback;
    Ok(())
}

/// What the list of a head's fields may measure where it is no text: 32 bytes for each field beside its name and value
/// (RFC 9113 §6.5.2, RFC 9114 §4.2.2). The fields themselves are measured again by the request.
pub(super) fn most_of_list(listener: &Listener) -> usize {
    let text = listener.heads.head.saturating_add(listener.heads.first_line);
    text.saturating_add(32 * 100).min(1 << 20)
}
