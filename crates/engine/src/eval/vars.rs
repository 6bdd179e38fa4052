//! Values of variables.
//!
//! Owns: what each [`Var`] is, read from one exchange.
//! Never: keeps a value; tables and their cache are in `eval::tables`.
//! Driven by: templates, conditions, log lines.
//! Why: values are appended to the caller's buffer, so that a line of twenty variables allocates nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use weir_expr::{Count, Counted, Peeked, Slot, Timer, Var};
use weir_http::HeaderId;
use weir_plan::{Action, Filter, Piece, Template};

use crate::exchange::fields::FieldName;
use crate::exchange::{Attempt, Ending, Exchange};

/// The nginx whose language is read; `$nginx_version`.
pub const NGINX_LANGUAGE: &str = "1.31.0";

/// Appends the text of a template.
pub(crate) fn render(exchange: &Exchange, template: &Template, out: &mut Vec<u8>) {
    for piece in &template.pieces {
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Var(var, filters) => {
                let start = out.len();
                append(exchange, var, out);
                apply(filters, out, start);
            }
        }
    }
}

/// The text of a template.
pub(crate) fn text(exchange: &Exchange, template: &Template) -> Vec<u8> {
    let mut out = Vec::new();
    render(exchange, template, &mut out);
    out
}

/// Changes what stands behind `start` by filters.
pub(crate) fn apply(filters: &[Filter], out: &mut Vec<u8>, start: usize) {
    for filter in filters {
        match filter {
            Filter::Lower => out[start..].make_ascii_lowercase(),
            Filter::Upper => out[start..].make_ascii_uppercase(),
            Filter::DashIfEmpty => {
                if out.len() == start {
                    out.push(b'-');
                }
            }
            Filter::Quote => {
                out.insert(start, b'"');
                out.push(b'"');
            }
            Filter::UrlEncode => {
                let plain = out.split_off(start);
                weir_http::uri::escape(weir_http::uri::Escape::Component, &plain, out);
            }
            Filter::UrlDecode => {
                let coded = out.split_off(start);
                weir_http::uri::unescape(&coded, out);
            }
        }
    }
}

