//! Addresses and sockets.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An address to bind or connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// UDP: what listens here takes datagrams. Endpoints have none of these; services say how they are reached.
    Udp(SocketAddr),
    /// Unix stream socket. A leading `@` names an abstract socket.
    Unix(PathBuf),
    /// A listening socket that whoever started us handed over, by its number. Nothing can be connected to it by this.
    Inherited(i32),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Udp(address) => write!(f, "udp:{address}"),
            // The zeros that fill up a name of the abstract namespace are no use to anybody who reads.
            Self::Unix(path) => write!(f, "unix:{}", path.to_string_lossy().trim_end_matches('\0')),
            Self::Inherited(number) => write!(f, "fd@{number}"),
        }
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    /// As it is shown.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(_) => Err(format!("`{text}` names no socket")),
            None => match text.parse() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => Err(format!("`{text}` is neither an address with a port nor `unix:` with a path")),
            },
        }
    }
}

/// Parameters of TCP keep-alive probes, in seconds; `None` leaves the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpKeepalive {
    /// TCP_KEEPIDLE.
    pub idle: Option<u32>,
    /// TCP_KEEPINTVL.
    pub interval: Option<u32>,
    /// TCP_KEEPCNT.
    pub count: Option<u32>,
}

/// QUIC on a socket of datagrams, and the HTTP/3 on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quic {
    /// Requests of a connection at once.
    pub streams: u32,
    /// Bytes of a stream that wait to be read.
    pub stream_buffer: u64,
    /// Clients have to show where they are before anything is kept of them.
    pub retry: bool,
    /// Many datagrams leave in one call, where the kernel cuts them apart.
    pub segments: bool,
}

impl Default for Quic {
    fn default() -> Self {
        Self { streams: 128, stream_buffer: 64 << 10, retry: false, segments: false }
    }
}
