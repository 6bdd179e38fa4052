//! Headers of Ethernet, IP and TCP, as the system keeps those of the packet that began a connection.
//!
//! Owns: where each part stands. What is cut short has no value.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_expr::PacketPart;

/// Frames may carry tags, two at most.
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// A part of a packet.
pub(super) fn part(packet: &[u8], part: PacketPart) -> Option<Vec<u8>> {
    let shown = |number: u32| Some(number.to_string().into_bytes());
    let bytes = |range: Option<&[u8]>| range.map(<[u8]>::to_vec);
    match part {
        PacketPart::EthDestination => bytes(packet.get(..6)),
        PacketPart::EthSource => bytes(packet.get(6..12)),
        PacketPart::EthHeader => bytes(packet.get(..frame(packet)?.header)),
        PacketPart::EthData => bytes(packet.get(frame(packet)?.header..)),
        PacketPart::EthProtocol => shown(frame(packet)?.protocol.into()),
        PacketPart::EthVlan => shown(frame(packet)?.vlan?.into()),
        PacketPart::IpVersion => shown(u32::from(packet.first()? >> 4)),
        PacketPart::IpHeader => bytes(packet.get(..ip(packet)?.header)),
        PacketPart::IpData => bytes(packet.get(ip(packet)?.header..)),
        PacketPart::IpProtocol => shown(ip(packet)?.protocol.into()),
        PacketPart::IpDontFragment => match packet.first()? >> 4 {
            4 => shown(u32::from(packet.get(6)? >> 6 & 1)),
            _ => shown(1),
        },
        PacketPart::IpTos => match packet.first()? >> 4 {
            4 => shown((*packet.get(1)?).into()),
            _ => shown(u32::from(two(packet, 0)? >> 4 & 0xff)),
        },
        PacketPart::IpTtl => shown((*packet.get(if packet.first()? >> 4 == 4 { 8 } else { 7 })?).into()),
        PacketPart::IpSource => address(packet, 12, 8),
        PacketPart::IpDestination => address(packet, 16, 24),
        PacketPart::TcpSource => shown(two(packet, 0)?.into()),
        PacketPart::TcpDestination => shown(two(packet, 2)?.into()),
        PacketPart::TcpSequence => shown(four(packet, 4)?),
        PacketPart::TcpFlags => shown((*packet.get(13)?).into()),
        PacketPart::TcpWindow => shown(two(packet, 14)?.into()),
        PacketPart::TcpMss => shown(two(option(packet, 2)?, 0)?.into()),
        PacketPart::TcpScale => shown((*option(packet, 3)?.first()?).into()),
        PacketPart::TcpSack => shown(option(packet, 4).is_some().into()),
        PacketPart::TcpTimestamp => shown(four(option(packet, 8)?, 0)?),
        PacketPart::TcpOptionsList => {
            bytes(Some(&options(packet)?.map(|(kind, _)| kind).collect::<Vec<u8>>()))
        }
    }
}

/// The header of a frame.
struct Frame {
    header: usize,
    protocol: u16,
    vlan: Option<u16>,
}

fn frame(packet: &[u8]) -> Option<Frame> {
    let (mut header, mut vlan) = (14, None);
    let mut protocol = two(packet, 12)?;
    while VLAN.contains(&protocol) && header < 22 {
        vlan = Some(two(packet, header)? & 0x0fff);
        protocol = two(packet, header + 2)?;
        header += 4;
    }
    Some(Frame { header, protocol, vlan })
}

/// The header of IP, and what follows it.
struct Ip {
    header: usize,
    protocol: u8,
}

fn ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let fits = header >= 20 && packet.len() >= header;
            fits.then(|| Ip { header, protocol: packet[9] })
        }
        6 => {
            let (mut header, mut protocol) = (40, *packet.get(6)?);
            // Extensions tell their length in eight bytes beyond the first; a fragment's has none.
            while matches!(protocol, 0 | 43 | 44 | 60 | 135 | 139 | 140) {
                let extension = packet.get(header..)?;
                let length = if protocol == 44 { 8 } else { (usize::from(*extension.get(1)?) + 1) * 8 };
                protocol = *extension.first()?;
                header += length;
            }
            (packet.len() >= header).then_some(Ip { header, protocol })
        }
        _ => None,
    }
}

