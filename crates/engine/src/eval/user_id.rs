//! Cookies that tell clients apart, as nginx's userid module makes them.
//!
//! Owns: reading them, making numbers, `Set-Cookie` and `P3P`.
//! Driven by: `facts` for the variables, `respond::start` for each answer.
//! Why: a request decides once which number its client gets, whether a variable or the answer asks first. Numbers of
//! all workers come from one sequence, so no two of a process are alike; only new clients touch it.

use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use weir_expr::settings::{LogLevel, UserIdExpires, UserIdMode};
use weir_http::{HeaderId, HttpDate};
use weir_plan::{Template, UserIds};

use crate::exchange::{Exchange, GivenId, UserId, UserNumber, errors};

/// A number in base64, without what pads it; a mark may stand behind.
const SHOWN: usize = 22;

/// Where the sequence of the second form begins, and begins again.
const FIRST_OF_SECOND: u32 = 0x0303_0302;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

static FIRST: AtomicU32 = AtomicU32::new(1);
static SECOND: AtomicU32 = AtomicU32::new(FIRST_OF_SECOND);

/// When the process began to make numbers, and its id.
static STARTED: LazyLock<u32> =
    LazyLock::new(|| ((weir_rt::unix_now().subsec_micros() / 20) << 16) | std::process::id());

/// `$uid_got`: the number that the client came with.
pub(super) fn got(exchange: &Exchange) -> Option<Vec<u8>> {
    let ids = ids(exchange)?;
    let known = known(exchange, ids);
    is_number(&known.got).then(|| shown(ids, &known.got).into_bytes())
}

/// `$uid_set`: the number that the client gets.
pub(super) fn set(exchange: &Exchange, text: impl Fn(&Template) -> Vec<u8>) -> Option<Vec<u8>> {
    let ids = ids(exchange)?;
    given(exchange, ids, text).map(|given| shown(ids, &given.number).into_bytes())
}

/// Gives the client its cookie, if it is to get one with this answer.
pub(crate) fn set_cookie(exchange: &mut Exchange, text: impl Fn(&Exchange, &Template) -> Vec<u8>) {
    let installed = exchange.installed.clone();
    let facts = installed.plan.route(exchange.route).settings.facts.as_deref();
    let Some(ids) = facts.and_then(|facts| facts.user_ids.as_ref()) else { return };
    // Requests of our own are answered to nobody.
    if exchange.asked_for.is_some() {
        return;
    }
    let Some(given) = given(exchange, ids, |template| text(exchange, template)) else { return };
    let rules = &ids.rules;
    let mut line = format!("{}=", rules.name).into_bytes();
    if given.is_new {
        let mut value = bytes_in_base64(&given.number);
        if let Some(mark) = rules.mark {
            value[SHOWN] = mark;
        }
        line.extend_from_slice(&value);
    } else {
        let known = known(exchange, ids);
        line.extend_from_slice(&known.cookie[..SHOWN]);
        line.extend(rules.mark);
        line.push(b'=');
    }
    match rules.expires {
        UserIdExpires::Session => {}
        UserIdExpires::Latest => line.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
        UserIdExpires::After(seconds) => {
            line.extend_from_slice(b"; expires=");
            put_date(weir_rt::unix_now().as_secs().saturating_add(seconds), &mut line);
        }
    }
    line.extend_from_slice(rules.attributes.as_bytes());
    exchange.response.fields.push_id(HeaderId::SetCookie, &line);
    if !rules.p3p.is_empty() {
        exchange.response.fields.push(b"P3P", rules.p3p.as_bytes());
    }
}

fn ids(exchange: &Exchange) -> Option<&UserIds> {
    exchange.route_if_any()?.settings.facts.as_deref()?.user_ids.as_ref()
}

/// The client's cookie, read once.
fn known<'a>(exchange: &'a Exchange, ids: &UserIds) -> &'a UserId {
    exchange.user_id.get_or_init(|| {
        let value = exchange.request.fields.cookie(ids.rules.name.as_bytes());
        let got = value.and_then(|value| match read(value) {
            Ok(number) => Some(number),
            Err(why) => {
                let value = value.escape_ascii();
                errors::error(exchange, &format!("client sent {why} userid cookie \"{value}\""));
                None
            }
        });
        Rc::new(UserId {
            got: got.unwrap_or_default(),
            cookie: value.unwrap_or_default().into(),
            given: None.into(),
        })
    })
}

