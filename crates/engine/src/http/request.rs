//! From a header list to an exchange's request.
//!
//! Owns: what HTTP/2 and HTTP/3 spell in their own way: the pseudo-fields, cookies in pieces, the length of a body.
//! Never: judges the list's form: [`weir_wire`] has (RFC 9113 §8).
//! Driven by: the carriers of both, for each stream that begins.

use weir_http::scan::is_token;
use weir_http::{Authority, HeadRules, HeaderId, Method, Version};
use weir_plan::HostIndex;
use weir_wire::h2::Head;

use crate::exchange::Exchange;
use crate::http::head::{self, Asked};

/// Fills in the request, and finds its site. `end`: there is no body. `Err`: the status to refuse it with.
pub(super) fn take(
    exchange: &mut Exchange,
    version: Version,
    list: &Head,
    end: bool,
    hosts: &HostIndex,
    (rules, differ): (&HeadRules, bool),
) -> Result<(), u16> {
    let request = &mut exchange.request;
    request.method = Method::of(list.method());
    request.method_text.extend_from_slice(list.method());
    request.version = version;
    let mut target = list.path().unwrap_or_default();
    if let Some(at) = memchr::memchr(b'#', target) {
        if !rules.mends {
            return Err(400);
        }
        target = &target[..at];
    }
    for part in [list.method(), b" ", target, b" ", version.as_str().as_bytes()] {
        request.line.extend_from_slice(part);
    }
    request.target.extend_from_slice(target);
    let mut parts = target.splitn(2, |&byte| byte == b'?');
    let path = parts.next().unwrap_or_default();
    request.query.extend_from_slice(parts.next().unwrap_or_default());
    request.content_length = if end { None } else { list.length() };
    request.chunked = !end && list.length().is_none();
    let (unknown_expectation, repeats_single) = fields(exchange, list, rules)?;
    let request = &mut exchange.request;
    if request.line.len() > rules.first_line {
        return Err(414);
    }
    // CONNECT names no path, and is refused for what it is.
    let authority = list.authority().unwrap_or_default();
    let Some(authority) = Authority::parse(authority) else { return Err(400) };
    request.set_host(&authority);
    head::settle(
        exchange,
        hosts,
        differ,
        &Asked { path, unknown_expectation, repeats_single, insecure: false },
    )
}

/// Takes the fields over: Host first, cookies in one line. Whether something is expected that nobody knows, and whether
/// one of [`head::SINGLE`] is there twice.
fn fields(exchange: &mut Exchange, list: &Head, rules: &HeadRules) -> Result<(bool, bool), u16> {
    let request = &mut exchange.request;
    let (mut count, mut unknown) = (0, false);
    let (mut seen, mut repeats) = (0, false);
    let mut cookies: Vec<u8> = Vec::new();
    if let Some(authority) = list.authority() {
        request.fields.push_known(HeaderId::Host, b"Host", authority);
    }
    request.bytes = request.line.len() as u64;
    for field in list.fields() {
        count += 1;
        request.bytes += (field.name.len() + field.value.len()) as u64 + 4;
        if count > rules.fields || field.name.len() + field.value.len() + 2 > rules.field_line {
            return Err(431);
        }
        let id = HeaderId::of(field.name);
        repeats |= seen & id.bit() & head::SINGLE != 0;
        seen |= id.bit();
        match id {
            // The list says the same as `:authority`; `te: trailers` is between neighbours.
            HeaderId::Host | HeaderId::Te => {}
            // RFC 9113 §8.2.3
            HeaderId::Cookie => {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(field.value);
            }
            HeaderId::Unknown if !is_token(field.name) => {
                if !rules.mends {
                    return Err(400);
                }
            }
            _ if !rules.keeps(field.name) => {}
            _ => {
                if id == HeaderId::Expect {
                    let known = field.value.eq_ignore_ascii_case(b"100-continue");
                    request.expects_continue |= known;
                    unknown |= !known;
                }
                request.fields.push_known(id, field.name, field.value);
            }
        }
    }
    if request.bytes > rules.head as u64 {
        return Err(431);
    }
    if !cookies.is_empty() {
        request.fields.push_known(HeaderId::Cookie, b"cookie", &cookies);
    }
    Ok((unknown, repeats))
}
