//! Addresses of sockets.
//!
//! Owns: the conversion from the kernel's form. Never: resolves names.
//! Driven by: streams and listeners.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// An address of a TCP or unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerAddr {
    /// IPv4 or IPv6.
    Inet(SocketAddr),
    /// A unix socket; clients usually have no path.
    Unix(Option<PathBuf>),
}

impl PeerAddr {
    pub(crate) fn from_sock(addr: &socket2::SockAddr) -> io::Result<Self> {
        if let Some(inet) = addr.as_socket() {
            return Ok(Self::Inet(inet));
        }
        if addr.is_unix() {
            return Ok(Self::Unix(addr.as_pathname().map(Path::to_path_buf)));
        }
        Err(io::Error::new(io::ErrorKind::Unsupported, "neither an IP nor a unix socket"))
    }

    /// The IP address and port, if it has one.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }
}

/// Whether an address is one of this machine's: whether a socket may be bound to it.
pub fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || (!ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok())
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(addr) => addr.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:"),
        }
    }
}
