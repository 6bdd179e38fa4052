//! Writing the head of the request to an endpoint.
//!
//! Owns: target, fields and framing of the upstream request.
//! Never: passes bytes on as received: everything is written anew in canonical form.
//! Driven by: the proxy action, which asks; `http1`, once per attempt.

use std::borrow::Cow;

use weir_http::connection::passable_upgrades;
use weir_http::{HeadWriter, HeaderId, Method, Version, uri};
use weir_plan::{HeadPiece, Proxy, ProxyTarget, Template, UpstreamUri, Var};

use crate::eval::{apply, render, text, vars};
use crate::exchange::Exchange;

/// How the body goes to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamBody {
    /// No body.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunked.
    Chunked,
}

/// What the request asks of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// An upgrade is passed on.
    pub(crate) upgrade: bool,
    /// `Connection: close` is sent.
    pub(crate) close: bool,
}

/// What the head will ask of the connection.
pub(crate) fn asks(exchange: &Exchange, proxy: &Proxy) -> Asked {
    let (mut upgrade, mut close) = (exchange.request.upgrade, proxy.announce_close);
    if let Some(connection) = &proxy.head.connection {
        let value = text(exchange, connection);
        // Mostly a constant, and nothing: the client's own field is left out.
        let has = |word: &[u8]| {
            value.split(|&b| b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
        };
        close |= !value.is_empty() && has(b"close");
        upgrade &= has(b"upgrade");
        if let Some(value) = &proxy.head.upgrade {
            upgrade &= passable_upgrades(&text(exchange, value)).next().is_some();
        }
    }
    upgrade &= proxy.http_1_1;
    if upgrade && proxy.head.upgrade.is_none() {
        upgrade = !offered(exchange, proxy).is_empty();
    }
    Asked { upgrade, close: (close || !proxy.http_1_1) && !upgrade }
}

/// Appends the target of the upstream request.
///
/// Variables may hold bytes that cannot stand in a request line (`proxy_pass http://a/$1` with a decoded space, or
/// letters beyond ASCII). They are escaped: what the client sent as `%20` leaves as `%20`.
pub(crate) fn target(exchange: &Exchange, proxy: &Proxy, computed: Option<&[u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    write_target(exchange, proxy, computed, out);
    if out[start..].iter().any(|&byte| !is_target_byte(byte)) {
        let raw = out.split_off(start);
        for byte in raw {
            if is_target_byte(byte) {
                out.push(byte);
            } else {
                uri::escape(uri::Escape::Uri, &[byte], out);
            }
        }
    }
}

/// RFC 9112 §3.2: visible ASCII, which is also what divides the parts of a request line, and no fragment.
fn is_target_byte(byte: u8) -> bool {
    (0x21..0x7f).contains(&byte) && byte != b'#'
}

fn write_target(exchange: &Exchange, proxy: &Proxy, computed: Option<&[u8]>, out: &mut Vec<u8>) {
    let request = &exchange.request;
    if let Some(path) = computed {
        return out.extend_from_slice(path);
    }
    match &proxy.uri {
        UpstreamUri::Pass if request.path_is_raw => out.extend_from_slice(&request.raw_path),
        UpstreamUri::Pass => uri::escape(uri::Escape::Uri, &request.path, out),
        // nginx: what a rewrite made of the path goes upstream as it is.
        UpstreamUri::Replace(_) if exchange.rewritten => uri::escape(uri::Escape::Uri, &request.path, out),
        UpstreamUri::Replace(prefix) => {
            out.extend_from_slice(prefix.as_bytes());
            let rest = request.path.get(exchange.matched..).unwrap_or_default();
            uri::escape(uri::Escape::Uri, rest, out);
        }
        UpstreamUri::Template(template) => return render(exchange, template, out),
    }
    if !request.query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&request.query);
    }
}

