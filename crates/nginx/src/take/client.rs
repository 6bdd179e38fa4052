//! Words about client connections.

use std::sync::Arc;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model::Resolver;
use weir_model::settings::BodyFiles;

use super::args::{limit, on};
use super::{Lowering, Scope};
use crate::tree::Directive;
use crate::value;

/// `large_client_header_buffers number size`.
pub(crate) fn large_header_buffers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let (Some(number), Some(size)) = (value::number(d.arg(0)), value::size(d.arg(1))) else {
        return lo.bad_value(d, 1, "a number and a size, such as `4 8k`");
    };
    let client = Arc::make_mut(&mut s.client);
    client.max_request_line = size;
    client.max_header_line = size;
    client.max_headers = size.saturating_mul(number.max(1));
}

/// `keepalive_timeout time [header]`.
pub(crate) fn keepalive_timeout(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let Some(timeout) = value::time(d.arg(0)) else { return lo.bad_value(d, 0, "a time such as `65s`") };
    let header = match d.args.get(1).map(|word| value::time(&word.text)) {
        Some(None) => return lo.bad_value(d, 1, "a time such as `60s`"),
        Some(header) => header,
        None => None,
    };
    let client = Arc::make_mut(&mut s.client);
    client.keepalive_timeout = limit(timeout);
    client.keepalive_header = header.and_then(limit);
}

/// `keepalive_disable none | browser …`.
pub(crate) fn keepalive_disable(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let (mut msie, mut safari) = (false, false);
    for n in 0..d.args.len() {
        match d.arg(n) {
            "none" => (msie, safari) = (false, false),
            "msie6" => msie = true,
            "safari" => safari = true,
            _ => return lo.bad_value(d, n, "`none`, `msie6` or `safari`"),
        }
    }
    let browsers = &mut Arc::make_mut(&mut s.client).old_browsers;
    (browsers.msie_posts_close, browsers.safari_closes) = (msie, safari);
}

/// `client_body_in_file_only on | clean | off`.
pub(crate) fn body_in_file(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.body).files = match d.arg(0) {
        "on" => BodyFiles::Kept,
        "clean" => BodyFiles::Named,
        _ => BodyFiles::WhereNeeded,
    };
}

/// `lingering_close on|off|always`.
pub(crate) fn lingering_close(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if d.arg(0) == "off" {
        Arc::make_mut(&mut s.client).lingering_time = Duration::ZERO;
    }
}

/// `limit_rate rate`, a number or a variable.
pub(crate) fn limit_rate(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if d.arg(0).contains('$') {
        s.limit_rate_template = Some(lo.template(&d.args[0]));
        s.limit_rate = None;
        return;
    }
    let Some(rate) = value::offset(d.arg(0)) else { return lo.bad_value(d, 0, "a size such as `100k`") };
    s.limit_rate = Some(rate).filter(|&rate| rate > 0);
    s.limit_rate_template = None;
}

/// `limit_rate_after size`.
pub(crate) fn limit_rate_after(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::offset(d.arg(0)) {
        Some(bytes) => s.limit_rate_after = bytes,
        None if d.arg(0).contains('$') => {
            let text = "`limit_rate_after` made of variables is not supported yet";
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
        }
        None => lo.bad_value(d, 0, "a size such as `500k`"),
    }
}

/// `server_tokens on|off|build|string`.
pub(crate) fn server_tokens(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let header = match d.arg(0) {
        "on" | "build" => concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned(),
        "off" => "weir".to_owned(),
        text if text.contains('$') => {
            let text = "`server_tokens` made of variables is not supported yet";
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
            return;
        }
        text => text.to_owned(),
    };
    Arc::make_mut(&mut s.site).server_header = Some(header).filter(|text| !text.is_empty());
}

/// `http2 on`.
pub(crate) fn http2(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.site).http2 = on(d);
}

/// `http2_max_concurrent_streams number`.
pub(crate) fn http2_streams(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::number(d.arg(0)).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0) {
        Some(most) => Arc::make_mut(&mut s.client).http2_streams = most,
        None => lo.bad_value(d, 0, "a number of streams, at least 1"),
    }
}

/// `http3 on`.
pub(crate) fn http3(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.site).http3 = on(d);
}

/// `http3_max_concurrent_streams number`.
pub(crate) fn http3_streams(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::number(d.arg(0)).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0) {
        Some(most) => Arc::make_mut(&mut s.site).quic.streams = most,
        None => lo.bad_value(d, 0, "a number of streams, at least 1"),
    }
}

/// `http3_stream_buffer_size size`.
pub(crate) fn http3_stream_buffer(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    match value::size(d.arg(0)).filter(|bytes| (4096..=16 << 20).contains(bytes)) {
        Some(bytes) => Arc::make_mut(&mut s.site).quic.stream_buffer = bytes,
        None => lo.bad_value(d, 0, "a size from `4k` to `16m`"),
    }
}

/// `quic_retry on`.
pub(crate) fn quic_retry(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.site).quic.retry = on(d);
}

/// `quic_gso on`.
pub(crate) fn quic_gso(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    Arc::make_mut(&mut s.site).quic.segments = on(d);
}

/// `resolver address … [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]`.
pub(crate) fn resolver(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.parts().resolver = parse_resolver(lo, d);
}

/// The same words wherever they stand; `None` if they are wrong, which was told.
pub(crate) fn parse_resolver(lo: &mut Lowering<'_>, d: &Directive) -> Option<Resolver> {
    let timeout = Duration::from_secs(30);
    let (servers, named_servers) = (Vec::new(), Vec::new());
    let mut out = Resolver {
        servers,
        named_servers,
        valid: None,
        timeout,
        attempts: 3,
        again: timeout,
        holds: None,
        ipv4: true,
        ipv6: true,
        zone: None,
    };
    if d.arg(0) == "off" && d.args.len() == 1 {
        return None;
    }
    for (n, word) in d.args.iter().enumerate() {
        match word.text.split_once('=') {
            Some(("valid", time)) => match value::time(time) {
                Some(time) => out.valid = Some(time),
                None => lo.bad_value(d, n, "`valid=` with a time such as `30s`"),
            },
            Some((family @ ("ipv4" | "ipv6"), flag)) => match value::flag(flag) {
                Some(on) if family == "ipv4" => out.ipv4 = on,
                Some(on) => out.ipv6 = on,
                None => lo.bad_value(d, n, "`on` or `off` after `=`"),
            },
            Some(("status_zone", name)) if !name.is_empty() => out.zone = Some(name.to_owned()),
            Some(_) => lo.bad_value(d, n, "an address or `valid=`, `ipv4=`, `ipv6=`, `status_zone=`"),
            None => name_server(lo, d, n, &mut out),
        }
    }
    Some(out)
}

fn name_server(lo: &mut Lowering<'_>, d: &Directive, n: usize, out: &mut Resolver) {
    match super::target::host_port(d.arg(n), 53) {
        Some((host, port)) => match host.parse() {
            Ok(address) => out.servers.push(std::net::SocketAddr::new(address, port)),
            Err(_) => out.named_servers.push((host, port)),
        },
        None => lo.bad_value(d, n, "an address of a name server"),
    }
}
