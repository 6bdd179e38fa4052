//! Version 2: a binary header.
//!
//! ```text
//!   signature (12) | version, command | family, protocol | length (2) | addresses | TLVs …
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::v1::v6;
use super::{MAX_HEADER, Proxied, ProxyError, ProxyHeader, crc32c};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const FIXED: usize = 16;
const UNIX_PATH: usize = UNIX_LENGTH as usize;
/// As the header counts it.
const UNIX_LENGTH: u8 = 108;

/// The TLV that carries a CRC32c of the whole header.
const TYPE_CRC32C: u8 = 0x03;

/// The TLV about the client's TLS, which holds others.
const TYPE_TLS: u8 = 0x20;

pub(super) fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some(&[version_command, family, high, low]) = buf.get(12..FIXED) else { return Ok(None) };
    let local = match version_command {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyError::Binary),
    };
    let len = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_HEADER {
        return Err(ProxyError::TooLong);
    }
    let Some(header) = buf.get(..len) else { return Ok(None) };
    let (proxied, addresses) = addresses(family, &header[FIXED..]).ok_or(ProxyError::Binary)?;
    let tlvs_at = FIXED + addresses;
    check_tlvs(header, tlvs_at)?;
    // What a LOCAL header says about addresses is to be discarded.
    let proxied = if local { Proxied::Local } else { proxied };
    Ok(Some(ProxyHeader { proxied, len, tlvs_at }))
}

/// The addresses, and how many bytes they take.
fn addresses(family: u8, rest: &[u8]) -> Option<(Proxied, usize)> {
    match family {
        // Unspecified: whatever follows is not understood, and is no TLV either.
        0x00 => Some((Proxied::Local, rest.len())),
        0x11 | 0x12 => inet4(rest.first_chunk()?, family == 0x12).map(|found| (found, 12)),
        0x21 | 0x22 => inet6(rest.first_chunk()?, family == 0x22).map(|found| (found, 36)),
        0x31 | 0x32 => {
            let (source, destination) = rest.get(..2 * UNIX_PATH)?.split_at(UNIX_PATH);
            Some((Proxied::Unix { source: path(source), destination: path(destination) }, 2 * UNIX_PATH))
        }
        _ => None,
    }
}

fn inet4(bytes: &[u8; 12], datagram: bool) -> Option<Proxied> {
    let ip = |at: usize| bytes[at..].first_chunk::<4>().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets)));
    Some(Proxied::Inet {
        source: SocketAddr::new(ip(0)?, u16::from_be_bytes([bytes[8], bytes[9]])),
        destination: SocketAddr::new(ip(4)?, u16::from_be_bytes([bytes[10], bytes[11]])),
        datagram,
    })
}

fn inet6(bytes: &[u8; 36], datagram: bool) -> Option<Proxied> {
    let ip = |at: usize| bytes[at..].first_chunk::<16>().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets)));
    Some(Proxied::Inet {
        source: SocketAddr::new(ip(0)?, u16::from_be_bytes([bytes[32], bytes[33]])),
        destination: SocketAddr::new(ip(16)?, u16::from_be_bytes([bytes[34], bytes[35]])),
        datagram,
    })
}

fn path(bytes: &[u8]) -> Vec<u8> {
    bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())].to_vec()
}

/// The TLVs must fill their place exactly, and a checksum must be right.
fn check_tlvs(header: &[u8], tlvs_at: usize) -> Result<(), ProxyError> {
    let mut tlvs = Tlvs::new(&header[tlvs_at..]);
    while let Some(tlv) = tlvs.next() {
        if tlv.kind != TYPE_CRC32C {
            continue;
        }
        let value_at = header.len() - tlvs.rest.len() - tlv.value.len();
        let expected = tlv.value.try_into().map(u32::from_be_bytes).map_err(|_| ProxyError::Binary)?;
        if crc32c::of([&header[..value_at], &[0; 4], &header[value_at + 4..]]) != expected {
            return Err(ProxyError::Checksum);
        }
    }
    if tlvs.rest.is_empty() { Ok(()) } else { Err(ProxyError::Binary) }
}

/// One type-length-value field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type: 0x01 ALPN, 0x02 authority (SNI), 0x05 unique id, 0x20 TLS …
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

/// Walks the fields of a header.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Over the bytes of fields.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The value of the first field of a type.
    #[must_use]
    pub fn value(mut self, kind: u8) -> Option<&'a [u8]> {
        self.find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// What the field about TLS says (§2.2.6): how the client's certificate verified (0: well), and further fields.
    #[must_use]
    pub fn tls(self) -> Option<(u32, Self)> {
        let value = self.value(TYPE_TLS)?;
        let (&verify, rest) = value.get(1..)?.split_first_chunk()?;
        Some((u32::from_be_bytes(verify), Self::new(rest)))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let &[kind, high, low] = self.rest.first_chunk()?;
        let (value, rest) = self.rest[3..].split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        self.rest = rest;
        Some(Tlv { kind, value })
    }
}

pub(super) fn write(proxied: &Proxied, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match proxied {
        Proxied::Local => out.extend_from_slice(&[0x20, 0, 0, 0]),
        Proxied::Inet { source, destination, datagram } => write_inet(*source, *destination, *datagram, out),
        Proxied::Unix { source, destination } => {
            out.extend_from_slice(&[0x21, 0x31, 0, 2 * UNIX_LENGTH]);
            for path in [source, destination] {
                let len = path.len().min(UNIX_PATH);
                out.extend_from_slice(&path[..len]);
                out.resize(out.len() + UNIX_PATH - len, 0);
            }
        }
    }
}

fn write_inet(source: SocketAddr, destination: SocketAddr, datagram: bool, out: &mut Vec<u8>) {
    let protocol = if datagram { 2 } else { 1 };
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            out.extend_from_slice(&[0x21, 0x10 | protocol, 0, 12]);
            out.extend_from_slice(&a.octets());
            out.extend_from_slice(&b.octets());
        }
        (a, b) => {
            out.extend_from_slice(&[0x21, 0x20 | protocol, 0, 36]);
            out.extend_from_slice(&v6(a).octets());
            out.extend_from_slice(&v6(b).octets());
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}