/// Appends the value of `var`; false if the exchange has none (logs show `-`).
pub(crate) fn append(exchange: &Exchange, var: &Var<Slot>, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let request = &exchange.request;
    match var {
        Var::Method => {
            out.extend_from_slice(exchange.asked_for.as_ref().unwrap_or(&request.method_text));
        }
        Var::Target => out.extend_from_slice(&request.target),
        Var::RawPath => out.extend_from_slice(&request.raw_path),
        Var::Path => out.extend_from_slice(&request.path),
        Var::Query => out.extend_from_slice(&request.query),
        Var::IsArgs => out.extend_from_slice(if request.query.is_empty() { b"" } else { b"?" }),
        Var::Arg(name) => return extend(out, request.arg(name.as_bytes())),
        Var::RequestLine => out.extend_from_slice(&request.line),
        Var::Protocol => out.extend_from_slice(request.version.as_str().as_bytes()),
        Var::Scheme => out.extend_from_slice(if exchange.client.tls.is_some() { b"https" } else { b"http" }),
        Var::HttpsOn => out.extend_from_slice(if exchange.client.tls.is_some() { b"on" } else { b"" }),
        Var::Host => out.extend_from_slice(exchange.host()),
        Var::HostPort => return number(out, request.port.map(u64::from)),
        Var::IsRequestPort => out.extend_from_slice(if request.port.is_some() { b":" } else { b"" }),
        Var::Header(name) => return header(exchange, FieldName::new(name.as_bytes()), out),
        Var::HeaderUnderscored(name) => return header_underscored(exchange, name.as_bytes(), out),
        Var::HeaderNth(name, nth) => {
            return extend(out, nth_value(request.fields.all(FieldName::new(name.as_bytes())), *nth));
        }
        Var::Trailer(name) => {
            return extend(out, exchange.request_trailers.first(FieldName::new(name.as_bytes())));
        }
        Var::Cookie(name) => return extend(out, cookie(exchange, name.as_bytes())),
        Var::ContentLength => {
            // A chunked body announces no length; buffered whole it has one, and FastCGI servers depend on it.
            let announced = request.fields.first(HeaderId::ContentLength);
            let buffered =
                (announced.is_none() && exchange.body.buffered() > 0).then(|| exchange.body.buffered());
            return extend(out, announced) || number(out, buffered);
        }
        Var::ContentType => return extend(out, request.fields.first(HeaderId::ContentType)),
        Var::RequestBody => return extend(out, exchange.body.in_memory()),
        Var::RequestBodyFile => {
            return extend(out, exchange.body.file_path().map(|path| path.as_os_str().as_encoded_bytes()));
        }
        Var::RequestLength => return number(out, Some(request.bytes + exchange.body.received())),
        Var::RequestTime => seconds(out, exchange.elapsed()),
        Var::RequestId => request_id(exchange, out),
        Var::RequestCompletion => out.extend_from_slice(if exchange.response.complete { b"OK" } else { b"" }),

        Var::ClientAddr => return address(out, exchange.client_source().map(|(ip, _)| ip), exchange),
        Var::ClientAddrBinary => match exchange.client_source() {
            Some((IpAddr::V4(ip), _)) => out.extend_from_slice(&ip.octets()),
            Some((IpAddr::V6(ip), _)) => out.extend_from_slice(&ip.octets()),
            None => out.extend_from_slice(b"unix:"),
        },
        // An address from a header has no port: nginx shows nothing then.
        Var::ClientPort => {
            let port = exchange.client_source().map(|(_, port)| u64::from(port));
            return number(out, port.filter(|&port| port > 0)) || port.is_some();
        }
        Var::PeerAddr => return address(out, exchange.client.source().map(|(ip, _)| ip), exchange),
        Var::PeerPort => return number(out, exchange.client.source().map(|(_, port)| u64::from(port))),
        Var::ProxyProtocolAddr => {
            return exchange.client.proxied.as_ref().is_some_and(|proxied| display(out, proxied.source.ip()));
        }
        Var::ProxyProtocolPort => {
            return number(
                out,
                exchange.client.proxied.as_ref().map(|proxied| u64::from(proxied.source.port())),
            );
        }
        Var::ProxyProtocolServerAddr => {
            return exchange
                .client
                .proxied
                .as_ref()
                .is_some_and(|proxied| display(out, proxied.destination.ip()));
        }
        Var::ProxyProtocolServerPort => {
            return number(
                out,
                exchange.client.proxied.as_ref().map(|proxied| u64::from(proxied.destination.port())),
            );
        }
        Var::ServerAddr => return address(out, exchange.client.destination().map(|(ip, _)| ip), exchange),
        Var::ServerPort => {
            return number(out, exchange.client.destination().map(|(_, port)| u64::from(port)));
        }
        Var::ServerName => return extend(out, exchange.site_if_any().map(|site| site.name.as_bytes())),
        Var::ConnectionSerial => return number(out, Some(exchange.client.serial)),
        Var::ConnectionRequests => return number(out, Some(exchange.client.requests.get())),
        Var::ConnectionTime => {
            seconds(out, exchange.now().saturating_duration_since(exchange.client.accepted))
        }
        Var::Pipelined => out.extend_from_slice(if request.pipelined { b"p" } else { b"." }),

        Var::TlsProtocol
        | Var::TlsCipher
        | Var::TlsCurve
        | Var::TlsServerName
        | Var::TlsAlpn
        | Var::TlsResumed
        | Var::TlsSessionId
        | Var::TlsEarlyData
        | Var::TlsClientVerify
        | Var::TlsClientSubject
        | Var::TlsClientIssuer
        | Var::TlsClientSerial
        | Var::TlsClientFingerprint
        | Var::TlsClientCert
        | Var::TlsClientCertEscaped => {
            return exchange.client.tls.as_deref().is_some_and(|facts| super::tls::append(facts, var, out));
        }

        Var::DocumentRoot => exchange.append_root(out),
        Var::RealRoot => {
            let mut root = Vec::new();
            exchange.append_root(&mut root);
            return extend(out, crate::files::open::real_path(&root).as_deref());
        }
        Var::Filename => exchange.append_filename(out),
        Var::RemoteUser => return remote_user(exchange, out),
        Var::ProxyHost => return extend(out, exchange.proxy_host().as_ref().map(|(host, _)| &**host)),
        Var::ProxyPort => return number(out, exchange.proxy_host().map(|(_, port)| u64::from(port))),
        Var::ForwardedFor => {
            if request.fields.join(HeaderId::XForwardedFor, b", ", out) {
                out.extend_from_slice(b", ");
            }
            address(out, exchange.client_source().map(|(ip, _)| ip), exchange);
        }
        Var::FastcgiScriptName => super::cgi::append_script_name(exchange, out),
        Var::FastcgiPathInfo => super::cgi::append_path_info(exchange, out),
        Var::LimitReqStatus => return extend(out, exchange.limit_req_status.map(str::as_bytes)),
        Var::LimitConnStatus => return extend(out, exchange.limit_conn_status.map(str::as_bytes)),
        Var::SiteLabel => out.extend_from_slice(exchange.label().as_bytes()),
        Var::PoolName => return extend(out, exchange.pool_name().map(str::as_bytes)),
        Var::EndpointName => {
            return extend(out, exchange.response.attempts.last().map(|attempt| attempt.endpoint.as_bytes()));
        }

        Var::Status | Var::StatusCode => {
            // In an error page it is the status that led there.
            let status = match exchange.response.status {
                0 => exchange.status_override.unwrap_or(0),
                status => status,
            };
            if status == 0 {
                out.extend_from_slice(if *var == Var::Status { b"000" } else { b"-1" });
            } else {
                let _ = write!(out, "{status:03}");
            }
        }
        Var::BytesSent => return number(out, Some(exchange.response.bytes_sent)),
        Var::BodyBytesSent => return number(out, Some(exchange.response.body_bytes_sent)),
        Var::BytesReceived => return number(out, Some(request.bytes + exchange.body.received())),
        Var::SentHeader(name) => {
            return exchange.response.fields.join(FieldName::new(name.as_bytes()), b", ", out);
        }
        Var::SentTrailer(name) => {
            return exchange.response.upstream_trailers.join(FieldName::new(name.as_bytes()), b", ", out);
        }
        Var::ResponseHeaderNth(name, nth) => {
            let values = exchange.response.fields.all(FieldName::new(name.as_bytes()));
            return extend(out, nth_value(values, *nth));
        }
        Var::GzipRatio => match exchange.response.uncompressed {
            Some(plain) if exchange.response.body_bytes_sent > 0 => {
                let ratio = plain as f64 / exchange.response.body_bytes_sent as f64;
                let _ = write!(out, "{ratio:.2}");
            }
            _ => return false,
        },
        Var::UpstreamAddr => {
            attempts(exchange, out, |attempt, out| out.extend_from_slice(attempt.address.as_bytes()))
        }
        Var::UpstreamStatus => attempts(exchange, out, |attempt, out| match attempt.status {
            0 => out.push(b'-'),
            status => drop(write!(out, "{status}")),
        }),
        Var::UpstreamConnectTime => {
            attempts(exchange, out, |attempt, out| optional_seconds(out, attempt.connect))
        }
        Var::UpstreamHeaderTime | Var::UpstreamFirstByteTime => {
            attempts(exchange, out, |attempt, out| optional_seconds(out, attempt.header));
        }
        Var::UpstreamResponseTime | Var::UpstreamSessionTime => {
            attempts(exchange, out, |attempt, out| optional_seconds(out, attempt.response));
        }
        Var::UpstreamResponseLength => {
            attempts(exchange, out, |attempt, out| drop(write!(out, "{}", attempt.length)))
        }
        Var::UpstreamBytesSent => {
            attempts(exchange, out, |attempt, out| drop(write!(out, "{}", attempt.sent)))
        }
        Var::UpstreamBytesReceived => {
            attempts(exchange, out, |attempt, out| drop(write!(out, "{}", attempt.received)));
        }
        Var::UpstreamHeader(name) => {
            return exchange.response.upstream_fields.join(FieldName::new(name.as_bytes()), b", ", out);
        }
        Var::UpstreamTrailer(name) => {
            return exchange.response.upstream_trailers.join(FieldName::new(name.as_bytes()), b", ", out);
        }
        Var::UpstreamCookie(name) => return extend(out, upstream_cookie(exchange, name.as_bytes())),
        Var::UpstreamCacheStatus => return false,
        Var::TerminationState => out.extend_from_slice(exchange.ending.letters().as_bytes()),
        Var::Peeked(what) => return peeked(exchange, *what, out),
        Var::PersistenceState => out.extend_from_slice(&exchange.persistence),
        Var::HeaderLine(name, nth) => {
            let lines = || request.fields.all(FieldName::new(name.as_bytes()));
            let at = match nth {
                0 => None,
                1.. => Some(*nth as usize - 1),
                _ => lines().count().checked_sub(usize::from(nth.unsigned_abs())),
            };
            return extend(out, at.and_then(|at| lines().nth(at)));
        }
        Var::HeaderCount(name, counted) => {
            let lines = request.fields.all(FieldName::new(name.as_bytes()));
            let count: usize = match counted {
                Counted::Values => lines.map(|line| line.split(|&b| b == b',').count()).sum(),
                Counted::Lines => lines.count(),
            };
            return number(out, Some(count as u64));
        }
        Var::PoolCount(name, count) => {
            return number(out, Some(exchange.named_pool_count(name, *count)));
        }
        Var::Timer(timer) => {
            let millis = time_of(exchange, *timer).map_or(-1, |time| time.as_millis() as i64);
            let _ = write!(out, "{millis}");
        }
        Var::Count(count) => {
            if *count == Count::Retries && was_redispatched(exchange) {
                out.push(b'+');
            }
            return number(out, Some(count_of(exchange, *count)));
        }

        Var::SessionTime => seconds(out, exchange.now().saturating_duration_since(exchange.client.accepted)),
        Var::TransportProtocol => out.extend_from_slice(b"TCP"),
        Var::SessionStatus => return number(out, Some(u64::from(exchange.response.status))),

        Var::TimeLocal => exchange.worker.time_local(out),
        Var::TimeIso8601 => exchange.worker.time_iso8601(out),
        Var::TimeSeconds => {
            let now = weir_rt::unix_now();
            let _ = write!(out, "{}.{:03}", now.as_secs(), now.subsec_millis());
        }
        Var::AcceptDate => exchange.worker.haproxy_date(exchange.client.accepted_unix(), out),
        Var::RequestDate => exchange.worker.haproxy_date(exchange.started_unix, out),
        Var::Hostname => out.extend_from_slice(exchange.worker.hostname().as_bytes()),
        Var::Pid => return number(out, Some(u64::from(std::process::id()))),
        Var::NginxVersion => out.extend_from_slice(NGINX_LANGUAGE.as_bytes()),
        Var::Capture(group) => return extend(out, exchange.captures.group(usize::from(*group))),
        Var::CapturedRequestHeader(slot) => {
            return extend(
                out,
                exchange.captured.request.get(usize::from(*slot)).and_then(|value| value.as_deref()),
            );
        }
        Var::CapturedResponseHeader(slot) => {
            return extend(
                out,
                exchange.captured.response.get(usize::from(*slot)).and_then(|value| value.as_deref()),
            );
        }
        Var::User(slot) => return super::tables::append_user(exchange, *slot, out),
    }
    out.len() > before
}

