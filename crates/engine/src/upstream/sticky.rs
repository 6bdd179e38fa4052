//! Keeping clients at their endpoint by a cookie, or by what a request says.
//!
//! Owns: reading the cookie before a choice, making it after the answer.
//! Driven by: `upstream::picker`, `action::proxy`.

use std::cell::RefCell;

use weir_control::EndpointKey;
use weir_http::HeaderId;
use weir_plan::{Endpoint, Pool, StickyMode};

use super::picker::Picked;
use crate::eval::text;
use crate::exchange::Exchange;
use crate::exchange::seen::{Seen, is_dated};
use crate::worker::Installed;
use crate::worker::endpoints::WorkerPool;

/// The endpoint that the client's cookie names. Endpoints do not see what is not theirs: of an inserted cookie that
/// stays between the client and here, nothing; of their own cookie with a prefix, what they set.
pub(crate) fn wanted(
    exchange: &mut Exchange,
    pool: &Pool,
    members: &RefCell<WorkerPool>,
) -> Option<EndpointKey> {
    let sticky = pool.sticky.as_ref()?;
    let name = sticky.cookie.as_bytes();
    exchange.persistence = *b"NN";
    let routed;
    let value = match sticky.mode {
        StickyMode::Route => {
            let mut said = sticky.route.iter().map(|template| text(exchange, template));
            routed = said.find(|value| !value.is_empty())?;
            &routed
        }
        _ => exchange.request.fields.cookie(name)?,
    };
    let own = match sticky.mode {
        // `value~original`
        StickyMode::Prefix => value.split(|&b| b == b'~').next()?,
        // `value|last visit|first visit`
        StickyMode::Insert if is_dated(sticky) => {
            let seen = Seen::read(value);
            let own = value.split(|&b| b == b'|').next()?;
            match seen.judge(sticky, weir_rt::unix_now().as_secs()) {
                None => {
                    exchange.cookie_seen = Some(seen);
                    own
                }
                Some(letter) => {
                    exchange.persistence[0] = letter;
                    if sticky.indirect {
                        change(exchange, name, |_| None);
                    }
                    return None;
                }
            }
        }
        StickyMode::Insert | StickyMode::Rewrite | StickyMode::Passive | StickyMode::Route => value,
    };
    let named =
        |endpoint: &Endpoint| endpoint.cookie.as_deref().is_some_and(|cookie| cookie.as_bytes() == own);
    let found = members
        .borrow()
        .members()
        .iter()
        .map(|member| member.endpoint())
        .find(|one| named(one))
        .map(|one| one.key);
    exchange.persistence[0] = if found.is_some() { b'V' } else { b'I' };
    match sticky.mode {
        StickyMode::Insert if sticky.indirect => change(exchange, name, |_| None),
        StickyMode::Prefix => change(exchange, name, |value| {
            let at = value.iter().position(|&b| b == b'~').map_or(0, |at| at + 1);
            Some(value[at..].to_vec())
        }),
        StickyMode::Insert | StickyMode::Rewrite | StickyMode::Passive | StickyMode::Route => {}
    }
    found
}

/// Changes the request's cookie of a name, or takes it away.
fn change(exchange: &mut Exchange, name: &[u8], to: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let fields = &mut exchange.request.fields;
    fields.rewrite(HeaderId::Cookie, |line| {
        let mut kept = Vec::new();
        let mut changed = false;
        for pair in line.split(|&b| b == b';').map(<[u8]>::trim_ascii) {
            let at = pair.iter().position(|&b| b == b'=').unwrap_or(pair.len());
            if at == pair.len() || !pair[..at].eq_ignore_ascii_case(name) {
                kept.push(pair.to_vec());
                continue;
            }
            changed = true;
            kept.extend(to(&pair[at + 1..]).map(|value| [&pair[..=at], &value].concat()));
        }
        changed.then(|| kept.join(&b"; "[..]))
    });
    fields.retain(|field| field.id != HeaderId::Cookie || !field.value.is_empty());
}