fn address(packet: &[u8], v4: usize, v6: usize) -> Option<Vec<u8>> {
    let mut out = String::new();
    match packet.first()? >> 4 {
        4 => {
            let octets: [u8; 4] = packet.get(v4..v4 + 4)?.try_into().ok()?;
            write!(out, "{}", Ipv4Addr::from(octets)).ok()?;
        }
        6 => {
            let octets: [u8; 16] = packet.get(v6..v6 + 16)?.try_into().ok()?;
            write!(out, "{}", Ipv6Addr::from(octets)).ok()?;
        }
        _ => return None,
    }
    Some(out.into_bytes())
}

/// The value of an option of TCP.
fn option(segment: &[u8], wanted: u8) -> Option<&[u8]> {
    options(segment)?.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// The options of a segment, as far as they are whole.
fn options(segment: &[u8]) -> Option<impl Iterator<Item = (u8, &[u8])>> {
    let length = usize::from(segment.get(12)? >> 4) * 4;
    let mut rest = segment.get(20..length)?;
    Some(std::iter::from_fn(move || {
        let (&kind, after) = rest.split_first()?;
        if kind <= 1 {
            // The end, or nothing at all.
            rest = if kind == 0 { &[] } else { after };
            return Some((kind, &[][..]));
        }
        let length = usize::from(*after.first()?);
        let value = rest.get(2..length)?;
        rest = &rest[length..];
        Some((kind, value))
    }))
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// One part after the other, for fuzzers.
pub(super) fn fuzz(packet: &[u8], which: u8) -> Option<Vec<u8>> {
    const ALL: [PacketPart; 7] = [
        PacketPart::EthData,
        PacketPart::IpData,
        PacketPart::IpHeader,
        PacketPart::TcpOptionsList,
        PacketPart::TcpMss,
        PacketPart::TcpSequence,
        PacketPart::EthVlan,
    ];
    part(packet, ALL[usize::from(which) % ALL.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(packet: &[u8], of: PacketPart) -> String {
        part(packet, of).map_or("-".into(), |value| String::from_utf8_lossy(&value).into_owned())
    }

    #[test]
    fn parts_of_a_packet_are_where_they_belong() {
        let tcp = [
            0x13, 0x88, 0x01, 0xbb, 0, 0, 0, 9, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, //
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let mut ip = vec![0x45, 0x10, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
        ip.extend(tcp);
        let mut eth = vec![1; 6];
        eth.extend([2; 6]);
        eth.extend([0x81, 0, 0, 5, 8, 0]);
        eth.extend(&ip);
        assert_eq!(text(&eth, PacketPart::EthVlan), "5");
        assert_eq!(text(&eth, PacketPart::EthProtocol), "2048");
        assert_eq!(part(&eth, PacketPart::EthData).unwrap(), ip);
        for (of, expected) in [
            (PacketPart::IpVersion, "4"),
            (PacketPart::IpTos, "16"),
            (PacketPart::IpTtl, "64"),
            (PacketPart::IpDontFragment, "1"),
            (PacketPart::IpProtocol, "6"),
            (PacketPart::IpSource, "192.0.2.1"),
            (PacketPart::IpDestination, "198.51.100.2"),
        ] {
            assert_eq!(text(&ip, of), expected, "{of:?}");
        }
        assert_eq!(part(&ip, PacketPart::IpData).unwrap(), tcp);
        for (of, expected) in [
            (PacketPart::TcpSource, "5000"),
            (PacketPart::TcpDestination, "443"),
            (PacketPart::TcpSequence, "9"),
            (PacketPart::TcpFlags, "2"),
            (PacketPart::TcpWindow, "64240"),
            (PacketPart::TcpMss, "1460"),
            (PacketPart::TcpSack, "1"),
            (PacketPart::TcpTimestamp, "7"),
            (PacketPart::TcpScale, "7"),
        ] {
            assert_eq!(text(&tcp, of), expected, "{of:?}");
        }
        assert_eq!(part(&tcp, PacketPart::TcpOptionsList).unwrap(), [2, 4, 8, 1, 3]);
        assert!((0..ip.len()).all(|end| part(&ip[..end.min(19)], PacketPart::IpData).is_none()));
    }
}
