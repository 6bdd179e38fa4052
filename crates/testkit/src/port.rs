//! Ports that belong to one test, and the addresses behind them.
//!
//! Owns: leases on TCP port numbers of the loopback interface.
//! Never: keeps a socket open on a leased port (the program under test probes for other holders).
//! Driven by: `Proxy`, `Origin`, the demo and the benchmark.
//! Why: binding port zero and letting go lets another test, or the kernel for an outgoing connection, take the port in
//! between. A lease is a locked file, and its ports lie outside the range that the kernel hands out.

use std::fmt;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Leases come from here: below Linux's default ephemeral range (32768–60999), above what services use.
const FIRST: u16 = 12_000;
const LAST: u16 = 31_999;

/// Listeners on some addresses of this machine, all on one port, which comes first.
///
/// # Panics
/// When no port is found that is free on all of them.
#[must_use]
pub fn listeners_on_one_port<const N: usize>(addresses: [Ipv4Addr; N]) -> (u16, [TcpListener; N]) {
    crate::eventually("a port that is free on all addresses", || {
        let mut port = 0;
        let listeners = addresses.map(|address| {
            let listener = TcpListener::bind(SocketAddr::from((address, port))).ok()?;
            port = listener.local_addr().ok()?.port();
            Some(listener)
        });
        listeners.iter().all(Option::is_some).then(|| (port, listeners.map(Option::unwrap)))
    })
}

/// A TCP and UDP port of 127.0.0.1 that no other test gets while this value (or a clone) lives.
#[derive(Clone)]
pub struct Port {
    number: u16,
    _lease: Arc<File>,
}

impl Port {
    /// Leases a port on which nothing listens.
    ///
    /// # Panics
    /// When all ports of the range are taken or the lease directory cannot be written: no test can run then.
    #[must_use]
    pub fn lease() -> Self {
        let span = LAST - FIRST + 1;
        for _ in 0..span {
            if let Some(port) = Self::try_lease(FIRST + next_candidate() % span) {
                return port;
            }
        }
        panic!("no free port between {FIRST} and {LAST}");
    }

    /// Leases this very port if it is free, and another one if not.
    ///
    /// # Panics
    /// As [`Port::lease`] does.
    #[must_use]
    pub fn lease_near(wanted: u16) -> Self {
        Self::try_lease(wanted).unwrap_or_else(Self::lease)
    }

    fn try_lease(number: u16) -> Option<Self> {
        let path = lease_dir().join(number.to_string());
        let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
        file.try_lock().ok()?;
        is_free(number).then(|| Self { number, _lease: Arc::new(file) })
    }

    /// The port number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// True if nothing holds `number` on any IPv4 address, for TCP or UDP.
#[must_use]
pub fn is_free(number: u16) -> bool {
    let any = (Ipv4Addr::UNSPECIFIED, number);
    TcpListener::bind(any).is_ok() && UdpSocket::bind(any).is_ok()
}

/// True once some socket of this network namespace listens on TCP `number`, without connecting to it (a connection would be counted).
#[must_use]
pub fn is_listening(number: u16) -> bool {
    const LISTEN: &str = "0A";
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        std::fs::read_to_string(table).unwrap_or_default().lines().skip(1).any(|line| {
            let mut fields = line.split_ascii_whitespace();
            let local = fields.nth(1).and_then(|a| a.rsplit(':').next());
            let state = fields.nth(1);
            state == Some(LISTEN) && local.and_then(|p| u16::from_str_radix(p, 16).ok()) == Some(number)
        })
    })
}

/// Starts at a place that differs by process, so that test processes rarely try the same numbers.
fn next_candidate() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Any odd multiplier spreads consecutive process ids over the range.
    let start = (std::process::id().wrapping_mul(7_919) & 0xffff) as u16;
    start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn lease_dir() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let dir = std::env::temp_dir().join(format!("weir-ports-{user}"));
    std::fs::create_dir_all(&dir).expect("the lease directory can be made");
    dir
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.number)
    }
}

/// Anything a client can connect to.
pub trait Address {
    /// Where to connect.
    fn address(&self) -> SocketAddr;
}

impl Address for SocketAddr {
    fn address(&self) -> SocketAddr {
        *self
    }
}

impl Address for Port {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

impl Address for u16 {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, *self).into()
    }
}

impl<T: Address + ?Sized> Address for &T {
    fn address(&self) -> SocketAddr {
        (**self).address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_never_meet() {
        let leases: Vec<Port> = (0..64).map(|_| Port::lease()).collect();
        let mut numbers: Vec<u16> = leases.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 64);
    }

    #[test]
    fn listening_is_seen_without_connecting() {
        let port = Port::lease();
        assert!(!is_listening(port.number()));
        let _listener = TcpListener::bind(port.address()).unwrap();
        assert!(is_listening(port.number()));
        assert!(!is_free(port.number()));
    }
}
