//! Version 1: one line of text, `PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Proxied, ProxyError, ProxyHeader};

pub(super) const PREFIX: &[u8] = b"PROXY ";

/// The longest line that the specification allows, CRLF included.
const MAX_LINE: usize = 107;

pub(super) fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let window = &buf[..buf.len().min(MAX_LINE)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if buf.len() < MAX_LINE { Ok(None) } else { Err(ProxyError::Line) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(ProxyError::Line)?;
    let text = line.get(PREFIX.len()..).and_then(|text| std::str::from_utf8(text).ok());
    let proxied = text.and_then(parse_line).ok_or(ProxyError::Line)?;
    Ok(Some(ProxyHeader { proxied, len: end + 1, tlvs_at: end + 1 }))
}

fn parse_line(text: &str) -> Option<Proxied> {
    // Whatever follows UNKNOWN is to be ignored.
    if text == "UNKNOWN" || text.starts_with("UNKNOWN ") {
        return Some(Proxied::Local);
    }
    let mut words = text.split(' ');
    let family = words.next()?;
    let [source, destination, from, to] = [words.next()?, words.next()?, words.next()?, words.next()?];
    if words.next().is_some() {
        return None;
    }
    Some(Proxied::Inet {
        source: SocketAddr::new(ip(family, source)?, port(from)?),
        destination: SocketAddr::new(ip(family, destination)?, port(to)?),
        datagram: false,
    })
}

fn ip(family: &str, text: &str) -> Option<IpAddr> {
    match family {
        "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => None,
    }
}

/// Digits without leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| text.parse().ok()).flatten()
}

pub(super) fn write(proxied: &Proxied, out: &mut Vec<u8>) {
    let Proxied::Inet { source, destination, datagram: false } = proxied else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let (family, source_ip, destination_ip) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => ("TCP4", a.to_string(), b.to_string()),
        (a, b) => ("TCP6", v6(a).to_string(), v6(b).to_string()),
    };
    let line =
        format!("PROXY {family} {source_ip} {destination_ip} {} {}\r\n", source.port(), destination.port());
    out.extend_from_slice(line.as_bytes());
}

/// An address as IPv6: a pair of mixed families is written in the larger one.
pub(super) fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