fn read(value: &[u8]) -> Result<UserNumber, &'static str> {
    // What follows may be a mark, and much that is found there is no padding of base64.
    let shown = value.get(..SHOWN).ok_or("too short")?;
    let end = shown.iter().position(|&byte| byte == b'=').unwrap_or(SHOWN);
    let decoded = BASE64.decode(&shown[..end]).map_err(|_| "invalid")?;
    let mut bytes = [0; 16];
    bytes[..decoded.len()].copy_from_slice(&decoded);
    Ok(std::array::from_fn(|n| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * n + byte]))))
}

/// The number that the client is to get, if it is to get one.
fn given(exchange: &Exchange, ids: &UserIds, text: impl Fn(&Template) -> Vec<u8>) -> Option<GivenId> {
    let rules = &ids.rules;
    if rules.mode == UserIdMode::Read {
        return None;
    }
    let known = known(exchange, ids);
    if let Some(given) = known.given.get() {
        return Some(given);
    }
    let reset = if is_number(&known.got) { text(&ids.reset) } else { Vec::new() };
    let given = if is_number(&known.got) && matches!(&reset[..], b"" | b"0") {
        let marked = |mark| known.cookie.get(SHOWN..SHOWN + 2) == Some(&[mark, b'=']);
        if rules.mark.is_none_or(marked) {
            return None;
        }
        GivenId { number: known.got, is_new: false }
    } else {
        if reset == b"log" {
            let shown = shown(ids, &known.got);
            errors::at(exchange, LogLevel::Notice, &format!("userid cookie \"{shown}\" was reset"));
        }
        GivenId { number: new(exchange, ids), is_new: true }
    };
    known.given.set(Some(given));
    Some(given)
}

fn new(exchange: &Exchange, ids: &UserIds) -> UserNumber {
    let now = weir_rt::unix_now().as_secs() as u32;
    let service = ids.rules.service;
    if ids.rules.mode == UserIdMode::First {
        let number = FIRST.fetch_add(0x100, Ordering::Relaxed);
        return [service.unwrap_or(0), now, *STARTED, number];
    }
    let next = |number: u32| number.wrapping_add(0x100).max(FIRST_OF_SECOND);
    let number = SECOND
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| Some(next(number)))
        .unwrap_or(FIRST_OF_SECOND);
    let by = service.map_or_else(|| address(exchange), u32::to_be);
    [by, now.to_be(), STARTED.to_be(), number.to_be()]
}

/// The end of the address that the client asked.
fn address(exchange: &Exchange) -> u32 {
    match exchange.client.destination().map(|(ip, _)| ip) {
        None => 0,
        Some(std::net::IpAddr::V4(ip)) => u32::from_ne_bytes(ip.octets()),
        Some(std::net::IpAddr::V6(ip)) => {
            let octets = ip.octets();
            u32::from_ne_bytes(std::array::from_fn(|n| octets[12 + n]))
        }
    }
}

/// nginx's test for one that is there: the last word of a number is never 0.
fn is_number(number: &UserNumber) -> bool {
    number[3] != 0
}

fn shown(ids: &UserIds, number: &UserNumber) -> String {
    let [a, b, c, d] = number;
    format!("{}={a:08X}{b:08X}{c:08X}{d:08X}", ids.rules.name)
}

fn bytes_in_base64(number: &UserNumber) -> Vec<u8> {
    let bytes: Vec<u8> = number.iter().flat_map(|word| word.to_ne_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes).into_bytes()
}

/// A date as cookies have it: years up to 2037 in two digits.
fn put_date(unix: u64, out: &mut Vec<u8>) {
    let date = HttpDate::from_unix(unix).imf();
    let year = if &date[12..16] <= b"2037".as_slice() { &date[14..16] } else { &date[12..16] };
    for part in [&date[..7], b"-", &date[8..11], b"-", year, &date[16..]] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_cookies_have_short_years_as_long_as_those_are_clear() {
        let told = |unix| {
            let mut out = Vec::new();
            put_date(unix, &mut out);
            String::from_utf8(out).unwrap_or_default()
        };
        assert_eq!(told(2_145_916_555), "Thu, 31-Dec-37 23:55:55 GMT");
        assert_eq!(told(2_145_916_800), "Fri, 01-Jan-2038 00:00:00 GMT");
    }
}
