//! One byte stream with deadlines, plain or TLS.
//!
//! Owns: the socket, what was read ahead of need, and how the connection ends (close, half-close, reset).
//! Never: knows HTTP.
//! Driven by: `Client` on one side, `Script` on the other.

use crate::deadline::Deadline;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

pub(crate) trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

pub(crate) struct Wire {
    /// The same socket as `stream`'s, for time limits, half-close and reset.
    tcp: TcpStream,
    stream: Box<dyn Duplex>,
    /// Read and not yet taken.
    pending: Vec<u8>,
}

/// How a read ended that got no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// An orderly end of stream.
    Closed,
    /// The peer reset the connection, or TLS was cut without close_notify.
    Reset,
    /// Nothing came before the deadline.
    Late,
}

impl Wire {
    pub(crate) fn plain(tcp: TcpStream) -> io::Result<Self> {
        let stream = Box::new(tcp.try_clone()?);
        Self::over(tcp, stream)
    }

    pub(crate) fn over(tcp: TcpStream, stream: Box<dyn Duplex>) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(Some(crate::deadline::patience()))?;
        Ok(Self { tcp, stream, pending: Vec::new() })
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// What is read and not yet taken.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.pending
    }

    /// Takes the first `n` pending bytes.
    pub(crate) fn take(&mut self, n: usize) -> Vec<u8> {
        self.pending.drain(..n).collect()
    }

    /// Reads once more into the pending bytes.
    pub(crate) fn fill(&mut self, deadline: Deadline) -> Result<usize, Ended> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let Some(left) = deadline.left() else { return Err(Ended::Late) };
            // A timeout under a millisecond may be rounded to none at all.
            let _ = self.tcp.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Ended::Closed),
                Ok(n) => {
                    self.pending.extend_from_slice(&chunk[..n]);
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(Ended::Late);
                }
                Err(_) => return Err(Ended::Reset),
            }
        }
    }

    /// Reads until the stream ends; the bytes stay pending.
    pub(crate) fn drain(&mut self, deadline: Deadline) -> Ended {
        loop {
            if let Err(end) = self.fill(deadline) {
                return end;
            }
        }
    }

    pub(crate) fn half_close(&self) {
        // The peer may be gone already; then there is nothing left to close.
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Ends the connection with a RST.
    pub(crate) fn reset(self) {
        let _ = socket2::SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
    }
}
