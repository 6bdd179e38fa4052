//! `sticky cookie`: clients keep their endpoint by a cookie (nginx since 1.29.6).

use weir_diag::Diagnostic;
use weir_model::Sticky;

use super::{Lowering, PoolParts};
use crate::tree::Directive;
use crate::value;

/// `sticky cookie name [expires=time] [domain=d] [httponly] [secure] [samesite=s] [path=p]`.
pub(crate) fn sticky(lo: &mut Lowering<'_>, parts: &mut PoolParts, d: &Directive) {
    if d.arg(0) != "cookie" || d.args.len() < 2 {
        let text = format!("`sticky {}` is not supported yet; `sticky cookie NAME` is", d.arg(0));
        return lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
    }
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

/// Gives every endpoint a value for its cookie that tells nothing of its address, and stays over reloads.
pub(crate) fn name_endpoints(parts: &mut PoolParts) {
    if parts.pool.sticky.is_none() {
        return;
    }
    for endpoint in &mut parts.pool.endpoints {
        endpoint.cookie = Some(format!("{:016x}", fnv(&endpoint.name)));
    }
}

/// FNV-1a, 64 bits: spreads names; no secret depends on it.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
