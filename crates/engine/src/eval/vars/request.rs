//! Variables about a request, and about where it leads.

use weir_expr::{Counted, PlaceVar, RequestVar};
use weir_http::{HeaderId, Version};

use super::client::append_address;
use super::message;
use super::write::{extend, number, text_of};
use crate::eval::cgi;
use crate::exchange::Exchange;
use crate::exchange::fields::FieldName;

/// Appends the value of a variable about the request; false if there is none.
pub(super) fn append(exchange: &Exchange, var: RequestVar<'_>, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    match var {
        RequestVar::Method => {
            let asked_for = exchange.asked_for.as_ref();
            text_of(out, asked_for.map_or(&request.method_text, |asked| &asked.method))
        }
        RequestVar::Target => text_of(out, &request.target),
        RequestVar::RawPath => text_of(out, &request.raw_path),
        RequestVar::Path => text_of(out, &request.path),
        RequestVar::Query => text_of(out, &request.query),
        RequestVar::IsArgs => text_of(out, if request.query.is_empty() { b"" } else { b"?" }),
        RequestVar::Arg(name) => extend(out, request.arg(name.as_bytes())),
        RequestVar::RequestLine => append_line(exchange, out),
        RequestVar::Protocol => text_of(out, request.version.as_str().as_bytes()),
        RequestVar::Http2 => {
            let name: &[u8] = if exchange.client.tls.is_some() { b"h2" } else { b"h2c" };
            extend(out, (request.version == Version::Http2).then_some(name))
        }
        RequestVar::Http3 => extend(out, (request.version == Version::Http3).then_some(&b"h3"[..])),
        RequestVar::Host => text_of(out, exchange.host()),
        RequestVar::HostPort => number(out, request.port.map(u64::from)),
        RequestVar::IsRequestPort => text_of(out, if request.port.is_some() { b":" } else { b"" }),
        RequestVar::Header(name) => header(exchange, FieldName::new(name.as_bytes()), out),
        RequestVar::HeaderUnderscored(name) => header_underscored(exchange, name.as_bytes(), out),
        RequestVar::HeaderNth(name, nth) => extend(out, nth_value(lines(exchange, name), *nth)),
        RequestVar::HeaderLine(name, nth) => extend(out, nth_line(lines(exchange, name), *nth)),
        RequestVar::HeaderCount(name, counted) => {
            let lines = lines(exchange, name);
            number(out, Some(count(lines, *counted)))
        }
        RequestVar::Trailer(name) => {
            extend(out, exchange.request_trailers.first(FieldName::new(name.as_bytes())))
        }
        RequestVar::Cookie(name) => extend(out, exchange.request.fields.cookie(name.as_bytes())),
        RequestVar::ContentLength => {
            // A chunked body announces no length; buffered whole it has one, and FastCGI servers depend on it.
            let announced = request.fields.first(HeaderId::ContentLength);
            let buffered =
                (announced.is_none() && exchange.body.buffered() > 0).then(|| exchange.body.buffered());
            extend(out, announced) || number(out, buffered)
        }
        RequestVar::ContentType => extend(out, request.fields.first(HeaderId::ContentType)),
        RequestVar::CurrentTimeout(of) => {
            number(out, exchange.timeout_of(*of).map(|time| time.as_millis() as u64))
        }
        RequestVar::RequestBody => extend(out, exchange.body.in_memory()),
        RequestVar::RequestBodyFile => {
            extend(out, exchange.body.file_path().map(|path| path.as_os_str().as_encoded_bytes()))
        }
        RequestVar::RequestCompletion => text_of(out, if exchange.response.complete { b"OK" } else { b"" }),
        RequestVar::Pipelined => text_of(out, if request.pipelined { b"p" } else { b"." }),
        RequestVar::RemoteUser => remote_user(exchange, out),
        RequestVar::ForwardedFor => {
            if request.fields.join(HeaderId::XForwardedFor, b", ", out) {
                out.extend_from_slice(b", ");
            }
            append_address(exchange, out);
            true
        }
        RequestVar::CapturedRequestHeader(slot) => {
            let kept = exchange.captured.request.get(usize::from(*slot));
            extend(out, kept.and_then(Option::as_deref))
        }
        RequestVar::RequestPart(part) => message::request_part(exchange, part, out),
        RequestVar::ArgAfter(name, delimiter) => {
            extend(out, message::argument(&request.target, name.as_bytes(), *delimiter))
        }
        RequestVar::BodyArg(name) => {
            let body = exchange.body.in_memory();
            extend(out, body.and_then(|body| message::pair(body, name.as_bytes())))
        }
        RequestVar::CookieCount(name) => number(
            out,
            Some(message::cookies(exchange).filter(|one| name.is_empty() || *one == name.as_bytes()).count()
                as u64),
        ),
        RequestVar::Authorization(part) => message::authorization(exchange, part, out),
        RequestVar::LimitRate => {
            let rate = exchange.limit_rate.or(exchange.route().settings.limit_rate);
            number(out, Some(rate.unwrap_or_default()))
        }
        RequestVar::LimitReqStatus => extend(out, exchange.limit_req_status.map(str::as_bytes)),
    }
}

