//! Keeping clients at their endpoint by a cookie.
//!
//! Owns: reading the cookie before a choice, making it after the answer.
//! Driven by: `upstream::picker`, `action::proxy`.

use weir_http::HeaderId;
use weir_plan::{Endpoint, Pool, StickyMode};

use crate::eval::vars::cookie;
use crate::exchange::Exchange;
use crate::upstream::Picked;
use crate::worker::Installed;

/// The endpoint that the client's cookie names.
pub(crate) fn wanted(exchange: &Exchange, pool: &Pool) -> Option<usize> {
    let sticky = pool.sticky.as_ref()?;
    let value = cookie(exchange, sticky.cookie.as_bytes())?;
    let value = match sticky.mode {
        // `value~original`
        StickyMode::Prefix => value.split(|&b| b == b'~').next()?,
        StickyMode::Insert | StickyMode::Rewrite => value,
    };
    pool.endpoints
        .iter()
        .position(|endpoint| endpoint.cookie.as_deref().is_some_and(|own| own.as_bytes() == value))
}

/// Makes the cookie for the endpoint that answered.
pub(crate) fn set(exchange: &mut Exchange, installed: &Installed, picked: &Picked, endpoint: &Endpoint) {
    let Some((pool, _)) = picked.place else { return };
    let pool = installed.plan.pool(pool);
    let (Some(sticky), Some(value)) = (&pool.sticky, &endpoint.cookie) else { return };
    match sticky.mode {
        StickyMode::Insert => {
            let had = cookie(exchange, sticky.cookie.as_bytes()).is_some_and(|had| had == value.as_bytes());
            let unfit = sticky.post_only && exchange.request.method != weir_http::Method::Post;
            if had || unfit {
                return;
            }
            if sticky.attributes.is_empty() {
                let line = format!("{}={value}; path=/", sticky.cookie);
                exchange.response.fields.push_id(HeaderId::SetCookie, line.as_bytes());
            }
            if !sticky.attributes.is_empty() {
                let line = format!("{}={value}{}", sticky.cookie, sticky.attributes);
                exchange.response.fields.push_id(HeaderId::SetCookie, line.as_bytes());
            }
            if sticky.no_cache {
                exchange.response.fields.push_id(HeaderId::CacheControl, b"private");
            }
        }
        StickyMode::Rewrite => rewrite(exchange, &sticky.cookie, |_| value.as_bytes().to_vec()),
        StickyMode::Prefix => {
            rewrite(exchange, &sticky.cookie, |own| [value.as_bytes(), b"~", own].concat());
        }
    }
}

/// Changes the value of the endpoint's own cookie of that name.
fn rewrite(exchange: &mut Exchange, name: &str, change: impl Fn(&[u8]) -> Vec<u8>) {
    exchange.response.fields.rewrite(HeaderId::SetCookie, |line| {
        let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
        let equals = line[..end].iter().position(|&b| b == b'=')?;
        if !line[..equals].trim_ascii().eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        Some([&line[..=equals], &change(&line[equals + 1..end]), &line[end..]].concat())
    });
}