/// What a session's first bytes say; nothing where they were not read ahead.
fn peeked(exchange: &Exchange, what: Peeked, out: &mut Vec<u8>) -> bool {
    let Some(peeked) = &exchange.peeked else { return false };
    let hello = peeked.hello.as_ref();
    match what {
        Peeked::ServerName => {
            extend(out, hello.map(|hello| &*hello.server_name).filter(|name| !name.is_empty()))
        }
        Peeked::Alpn => extend(out, hello.map(|hello| &*hello.alpn).filter(|name| !name.is_empty())),
        Peeked::HelloType => number(out, hello.map(|_| 1)),
        Peeked::Length => number(out, Some(peeked.length as u64)),
    }
}

/// The user that authenticated; else the one that the request names, unchecked, as nginx shows it.
fn remote_user(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    if exchange.user.is_some() {
        return extend(out, exchange.user.as_deref());
    }
    let named = exchange.request.fields.first(HeaderId::Authorization).and_then(weir_http::auth::basic);
    extend(out, named.as_ref().map(|named| &*named.user))
}

fn extend(out: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    value.inspect(|value| out.extend_from_slice(value)).is_some()
}

fn number(out: &mut Vec<u8>, value: Option<u64>) -> bool {
    let Some(value) = value else { return false };
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    true
}

fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) -> bool {
    write!(out, "{value}").is_ok()
}

/// An address; connections through unix sockets show `unix:` as nginx does.
fn address(out: &mut Vec<u8>, ip: Option<IpAddr>, exchange: &Exchange) -> bool {
    match ip {
        Some(ip) => display(out, ip),
        None if exchange.client.peer.inet().is_none() => extend(out, Some(b"unix:")),
        None => false,
    }
}

/// Seconds with three decimals.
pub(crate) fn seconds(out: &mut Vec<u8>, time: Duration) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(time.as_secs()).as_bytes());
    let millis = time.subsec_millis();
    out.push(b'.');
    for digit in [millis / 100, millis / 10 % 10, millis % 10] {
        out.push(b'0' + digit as u8);
    }
}

fn optional_seconds(out: &mut Vec<u8>, time: Option<Duration>) {
    match time {
        Some(time) => seconds(out, time),
        None => out.push(b'-'),
    }
}

/// One value an attempt: `, ` between attempts, ` : ` where an internal redirect lies between.
fn attempts(exchange: &Exchange, out: &mut Vec<u8>, mut one: impl FnMut(&Attempt, &mut Vec<u8>)) {
    for (at, attempt) in exchange.response.attempts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(if attempt.new_group { b" : " } else { b", " });
        }
        one(attempt, out);
    }
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

