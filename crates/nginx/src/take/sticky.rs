//! `sticky cookie`, `sticky route`, `sticky learn`: clients keep their endpoint (nginx since 1.29.6).

use std::time::Duration;

use weir_diag::Diagnostic;
use weir_expr::{StickData, StickKey, StickTableConfig, Stored};
use weir_model::{StickRule, StickTable, Stickiness, Sticky, StickyMode};

use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;

/// `sticky cookie …`, `sticky route $variable …` or `sticky learn …`.
pub(crate) fn sticky(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    match d.arg(0) {
        "cookie" if d.args.len() > 1 => cookie(lo, parts, d),
        "route" if d.args.len() > 1 => {
            let route = d.args[1..].iter().map(|word| lo.template(word)).collect();
            parts.pool.sticky = Some(Sticky { mode: StickyMode::Route, route, ..Sticky::by("") });
        }
        "learn" => learn(lo, parts, d),
        word => {
            let text = format!(
                "`sticky {word}` says nothing; write `sticky cookie NAME`, `sticky route $VARIABLE` or `sticky learn …`"
            );
            lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
        }
    }
}

/// Bytes of a zone that a session counts for: a megabyte holds about 4,000, as in nginx's documentation.
const OF_SESSION: u64 = 256;
/// Bytes of a session's name that count.
const NAME: u32 = 255;

/// `sticky learn create=$variable lookup=$variable zone=name:size [timeout=time] [header] [sync]`.
fn learn(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let (mut create, mut lookup, mut zone) = (Vec::new(), Vec::new(), None);
    let mut timeout = Duration::from_secs(600);
    for n in 1..d.args.len() {
        let word = &d.args[n];
        match word.text.split_once('=') {
            Some(("create", text)) if text.starts_with('$') => create.push(lo.template_of(text, word)),
            Some(("lookup", text)) if text.starts_with('$') => lookup.push(lo.template_of(text, word)),
            Some(("zone", text)) => match super::access::zone(text) {
                Some(found) => zone = Some(found),
                None => return lo.bad_value(d, n, "`zone=name:size` with at least 32k"),
            },
            Some(("timeout", text)) => match value::time(text) {
                Some(time) => timeout = time,
                None => return lo.bad_value(d, n, "`timeout=` with a time such as `10m`"),
            },
            // Sessions are learnt as soon as the head of a response is here. There are no other nodes to tell.
            None if matches!(&*word.text, "header" | "sync") => {}
            _ => {
                return lo.bad_value(
                    d,
                    n,
                    "`create=` or `lookup=` with a variable, `zone=`, `timeout=`, `header` or `sync`",
                );
            }
        }
    }
    let Some((name, size)) = zone.filter(|_| !create.is_empty() && !lookup.is_empty()) else {
        let text = "`sticky learn` needs `create=`, `lookup=` and `zone=`";
        return lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
    };
    let table = format!("sessions {name}");
    let config = StickTableConfig {
        key: StickKey::Text(NAME),
        size: (size / OF_SESSION).max(1),
        expire: Some(timeout),
        nopurge: false,
        store: vec![Stored { data: StickData::ServerId, period: Duration::ZERO }],
    };
    match lo.model.stick_tables.iter().find(|known| known.name == table) {
        Some(known) if known.config != config => {
            let text = format!("the zone `{name}` of `sticky learn` has another size or time elsewhere");
            return lo.report(Diagnostic::error("nginx::duplicate", text).at(d.span));
        }
        Some(_) => {}
        None => lo.model.stick_tables.push(StickTable { name: table.clone(), origin: Some(d.span), config }),
    }
    let rule = |key, matches| StickRule {
        table: table.clone(),
        key,
        condition: None,
        matches,
        stores: !matches,
        response: !matches,
    };
    let lookups = lookup.into_iter().map(|key| rule(key, true));
    let rules = lookups.chain(create.into_iter().map(|key| rule(key, false))).collect();
    parts.pool.stickiness = Some(Stickiness { rules, never: Vec::new(), by_name: true });
}

/// `sticky cookie name [expires=time] [domain=d] [httponly] [secure] [samesite=s] [path=p]`.
fn cookie(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    let mut sticky = Sticky::by(d.arg(1));
    for n in 2..d.args.len() {
        if !attribute(lo, d, n, &mut sticky) {
            return;
        }
    }
    parts.pool.sticky = Some(sticky);
}

fn attribute(lo: &mut Lowering<'_>, d: &Directive, n: usize, sticky: &mut Sticky) -> bool {
    let word = d.arg(n);
    match word.split_once('=') {
        None if word == "httponly" => sticky.http_only = true,
        None if word == "secure" => sticky.secure = true,
        Some(("domain", domain)) if !domain.contains('$') => sticky.domains.push(domain.to_owned()),
        Some(("path", path)) if !path.contains('$') => sticky.attributes.push(format!("Path={path}")),
        Some(("samesite", mode)) if is_same_site(mode) => {
            sticky.attributes.push(format!("SameSite={}{}", mode[..1].to_ascii_uppercase(), &mode[1..]));
        }
        Some(("expires", "max")) => sticky.attributes.push("Max-Age=315360000".to_owned()),
        Some(("expires", time)) => match value::seconds(time) {
            Some(seconds) => sticky.attributes.push(format!("Max-Age={seconds}")),
            None => {
                lo.bad_value(d, n, "`expires=` with a time such as `1h`, or `max`");
                return false;
            }
        },
        _ => {
            lo.bad_value(
                d,
                n,
                "one of `expires=`, `domain=`, `path=`, `samesite=`, `httponly`, `secure`, without variables",
            );
            return false;
        }
    }
    true
}

fn is_same_site(mode: &str) -> bool {
    ["strict", "lax", "none"].contains(&mode)
}

/// Gives every endpoint a value for its cookie that stays over reloads: its `route=`, if it has one. With a secret the values are
/// made by it where the addresses are known; without one, they are sums of names, which who knows a name can tell.
pub(crate) fn name_endpoints(lo: &mut Lowering<'_>, parts: &mut PoolParts) {
    let keyed = parts.sticky_key.take();
    let cookie = parts.pool.sticky.as_mut().filter(|sticky| sticky.mode != StickyMode::Route);
    let Some(sticky) = cookie else {
        if let Some((_, span)) = keyed {
            let title = "`weir_sticky_key` makes values of cookies, and nobody sets one here";
            lo.report(
                Diagnostic::error("nginx::arguments", title).at(span).help("write `sticky cookie NAME;` too"),
            );
        }
        return;
    };
    if let Some((key, _)) = keyed {
        sticky.key = Some(key);
        return;
    }
    // Those that come while running are named by their key.
    parts.pool.fresh.iter_mut().for_each(|fresh| fresh.cookie = Some(String::new()));
    for endpoint in &mut parts.pool.endpoints {
        let name = || format!("{:016x}", fnv(&endpoint.name));
        endpoint.cookie = Some(endpoint.cookie.take().unwrap_or_else(name));
    }
}

/// FNV-1a, 64 bits: spreads names; no secret depends on it.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