/// Appends the head. `Err`: a value of the configuration cannot stand in a request.
pub(crate) fn write(
    exchange: &Exchange,
    proxy: &Proxy,
    body: UpstreamBody,
    asked: Asked,
    out: &mut Vec<u8>,
) -> Result<(), Cow<'static, str>> {
    let request = &exchange.request;
    let method = proxy.method.as_ref().map(|template| text(exchange, template));
    let method = method.as_deref().unwrap_or(exchange.upstream_method_text());
    let version = if proxy.http_1_1 { Version::Http11 } else { Version::Http10 };
    HeadWriter::request(out, method, &exchange.response.upstream_target, version)
        .map_err(|_| "the method or target is not valid")?;
    let start = out.len();
    for piece in &proxy.head.pieces {
        match piece {
            HeadPiece::Literal(bytes) => out.extend_from_slice(bytes),
            HeadPiece::OwnHost(name) if matches!(proxy.target, ProxyTarget::Pool(_)) => {
                // The configuration's own text, as literals are.
                if !proxy.host.is_empty() {
                    out.extend_from_slice(name);
                    out.extend_from_slice(proxy.host.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
            HeadPiece::OwnHost(name) => line(exchange, name, &Template::var(Var::ProxyHost), out)?,
            HeadPiece::Var(var, filters) => {
                let from = out.len();
                vars::append(exchange, var, out);
                apply(filters, out, from);
                if !weir_http::scan::is_field_value(&out[from..]) {
                    return Err("a computed header value holds control characters".into());
                }
            }
            HeadPiece::Line(name, value) => line(exchange, name, value, out)?,
        }
    }
    debug_assert!(out.len() >= start);
    let mut has_host = proxy.head.has_host;
    let kept = exchange.kept_from_upstream();
    if proxy.pass_request_headers {
        request.fields.write(out, |line, bytes| {
            let own = match line.id {
                HeaderId::ContentLength | HeaderId::Expect => true,
                HeaderId::Upgrade | HeaderId::Connection | HeaderId::TransferEncoding => true,
                HeaderId::Host => has_host,
                _ => line.is_hop_by_hop() || kept & line.id.bit() != 0,
            };
            if own || proxy.head.replaced.contains_line(line, bytes) {
                return false;
            }
            has_host |= line.id == HeaderId::Host;
            true
        });
    }
    let mut head = HeadWriter::resume(out);
    if !has_host {
        let host = if request.host.is_empty() { proxy.host.as_bytes() } else { &request.host };
        let _ = head.known(HeaderId::Host, host);
    }
    if kept != 0 {
        for (id, value) in exchange.conditions() {
            let _ = value.map(|value| head.known(id, value));
        }
    }
    match body {
        UpstreamBody::None if request.fields.has(HeaderId::ContentLength) && proxy.pass_request_body => {
            head.number(HeaderId::ContentLength, 0);
        }
        UpstreamBody::None => {}
        UpstreamBody::Length(length) => head.number(HeaderId::ContentLength, length),
        UpstreamBody::Chunked => drop(head.known(HeaderId::TransferEncoding, b"chunked")),
    }
    if asked.upgrade {
        let _ = head.known(HeaderId::Upgrade, &offered(exchange, proxy));
        let _ = head.known(HeaderId::Connection, b"upgrade");
    } else if asked.close {
        let _ = head.known(HeaderId::Connection, b"close");
    }
    head.end();
    // Of anything that was computed for it, the target included.
    exchange.slots.take_doubt().map_or(Ok(()), |why| Err(why.to_string().into()))
}

/// Appends a line, unless its value is empty.
fn line(
    exchange: &Exchange,
    name: &[u8],
    value: &Template,
    out: &mut Vec<u8>,
) -> Result<(), Cow<'static, str>> {
    let (line, from) = (out.len(), out.len() + name.len());
    out.extend_from_slice(name);
    render(exchange, value, out);
    if out.len() == from {
        out.truncate(line);
    } else if weir_http::scan::is_field_value(&out[from..]) {
        out.extend_from_slice(b"\r\n");
    } else {
        return Err("a computed header value holds control characters".into());
    }
    Ok(())
}

/// Protocols that are in use through proxies: WebSocket, Docker's `attach` and `exec`, Kubernetes' `exec` and
/// `port-forward`, and proxying over HTTP (RFC 9298, RFC 9484).
const IN_USE: [&[u8]; 5] = [b"websocket", b"tcp", b"spdy", b"connect-udp", b"connect-ip"];

/// The protocols that the endpoint may change to, as a list: what the client or the configuration names, without the
/// versions of HTTP itself, which nobody between would check. Of what the client alone names, what is in use, unless the
/// site passes on any.
fn offered(exchange: &Exchange, proxy: &Proxy) -> Vec<u8> {
    let mut value = Vec::new();
    match &proxy.head.upgrade {
        Some(template) => render(exchange, template, &mut value),
        None => drop(exchange.request.fields.join(HeaderId::Upgrade, b", ", &mut value)),
    }
    let any = proxy.head.upgrade.is_some() || exchange.site().client.forward_any_upgrade;
    let known = |protocol: &&[u8]| {
        let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
        any || IN_USE.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    passable_upgrades(&value).filter(known).collect::<Vec<_>>().join(b", ".as_slice())
}

/// Whether a 101 changes to a protocol that was offered (RFC 9110 §7.8).
pub(crate) fn was_offered(exchange: &Exchange, proxy: &Proxy, protocol: &[u8]) -> bool {
    let name =
        |protocol: &[u8]| protocol.split(|&b| b == b'/').next().unwrap_or_default().to_ascii_lowercase();
    passable_upgrades(&offered(exchange, proxy)).any(|offer| name(offer) == name(protocol))
}

/// Counts this hop against the Max-Forwards of an OPTIONS or TRACE (RFC 9110 §7.6.2). False if it ends here.
pub(crate) fn spend_hop(exchange: &mut Exchange) -> bool {
    if !matches!(exchange.request.method, Method::Options | Method::Trace) {
        return true;
    }
    let fields = &mut exchange.request.fields;
    let left =
        fields.first(HeaderId::MaxForwards).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    match left {
        Some(0_u64) => false,
        Some(left) => {
            fields.set(b"Max-Forwards", itoa::Buffer::new().format(left - 1).as_bytes());
            true
        }
        None => true,
    }
}