/// Appends the value of a variable about where a request leads; false if there is none.
pub(super) fn append_place(exchange: &Exchange, var: PlaceVar, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    match var {
        PlaceVar::ServerName => {
            return extend(out, exchange.site_if_any().map(|site| site.name.as_bytes()));
        }
        PlaceVar::DocumentRoot => exchange.append_root(out),
        PlaceVar::RealRoot => {
            let mut root = Vec::new();
            exchange.append_root(&mut root);
            return extend(out, crate::files::open::real_path(&root).as_deref());
        }
        PlaceVar::Filename => exchange.append_filename(out),
        PlaceVar::ProxyHost => return extend(out, exchange.proxy_host_text().as_deref()),
        PlaceVar::ProxyPort => return number(out, exchange.proxy_host().map(|(_, port)| u64::from(port))),
        PlaceVar::FastcgiScriptName => cgi::append_script_name(exchange, out),
        PlaceVar::FastcgiPathInfo => cgi::append_path_info(exchange, out),
        PlaceVar::SliceRange => {
            if let Some(slice) = exchange.ask_for_slice() {
                let _ =
                    std::io::Write::write_fmt(out, format_args!("bytes={}-{}", slice.start, slice.end - 1));
            }
        }
    }
    out.len() > before
}

/// Appends the request line as received.
pub(super) fn append_line(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    text_of(out, &exchange.request.line)
}

/// The user that authenticated; else the one that the request names, unchecked, as nginx shows it.
pub(super) fn remote_user(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    if exchange.user.is_some() {
        return extend(out, exchange.user.as_deref());
    }
    let named = exchange.request.fields.first(HeaderId::Authorization).and_then(weir_http::auth::basic);
    extend(out, named.as_ref().map(|named| &*named.user))
}

/// The lines of a field.
fn lines<'e>(exchange: &'e Exchange, name: &'e str) -> impl Iterator<Item = &'e [u8]> + Clone {
    exchange.request.fields.all(FieldName::new(name.as_bytes()))
}

fn header(exchange: &Exchange, name: FieldName<'_>, out: &mut Vec<u8>) -> bool {
    let separator: &[u8] = if name.is_cookie() { b"; " } else { b", " };
    exchange.request.fields.join(name, separator, out)
}

/// nginx spells a field's name in variables in lower case with `_` for `-`.
fn header_underscored(exchange: &Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let same = |field: &[u8]| {
        field.len() == name.len()
            && field
                .iter()
                .zip(name)
                .all(|(&a, &b)| (if a == b'-' { b'_' } else { a.to_ascii_lowercase() }) == b)
    };
    let mut found = false;
    for field in exchange.request.fields.iter().filter(|field| same(field.name)) {
        if found {
            out.extend_from_slice(if field.id == HeaderId::Cookie { b"; " } else { b", " });
        }
        out.extend_from_slice(field.value);
        found = true;
    }
    found
}

/// The n-th line; 1 is the first, -1 the last.
pub(super) fn nth_line<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone, nth: i16) -> Option<&'a [u8]> {
    let at = match nth {
        0 => None,
        1.. => Some(nth as usize - 1),
        _ => lines.clone().count().checked_sub(usize::from(nth.unsigned_abs())),
    };
    at.and_then(|at| lines.clone().nth(at))
}

/// How many lines there are, or values over all lines.
pub(super) fn count<'a>(lines: impl Iterator<Item = &'a [u8]>, counted: Counted) -> u64 {
    let count: usize = match counted {
        Counted::Values => lines.map(|line| line.split(|&b| b == b',').count()).sum(),
        Counted::Lines => lines.count(),
    };
    count as u64
}

/// The n-th comma-separated value over all lines; 1 is the first, -1 the last.
pub(crate) fn nth_value<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone, nth: i16) -> Option<&'a [u8]> {
    let values = || lines.clone().flat_map(|line| line.split(|&b| b == b',')).map(<[u8]>::trim_ascii);
    match nth {
        0 => None,
        1.. => values().nth(nth as usize - 1),
        _ => {
            let from_end = usize::from(nth.unsigned_abs());
            values().count().checked_sub(from_end).and_then(|at| values().nth(at))
        }
    }
}
