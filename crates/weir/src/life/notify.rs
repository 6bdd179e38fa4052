//! sd_notify: telling the service manager how far we are.
//!
//! Owns: the datagrams of sd_notify(3), to a path or an abstract socket.
//! Never: fails a start because nobody listens.
//! Driven by: `life::master`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The variable that names the socket.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// A service manager, if one listens.
pub(crate) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    /// The manager named by the environment.
    pub(crate) fn from_environment() -> Self {
        Self { to: std::env::var_os(VARIABLE).and_then(|name| open(name.as_bytes())) }
    }

    /// Serving.
    pub(crate) fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Serving.", std::process::id()));
    }

    /// A reload began (`Type=notify-reload` wants the time with it).
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// A reload ended.
    pub(crate) fn reloaded(&self, refused: Option<&str>) {
        let status = match refused {
            Some(reason) => format!("Reload refused, the old configuration serves on: {reason}"),
            None => "Serving.".into(),
        };
        self.send(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// Ending.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, to)) = &self.to {
            // Nobody to tell is no reason to stop.
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }
}

fn open(name: &[u8]) -> Option<(UnixDatagram, SocketAddr)> {
    let to = match name.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name).ok()?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_and_named_sockets_hear_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let unnamed = format!("weir-notify-test-{}", std::process::id());
        let hearers = [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes().to_vec()),
            (
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&unnamed).unwrap()).unwrap(),
                format!("@{unnamed}").into_bytes(),
            ),
        ];
        for (hearer, name) in hearers {
            Notify { to: open(&name) }.ready();
            let mut buffer = [0; 200];
            let n = hearer.recv(&mut buffer).unwrap();
            assert!(buffer[..n].starts_with(b"READY=1\nMAINPID="));
        }
    }
}
