//! `listen`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_diag::Diagnostic;
use weir_model::{Address, TcpKeepalive};

use super::parts::ListenSpec;
use super::state::next_directive;
use super::target::split_port;
use super::{Lowering, ServerParts};
use crate::tree::Directive;
use crate::value;
use crate::variables::Dialect;

/// `listen address[:port] | port | unix:path [parameters]`.
pub(crate) fn listen(lo: &mut Lowering<'_>, parts: &mut ServerParts, d: &Directive) {
    let Some(addresses) = addresses(lo, d) else { return };
    let mut spec = ListenSpec::plain(addresses[0].clone(), d.span);
    for n in 1..d.args.len() {
        match parameter(lo, d, n, &mut spec) {
            Parameter::Fine => {}
            Parameter::Wrong => return parts.skipped_listen = true,
        }
    }
    if spec.udp && !fits_datagrams(lo, d, &addresses) {
        return parts.skipped_listen = true;
    }
    for address in addresses {
        let address = match address {
            Address::Tcp(at) if spec.udp => Address::Udp(at),
            other => other,
        };
        if let Some(&first) = parts.listened.get(&address) {
            let found =
                Diagnostic::error("nginx::duplicate-listen", format!("`{}` is listened on twice", d.arg(0)));
            lo.report(found.at(d.span).also(first, "first here"));
            continue;
        }
        parts.listened.insert(address.clone(), d.span);
        parts.listens.push(ListenSpec { address, ..spec.clone() });
    }
}

/// Whether what is said of a `listen` with `udp` makes sense for datagrams; told if not.
fn fits_datagrams(lo: &mut Lowering<'_>, d: &Directive, addresses: &[Address]) -> bool {
    const OF_CONNECTIONS: [&str; 6] =
        ["ssl", "proxy_protocol", "so_keepalive", "backlog", "fastopen", "deferred"];
    for n in 1..d.args.len() {
        let name = d.arg(n).split('=').next().unwrap_or_default();
        if OF_CONNECTIONS.contains(&name) && d.arg(n) != "so_keepalive=off" {
            let of = if d.args.iter().any(|arg| arg.text == "quic") { "quic" } else { "udp" };
            let text = format!("`{name}` is about connections of TCP, and does not go with `{of}`");
            lo.report(Diagnostic::error("nginx::bad-value", text).at(d.arg_span(n)));
            return false;
        }
    }
    if addresses.iter().any(|address| matches!(address, Address::Unix(_))) {
        let text = "unix sockets for datagrams are not supported yet";
        lo.report(Diagnostic::error("nginx::not-built", text).at(d.arg_span(0)));
        return false;
    }
    true
}

/// All addresses that the first argument means; told if there is none.
fn addresses(lo: &mut Lowering<'_>, d: &Directive) -> Option<Vec<Address>> {
    let text = d.arg(0);
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            lo.bad_value(d, 0, "a socket: a path must follow `unix:`");
            return None;
        }
        return Some(vec![Address::Unix(path.into())]);
    }
    let found = tcp_addresses(lo, text);
    if found.is_empty() {
        lo.bad_value(d, 0, "an address: a port, `address:port`, `[v6]:port` or `unix:path`");
        return None;
    }
    Some(found.into_iter().map(Address::Tcp).collect())
}

fn tcp_addresses(lo: &Lowering<'_>, text: &str) -> Vec<SocketAddr> {
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let default = if lo.dialect == Dialect::Http { Some(80) } else { None };
    if let Some(ports) = ports(text) {
        return ports.map(|port| SocketAddr::new(ANY, port)).collect();
    }
    // A range of ports after an address.
    if let Some((host, range)) = text.rsplit_once(':')
        && range.contains('-')
    {
        let (Some(ports), Some(host)) = (ports(range), hosts(lo, host).first().copied()) else {
            return Vec::new();
        };
        return ports.map(|port| SocketAddr::new(host, port)).collect();
    }
    match split_port(text) {
        Some((host, port)) => match port.or(default) {
            Some(port) => hosts(lo, host).into_iter().map(|host| SocketAddr::new(host, port)).collect(),
            None => Vec::new(),
        },
        None => Vec::new(),
    }
}

/// `80` or `8000-8010`.
fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let port = |text| value::number(text).and_then(|n| u16::try_from(n).ok()).filter(|&n| n > 0);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    (first <= last).then_some(first..=last)
}

/// Addresses of a host: literal, `*`, or looked up.
fn hosts(lo: &Lowering<'_>, host: &str) -> Vec<IpAddr> {
    if host == "*" {
        return vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) if bare.parse::<Ipv6Addr>().is_err() && bare.bytes().all(|b| b.is_ascii_digit()) => Vec::new(),
        Err(_) => lo.files.resolve(bare),
    }
}

enum Parameter {
    Fine,
    Wrong,
}

