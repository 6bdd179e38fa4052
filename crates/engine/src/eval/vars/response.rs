//! Variables about the response to a request.

use std::io::Write as _;

use weir_expr::ResponseVar;
use weir_http::HeaderId;

use super::message;
use super::request::{count, nth_line, nth_value};
use super::write::{extend, number, three_digits};
use crate::eval::memory;
use crate::exchange::Exchange;
use crate::exchange::fields::FieldName;
use crate::exchange::page::TIME_FORMAT;

/// Appends a field that is about this hop, and among the fields of no response; false if there is none.
fn own_field(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let response = &exchange.response;
    let Some(keeps) = response.keeps else { return false };
    match name {
        "connection" if response.status == 101 => extend(out, Some(b"upgrade")),
        "connection" => extend(out, Some(if keeps { b"keep-alive" } else { b"close" })),
        "transfer-encoding" if response.chunked => extend(out, Some(b"chunked")),
        "keep-alive" if keeps => {
            let time = exchange.route().settings.client.keepalive_header;
            extend(out, time.map(|time| format!("timeout={}", time.as_secs()).into_bytes()).as_deref())
        }
        _ => false,
    }
}

/// Appends the value of a variable about the response; false if there is none.
pub(super) fn append(exchange: &Exchange, var: ResponseVar<'_>, out: &mut Vec<u8>) -> bool {
    let response = &exchange.response;
    let kept = |slot: &u16| exchange.captured.response.get(usize::from(*slot)).and_then(Option::as_deref);
    match var {
        ResponseVar::Status => append_status(exchange, out),
        ResponseVar::StatusCode => status(exchange, b"-1", out),
        ResponseVar::BodyBytesSent => append_body_bytes_sent(exchange, out),
        ResponseVar::SentHeader(name) => {
            own_field(exchange, name, out)
                || name == "content-length" && number(out, response.length)
                || response.fields.join(FieldName::new(name.as_bytes()), b", ", out)
        }
        ResponseVar::SentTrailer(name) | ResponseVar::UpstreamTrailer(name) => {
            response.upstream_trailers.join(FieldName::new(name.as_bytes()), b", ", out)
        }
        ResponseVar::ResponseHeaderNth(name, nth) => {
            extend(out, nth_value(response.fields.all(FieldName::new(name.as_bytes())), *nth))
        }
        ResponseVar::ResponseHeaderLine(name, nth) => {
            extend(out, nth_line(response.fields.all(FieldName::new(name.as_bytes())), *nth))
        }
        ResponseVar::ResponseHeaderCount(name, counted) => {
            number(out, Some(count(response.fields.all(FieldName::new(name.as_bytes())), *counted)))
        }
        ResponseVar::ResponsePart(part) => message::response_part(exchange, part, out),
        ResponseVar::SetCookieCount(name) => {
            let named =
                message::set_cookies(exchange).filter(|one| name.is_empty() || *one == name.as_bytes());
            number(out, Some(named.count() as u64))
        }
        ResponseVar::CompressedBy => {
            let coding = response.fields.first(HeaderId::ContentEncoding);
            extend(out, coding.filter(|_| response.uncompressed.is_some()))
        }
        ResponseVar::CompressionRatio(coding) => match response.uncompressed {
            Some(plain)
                if response.body_bytes_sent > 0
                    && response.fields.first(HeaderId::ContentEncoding) == Some(coding.name().as_bytes()) =>
            {
                write!(out, "{:.2}", plain as f64 / response.body_bytes_sent as f64).is_ok()
            }
            _ => false,
        },
        ResponseVar::UpstreamHeader(name) => {
            response.upstream_fields.join(FieldName::new(name.as_bytes()), b", ", out)
        }
        ResponseVar::UpstreamCookie(name) => extend(out, upstream_cookie(exchange, name.as_bytes())),
        ResponseVar::UpstreamCacheStatus => {
            let status = exchange.caching.as_ref().and_then(|caching| caching.status);
            extend(out, status.map(|status| status.as_str().as_bytes()))
        }
        ResponseVar::UpstreamCacheLastModified => extend(out, exchange.conditions()[1].1),
        ResponseVar::UpstreamCacheETag => extend(out, exchange.conditions()[0].1),
        ResponseVar::MemoryCacheHit => {
            out.push(if memory::is_found(exchange) { b'1' } else { b'0' });
            true
        }
        ResponseVar::MemoryCacheName => {
            let found = exchange.looked.as_ref().and_then(|looked| looked.found.as_ref());
            let cache = found.map(|(cache, _)| &exchange.installed.plan.memory_caches[cache.at()]);
            extend(out, cache.map(|cache| cache.name.as_bytes()))
        }
        ResponseVar::PageDateLocal => page_date(exchange, false, out),
        ResponseVar::PageDateGmt => page_date(exchange, true, out),
        ResponseVar::CapturedResponseHeader(slot) => extend(out, kept(slot)),
    }
}

/// Appends the time in the form that the page asks for.
fn page_date(exchange: &Exchange, gmt: bool, out: &mut Vec<u8>) -> bool {
    let form = exchange.page.as_ref().map_or(TIME_FORMAT, |page| &page.time_format);
    let written = std::str::from_utf8(form).ok().and_then(|form| exchange.worker.time_in_form(form, gmt));
    extend(out, written.as_deref().map(str::as_bytes))
}

/// Appends the status as nginx shows it.
pub(super) fn append_status(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    status(exchange, b"000", out)
}

/// Appends how many bytes of the body were sent.
pub(super) fn append_body_bytes_sent(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    number(out, Some(exchange.response.body_bytes_sent))
}

/// The status, in three digits. In an error page it is the one that led there.
fn status(exchange: &Exchange, none: &[u8], out: &mut Vec<u8>) -> bool {
    match exchange.response.status {
        0 => match exchange.status_override {
            None | Some(0) => extend(out, Some(none)),
            Some(status) => three_digits(out, status.into()),
        },
        status => three_digits(out, status.into()),
    }
}

fn upstream_cookie<'a>(exchange: &'a Exchange, name: &[u8]) -> Option<&'a [u8]> {
    exchange.response.upstream_fields.all(HeaderId::SetCookie).find_map(|line| {
        let pair = line.split(|&b| b == b';').next()?.trim_ascii();
        let at = pair.iter().position(|&b| b == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}
