//! `sticky cookie`, `sticky route`: clients keep their endpoint (nginx since 1.29.6).

use weir_diag::Diagnostic;
use weir_model::{Sticky, StickyMode};

use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;

/// `sticky cookie …` or `sticky route $variable …`.
pub(crate) fn sticky(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    match d.arg(0) {
        "cookie" if d.args.len() > 1 => cookie(lo, parts, d),
        "route" if d.args.len() > 1 => {
            let route = d.args[1..].iter().map(|word| lo.template(word)).collect();
            parts.pool.sticky = Some(Sticky { mode: StickyMode::Route, route, ..Sticky::by("") });
        }
        word => {
            let text = format!(
                "`sticky {word}` is not supported yet; `sticky cookie NAME` and `sticky route $VARIABLE` are"
            );
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
        }
    }
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

/// Gives every endpoint a value for its cookie that tells nothing of its address, and stays over reloads: its `route=`, if
/// it has one.
pub(crate) fn name_endpoints(parts: &mut PoolParts) {
    if parts.pool.sticky.as_ref().is_none_or(|sticky| sticky.mode == StickyMode::Route) {
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
