//! Variables about the client's connection.

use std::net::IpAddr;

use weir_expr::{ClientVar, ProxyTlv, TcpFigure};
use weir_http::proxy_protocol::Tlvs;
use weir_plan::Address;
use weir_rt::Cutter;

use super::write::{display, extend, ipv4, number, seconds, text_of};
use crate::exchange::Core;

/// Appends the value of a variable about the client's connection; false if there is none.
pub(super) fn append(traffic: &Core, var: ClientVar<'_>, out: &mut Vec<u8>) -> bool {
    let client = &*traffic.client;
    let told = || client.proxied.as_ref();
    match var {
        ClientVar::ClientAddr => append_address(traffic, out),
        ClientVar::ClientAddrBinary => match traffic.client_source() {
            Some((IpAddr::V4(ip), _)) => text_of(out, &ip.octets()),
            Some((IpAddr::V6(ip), _)) => text_of(out, &ip.octets()),
            None => text_of(out, b"unix:"),
        },
        // An address from a header has no port: nginx shows nothing then.
        ClientVar::ClientPort => {
            let port = traffic.client_source().map(|(_, port)| u64::from(port));
            number(out, port.filter(|&port| port > 0)) || port.is_some()
        }
        ClientVar::PeerAddr => address(out, client.source().map(|(ip, _)| ip), traffic),
        ClientVar::PeerPort => number(out, client.source().map(|(_, port)| u64::from(port))),
        ClientVar::ProxyProtocolAddr => told().is_some_and(|told| display(out, told.source.ip())),
        ClientVar::ProxyProtocolPort => number(out, told().map(|told| u64::from(told.source.port()))),
        ClientVar::ProxyProtocolServerAddr => told().is_some_and(|told| display(out, told.destination.ip())),
        ClientVar::ProxyProtocolServerPort => {
            number(out, told().map(|told| u64::from(told.destination.port())))
        }
        ClientVar::ProxyProtocolTlv(which) => told().is_some_and(|told| tlv(&told.tlvs, *which, out)),
        ClientVar::ServerAddr => match traffic.destination() {
            None if client.local.inet().is_none() => unix_path(traffic, out),
            destination => address(out, destination.map(|(ip, _)| ip), traffic),
        },
        // A unix socket has an empty one.
        ClientVar::ServerPort => {
            let port = traffic.destination().map(|(_, port)| u64::from(port));
            number(out, port) || client.local.inet().is_none()
        }
        ClientVar::SocketPeerAddr => address(out, client.far_end().map(|(ip, _)| ip), traffic),
        ClientVar::SocketPeerPort => number(out, client.far_end().map(|(_, port)| u64::from(port))),
        ClientVar::SocketLocalAddr => address(out, client.own_end().map(|(ip, _)| ip), traffic),
        ClientVar::SocketLocalPort => number(out, client.own_end().map(|(_, port)| u64::from(port))),
        ClientVar::ListenerName => {
            let found = traffic.worker.for_listener(client.listener);
            let name = found.as_ref().map(|(installed, ix, _)| &*installed.plan.listener(*ix).name);
            extend(out, name.map(str::as_bytes))
        }
        ClientVar::ConnectionSerial => number(out, Some(client.serial)),
        ClientVar::ConnectionRequests => number(out, Some(client.requests.get())),
        ClientVar::ConnectionTime => seconds(out, traffic.now().saturating_duration_since(client.accepted)),
        ClientVar::TcpFigure(which) => number(out, client.socket.get().and_then(|one| tcp(one, *which))),
        ClientVar::AcceptDate => {
            traffic.worker.haproxy_date(client.accepted_unix(), out);
            true
        }
        ClientVar::Scheme => text_of(out, if client.tls.is_some() { b"https" } else { b"http" }),
        ClientVar::HttpsOn => text_of(out, if client.tls.is_some() { b"on" } else { b"" }),
    }
}

/// The unix socket that listens, as it was configured: what it is bound as may be another name of it.
fn unix_path(traffic: &Core, out: &mut Vec<u8>) -> bool {
    let found = traffic.worker.for_listener(traffic.client.listener);
    let path = found.as_ref().map(|(installed, ix, _)| &installed.plan.listener(*ix).address);
    let Some(Address::Unix(path)) = path else { return extend(out, Some(b"unix:")) };
    out.extend_from_slice(b"unix:");
    out.extend_from_slice(path.as_os_str().as_encoded_bytes());
    true
}

/// What the kernel knows of a connection.
#[cold]
fn tcp(socket: &Cutter, which: TcpFigure) -> Option<u64> {
    let info = socket.tcp_info()?;
    let figure = match which {
        TcpFigure::RoundTrip => info.rtt,
        TcpFigure::RoundTripVariation => info.rttvar,
        TcpFigure::CongestionWindow => info.snd_cwnd,
        TcpFigure::ReceiveSpace => info.rcv_space,
    };
    Some(figure.into())
}

/// A field of a PROXY header.
fn tlv(bytes: &[u8], which: ProxyTlv, out: &mut Vec<u8>) -> bool {
    let fields = Tlvs::new(bytes);
    match which {
        ProxyTlv::Field(kind) => extend(out, fields.value(kind)),
        ProxyTlv::Tls(kind) => extend(out, fields.tls().and_then(|(_, inner)| inner.value(kind))),
        ProxyTlv::TlsVerify => number(out, fields.tls().map(|(verify, _)| u64::from(verify))),
    }
}

/// Appends the client's address.
pub(super) fn append_address(traffic: &Core, out: &mut Vec<u8>) -> bool {
    address(out, traffic.client_source().map(|(ip, _)| ip), traffic)
}

/// An address; connections through unix sockets show `unix:` as nginx does.
pub(super) fn address(out: &mut Vec<u8>, ip: Option<IpAddr>, traffic: &Core) -> bool {
    match ip {
        Some(IpAddr::V4(ip)) => ipv4(out, ip),
        Some(ip) => display(out, ip),
        None if traffic.client.peer.inet().is_none() => extend(out, Some(b"unix:")),
        None => false,
    }
}
