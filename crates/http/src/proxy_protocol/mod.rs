//! The PROXY protocol, versions 1 and 2, in both directions.
//!
//! Owns: [`ProxyHeader`], telling the versions apart, and the bounds.
//! Never: decides whether a peer may send one.
//! Driven by: `wire` or `engine`, before TLS and HTTP, with a buffer that grows.
//! Why: the header is believed for the client's address, so every doubt is an error, and the connection is closed
//! without an answer, as the specification (§2) wants.

mod crc32c;
mod v1;
mod v2;

use std::net::SocketAddr;

pub use v2::{Tlv, Tlvs};

/// Longest header that is taken, TLVs included: what nginx takes.
pub const MAX_HEADER: usize = 4096;

/// What a connection is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// The proxy speaks for itself (a health check), or does not know: use the connection's own addresses.
    Local,
    /// A connection over TCP or UDP.
    Inet {
        /// Who connected to the proxy.
        source: SocketAddr,
        /// Where to.
        destination: SocketAddr,
        /// UDP rather than TCP.
        datagram: bool,
    },
    /// A connection over a Unix socket. Paths end before their first NUL.
    Unix {
        /// Who connected, often empty.
        source: Vec<u8>,
        /// Where to.
        destination: Vec<u8>,
    },
}

/// A whole header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// What it says.
    pub proxied: Proxied,
    /// How many bytes it takes; the connection's own bytes follow.
    pub len: usize,
    /// Where its TLVs start; equal to `len` for none, and in version 1.
    pub(crate) tlvs_at: usize,
}

impl ProxyHeader {
    /// The type-length-value fields of version 2, over the bytes that were parsed.
    #[must_use]
    pub fn tlvs<'a>(&self, buf: &'a [u8]) -> Tlvs<'a> {
        Tlvs::new(self.tlv_bytes(buf))
    }

    /// The bytes of these fields.
    #[must_use]
    pub fn tlv_bytes<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        buf.get(self.tlvs_at..self.len).unwrap_or_default()
    }
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyError {
    /// The bytes are no PROXY header.
    NoHeader,
    /// A version 1 line is malformed or longer than 107 bytes.
    Line,
    /// A version 2 header has an unknown version, command, family or protocol, or lengths that do not fit.
    Binary,
    /// A version 2 header is longer than [`MAX_HEADER`].
    TooLong,
    /// The CRC32c of a version 2 header does not match.
    Checksum,
}

impl ProxyError {
    /// A few words for the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoHeader => "no PROXY protocol header",
            Self::Line => "invalid PROXY protocol line",
            Self::Binary => "invalid PROXY protocol header",
            Self::TooLong => "PROXY protocol header too long",
            Self::Checksum => "PROXY protocol checksum mismatch",
        }
    }
}

impl std::fmt::Display for ProxyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ProxyError {}

/// Parses the start of a connection. `Ok(None)`: more bytes are needed. At most [`MAX_HEADER`] bytes are ever needed.
///
/// # Errors
/// The bytes are no header, whatever follows.
pub fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    if starts_like(buf, v2::SIGNATURE) {
        return if buf.len() < v2::SIGNATURE.len() { Ok(None) } else { v2::parse(buf) };
    }
    if starts_like(buf, v1::PREFIX) {
        return v1::parse(buf);
    }
    Err(ProxyError::NoHeader)
}

/// Which version to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// Appends a header. Version 1 can not say all that version 2 can: it writes `UNKNOWN` for datagrams and Unix sockets.
pub fn write(version: ProxyVersion, proxied: &Proxied, out: &mut Vec<u8>) {
    match version {
        ProxyVersion::V1 => v1::write(proxied, out),
        ProxyVersion::V2 => v2::write(proxied, out),
    }
}

/// Whether `buf` begins with `prefix`, as far as it goes.
fn starts_like(buf: &[u8], prefix: &[u8]) -> bool {
    buf.iter().zip(prefix).all(|(a, b)| a == b)
}