/// Value of a request cookie; the first of its name.
pub(crate) fn cookie<'a>(exchange: &'a Exchange, name: &[u8]) -> Option<&'a [u8]> {
    exchange.request.fields.all(HeaderId::Cookie).flat_map(|line| line.split(|&b| b == b';')).find_map(
        |pair| {
            let pair = pair.trim_ascii();
            let at = pair.iter().position(|&b| b == b'=')?;
            pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
        },
    )
}

fn upstream_cookie<'a>(exchange: &'a Exchange, name: &[u8]) -> Option<&'a [u8]> {
    exchange.response.upstream_fields.all(HeaderId::SetCookie).find_map(|line| {
        let pair = line.split(|&b| b == b';').next()?.trim_ascii();
        let at = pair.iter().position(|&b| b == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}

fn request_id(exchange: &Exchange, out: &mut Vec<u8>) {
    let mut text = String::with_capacity(32);
    let _ = write!(text, "{:032x}", exchange.id());
    out.extend_from_slice(text.as_bytes());
}

fn time_of(exchange: &Exchange, timer: Timer) -> Option<Duration> {
    let times = &exchange.times;
    let handshake = exchange.client.handshake();
    match timer {
        Timer::Handshake => {
            Some(if exchange.client.requests.get() <= 1 { handshake } else { Duration::ZERO })
        }
        Timer::Idle => Some(times.idle),
        Timer::Request => times.head,
        Timer::Query => {
            times.head.map(|head| head + times.idle + time_of(exchange, Timer::Handshake).unwrap_or_default())
        }
        // HAProxy's statistics page runs inside it, at once.
        Timer::Queue | Timer::Connect | Timer::Response if is_stats(exchange) => Some(Duration::ZERO),
        // What found an endpoint without waiting waited for no time.
        Timer::Queue => times.queued.or((!exchange.response.attempts.is_empty()).then_some(Duration::ZERO)),
        Timer::Connect => exchange.response.attempts.last().and_then(|attempt| attempt.connect),
        Timer::Response => exchange
            .response
            .attempts
            .last()
            .and_then(|attempt| Some(attempt.header?.saturating_sub(attempt.connect.unwrap_or_default()))),
        Timer::Data => exchange
            .response
            .attempts
            .last()
            .and_then(|attempt| Some(attempt.response?.saturating_sub(attempt.header?))),
        Timer::Active => Some(exchange.elapsed()),
        Timer::Total => Some(exchange.elapsed() + times.idle),
        Timer::User => Some(exchange.elapsed()),
    }
}

fn is_stats(exchange: &Exchange) -> bool {
    exchange.ending == Ending::Local
        && exchange.route_if_any().is_some_and(|route| matches!(route.action, Action::Stats(_)))
}

fn count_of(exchange: &Exchange, count: Count) -> u64 {
    match count {
        Count::Retries => exchange.response.attempts.len().saturating_sub(1) as u64,
        Count::Process => exchange.worker.shared.connections(),
        Count::Site => {
            exchange.worker.counters.listener_connections(&exchange.worker.shared, exchange.client.listener)
        }
        Count::Pool => exchange.pool_in_flight(),
        Count::Endpoint => exchange.endpoint_in_flight(),
        Count::PoolQueue => waited_at(exchange, false),
        Count::EndpointQueue => waited_at(exchange, true),
        Count::UsableEndpoints => exchange.usable_endpoints(),
    }
}

fn waited_at(exchange: &Exchange, for_one: bool) -> u64 {
    if exchange.times.queued_for_one == for_one { u64::from(exchange.times.queue_position) } else { 0 }
}

/// Whether a retry went to another endpoint; HAProxy marks such counts.
fn was_redispatched(exchange: &Exchange) -> bool {
    exchange.response.attempts.windows(2).any(|pair| pair[0].endpoint != pair[1].endpoint)
}
