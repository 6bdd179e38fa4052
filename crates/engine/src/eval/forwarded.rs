//! Who a client is by what proxies say of it.
//!
//! Owns: reading a list of addresses from its end.
//! Driven by: variables by address, and `admission::access` for real addresses.

use std::net::IpAddr;

use weir_http::HeaderId;
use weir_plan::GeoProxies;

use crate::exchange::Exchange;
use crate::exchange::fields::FieldName;

/// The last address that a field names, or of those that it names the last that is not trusted.
pub(crate) fn address(
    exchange: &Exchange,
    name: FieldName<'_>,
    recursive: bool,
    trusts: impl Fn(IpAddr) -> bool,
) -> Option<(IpAddr, u16)> {
    let mut found = None;
    let lines: Vec<&[u8]> = exchange.request.fields.all(name).collect();
    let items = lines.iter().rev().flat_map(|line| line.rsplit(|&b| matches!(b, b',' | b' ' | b'\t')));
    for item in items.filter(|item| !item.is_empty()) {
        let Some(address) = weir_http::forwarded::address(item) else { break };
        let ip = address.ip().to_canonical();
        found = Some((ip, address.port()));
        if !recursive || !trusts(ip) {
            break;
        }
    }
    found
}

/// The client behind a proxy, if it is one that is believed and says so.
pub(super) fn behind(exchange: &Exchange, proxies: &GeoProxies, ip: IpAddr) -> IpAddr {
    let trusts = |ip: IpAddr| proxies.from.contains(ip.to_canonical());
    if !trusts(ip) {
        return ip;
    }
    let named = address(exchange, HeaderId::XForwardedFor.into(), proxies.recursive, trusts);
    named.map_or(ip, |(ip, _)| ip)
}

/// An address that is all of a text.
pub(crate) fn parse_address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