fn parameter(lo: &mut Lowering<'_>, d: &Directive, n: usize, spec: &mut ListenSpec) -> Parameter {
    let word = d.arg(n);
    match word {
        "default_server" | "default" if lo.dialect == Dialect::Http || word == "default_server" => {
            spec.default_server = true;
        }
        "ssl" => spec.tls = true,
        "proxy_protocol" => spec.proxy_protocol = true,
        "http2" if lo.dialect == Dialect::Http => spec.http2 = true,
        "spdy" => {
            let text = "`spdy` has no effect: nginx dropped it in 1.9.5";
            lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.arg_span(n)));
        }
        "quic" if lo.dialect == Dialect::Http => (spec.udp, spec.quic) = (true, true),
        "udp" if lo.dialect == Dialect::Stream => spec.udp = true,
        _ => return socket_parameter(lo, d, n, spec),
    }
    Parameter::Fine
}

fn socket_parameter(lo: &mut Lowering<'_>, d: &Directive, n: usize, spec: &mut ListenSpec) -> Parameter {
    spec.has_options = true;
    let socket = &mut spec.socket;
    let word = d.arg(n);
    let number = |text: &str| value::number(text).and_then(|n| u32::try_from(n).ok());
    let expected = match word.split_once('=') {
        None => match word {
            "bind" | "multipath" => None,
            "deferred" => {
                socket.deferred = true;
                None
            }
            "reuseport" => {
                socket.reuse_port = true;
                None
            }
            _ => Some("a parameter of `listen`"),
        },
        Some(("backlog", text)) => {
            // nginx takes -1 for the system's.
            socket.backlog = number(text);
            (socket.backlog.is_none() && text != "-1").then_some("`backlog=` with a number")
        }
        Some(("ipv6only", text)) => {
            socket.ipv6_only = value::flag(text);
            socket.ipv6_only.is_none().then_some("`ipv6only=on` or `ipv6only=off`")
        }
        Some(("rcvbuf", text)) => {
            socket.receive_buffer = value::size(text);
            socket.receive_buffer.is_none().then_some("`rcvbuf=` with a size")
        }
        Some(("sndbuf", text)) => {
            socket.send_buffer = value::size(text);
            socket.send_buffer.is_none().then_some("`sndbuf=` with a size")
        }
        Some(("fastopen", text)) => {
            socket.fast_open = number(text);
            socket.fast_open.is_none().then_some("`fastopen=` with a number")
        }
        Some(("so_keepalive", text)) => {
            let parsed = keepalive(text);
            socket.keepalive = parsed.unwrap_or_default();
            parsed.is_none().then_some("`so_keepalive=on`, `off` or `idle:interval:count`")
        }
        Some(("setfib" | "accept_filter", _)) => {
            let text = format!("`{word}` has no effect on Linux");
            lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.arg_span(n)));
            None
        }
        Some(_) => Some("a parameter of `listen`"),
    };
    match expected {
        None => Parameter::Fine,
        Some("a parameter of `listen`") => {
            unknown_parameter(lo, d, n);
            Parameter::Wrong
        }
        Some(expected) => {
            lo.bad_value(d, n, expected);
            Parameter::Wrong
        }
    }
}

fn unknown_parameter(lo: &mut Lowering<'_>, d: &Directive, n: usize) {
    const KNOWN: [&str; 18] = [
        "default_server",
        "ssl",
        "http2",
        "quic",
        "proxy_protocol",
        "bind",
        "deferred",
        "reuseport",
        "backlog",
        "ipv6only",
        "rcvbuf",
        "sndbuf",
        "fastopen",
        "so_keepalive",
        "setfib",
        "accept_filter",
        "udp",
        "multipath",
    ];
    let (word, span) = (d.arg(n), d.arg_span(n));
    let text = format!("`{word}` is no parameter of `listen`");
    let mut found = Diagnostic::error("nginx::bad-value", text).at(span).suggest(word, span, KNOWN);
    if let Some(at) = lo.forgotten_end(d) {
        found = next_directive(found, d, at);
    }
    lo.report(found);
}

/// `on`, `off`, or `[idle]:[interval]:[count]`. The inner `None`: off.
fn keepalive(text: &str) -> Option<Option<TcpKeepalive>> {
    match text {
        "on" => return Some(Some(TcpKeepalive::default())),
        "off" => return Some(None),
        _ => {}
    }
    let mut parts = text.split(':');
    let mut seconds = || match parts.next() {
        None => None,
        Some("") => Some(None),
        Some(text) => value::seconds(text).and_then(|n| u32::try_from(n).ok()).map(Some),
    };
    let (idle, interval) = (seconds()?, seconds()?);
    let count = match parts.next()? {
        "" => None,
        text => Some(value::number(text).and_then(|n| u32::try_from(n).ok())?),
    };
    parts.next().is_none().then_some(Some(TcpKeepalive { idle, interval, count }))
}