/// Makes the cookie for the endpoint that answered.
pub(crate) fn set(exchange: &mut Exchange, installed: &Installed, picked: &Picked) {
    let Some((pool, member)) = &picked.member else { return };
    let pool = installed.plan.pool(*pool);
    let (Some(sticky), Some(value)) = (&pool.sticky, &member.endpoint().cookie) else { return };
    match sticky.mode {
        StickyMode::Route | StickyMode::Passive => {}
        StickyMode::Insert if sticky.preserve && sets_own(exchange, &sticky.cookie) => {
            exchange.persistence[1] = b'P';
        }
        StickyMode::Insert => {
            if sticky.indirect && forget_own(exchange, &sticky.cookie) {
                exchange.persistence[1] = b'D';
            }
            let unfit = sticky.post_only && exchange.request.method != weir_http::Method::Post;
            let now = weir_rt::unix_now().as_secs();
            let seen = exchange.cookie_seen.unwrap_or_default();
            let renewed = picked.settled && seen.is_to_be_renewed(sticky, now);
            if (picked.settled && !renewed) || unfit {
                return;
            }
            let dates = if is_dated(sticky) { seen.renewed(sticky, now) } else { String::new() };
            let line = format!("{}={value}{dates}{}", sticky.cookie, sticky.attributes);
            exchange.response.fields.push_id(HeaderId::SetCookie, line.as_bytes());
            exchange.persistence[1] = if renewed { b'U' } else { b'I' };
            if sticky.no_cache && may_be_cached(exchange) {
                exchange.response.fields.push_id(HeaderId::CacheControl, b"private");
            }
        }
        StickyMode::Rewrite => {
            if rewrite(exchange, &sticky.cookie, |_| value.as_bytes().to_vec()) {
                exchange.persistence[1] = b'R';
            }
        }
        StickyMode::Prefix => {
            if rewrite(exchange, &sticky.cookie, |own| [value.as_bytes(), b"~", own].concat()) {
                exchange.persistence[1] = b'R';
            }
        }
    }
}

/// Whether the answer sets a cookie of that name by itself.
fn sets_own(exchange: &Exchange, name: &str) -> bool {
    exchange.response.fields.all(HeaderId::SetCookie).any(|line| set_cookie_name(line) == name.as_bytes())
}

/// Takes the endpoint's own cookie of that name out of the answer; true if there was one.
fn forget_own(exchange: &mut Exchange, name: &str) -> bool {
    let mut found = false;
    exchange.response.fields.retain(|field| {
        let own = field.id == HeaderId::SetCookie && set_cookie_name(field.value) == name.as_bytes();
        found |= own;
        !own
    });
    found
}

fn set_cookie_name(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|&b| b == b'=' || b == b';').unwrap_or(line.len());
    line[..end].trim_ascii()
}

/// Whether a shared cache could take the answer for its own: it says how fresh it is or how to ask again, and forbids
/// nothing (RFC 9111, 3).
fn may_be_cached(exchange: &Exchange) -> bool {
    let fields = &exchange.response.fields;
    let forbidden = |value: &[u8]| {
        let text = value.to_ascii_lowercase();
        [&b"no-store"[..], b"no-cache", b"private", b"max-age=0"]
            .iter()
            .any(|word| memchr::memmem::find(&text, word).is_some())
    };
    let hints = [HeaderId::CacheControl, HeaderId::Expires, HeaderId::ETag, HeaderId::LastModified];
    hints.iter().any(|&id| fields.has(id)) && !fields.all(HeaderId::CacheControl).any(forbidden)
}

/// Changes the value of the endpoint's own cookie of that name.
fn rewrite(exchange: &mut Exchange, name: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> bool {
    let mut changed = false;
    exchange.response.fields.rewrite(HeaderId::SetCookie, |line| {
        let end = line.iter().position(|&b| b == b';').unwrap_or(line.len());
        let equals = line[..end].iter().position(|&b| b == b'=')?;
        if !line[..equals].trim_ascii().eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        changed = true;
        Some([&line[..=equals], &change(&line[equals + 1..end]), &line[end..]].concat())
    });
    changed
}
