//! The client's address behind proxies: walking X-Forwarded-For from its end.
//!
//! Owns: reading addresses, and nginx's rule of `real_ip_recursive`.
//! Never: knows who is trusted; the caller says so.
//! Why: only what a trusted peer has appended is believed, so the walk begins at the end and stops at the first
//! address that is not trusted. What does not parse stops it, too.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::field::Headers;
use crate::list;
use crate::name::HeaderId;

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`; without a port it is 0.
#[must_use]
pub fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Some(SocketAddr::new(inner.parse::<Ipv6Addr>().ok()?.into(), 0));
    }
    text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)).or_else(|_| text.parse()).ok()
}

/// Who the client is, given that `peer` sent the request: the last address that a trusted hop has named. `recursive`
/// goes on while the named address is trusted itself. With nothing to believe it is `peer`.
#[must_use]
pub fn client(
    headers: Headers<'_>,
    id: HeaderId,
    peer: SocketAddr,
    recursive: bool,
    trusted: impl Fn(IpAddr) -> bool,
) -> SocketAddr {
    let mut current = peer;
    let lines = headers.fields().iter().rev().filter(|field| field.id == id);
    let items = lines.flat_map(|field| reversed(headers.value_of(field)));
    for item in items {
        if !trusted(current.ip()) {
            break;
        }
        let Some(named) = address(item) else { break };
        current = named;
        if !recursive {
            break;
        }
    }
    current
}

/// The members of a list from the last to the first. Spaces separate too, as in nginx.
fn reversed(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.rsplit(|&b| matches!(b, b',' | b' ' | b'\t')).filter(|item| !item.is_empty())
}

/// The value to send as X-Forwarded-For: what came, and the peer's address behind it.
pub fn append(headers: Headers<'_>, peer: IpAddr, out: &mut Vec<u8>) {
    for item in headers.values(HeaderId::XForwardedFor).flat_map(list::items) {
        out.extend_from_slice(item);
        out.extend_from_slice(b", ");
    }
    // Writing to a vector does not fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{peer}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:0"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:0"),
            ("[2001:db8::1]", "[2001:db8::1]:0"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(address(text.as_bytes()), Some(expected.parse().unwrap()), "{text}");
        }
        for bad in ["", "unknown", "192.0.2", "192.0.2.1:", "unix:", "[::1", "192.0.2.1:65536", "[192.0.2.1]"]
        {
            assert_eq!(address(bad.as_bytes()), None, "{bad}");
        }
    }
}
