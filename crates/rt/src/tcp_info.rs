//! What the kernel knows of a TCP connection.
//!
//! Owns: reading TCP_INFO.
//! Never: keeps a figure; each asking is a system call.
//! Driven by: variables, by [`crate::Cutter::tcp_info`].

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The words of the kernel's `struct tcp_info` behind its first eight bytes that are read here.
const WORDS: usize = 24;

/// Figures of a TCP connection, as the kernel counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt: u32,
    /// Its mean deviation in microseconds.
    pub rttvar: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Space to receive into, in bytes.
    pub rcv_space: u32,
}

#[repr(C)]
#[derive(Default)]
struct Raw {
    bytes: [u8; 8],
    words: [u32; WORDS],
}

/// Asks the kernel.
///
/// # Errors
/// The socket is no TCP connection, or the kernel tells less than is asked for.
pub(crate) fn read(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = Raw::default();
    let mut length = size_of::<Raw>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `raw`, which is plain integers of that size.
    let result = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::from_mut(&mut raw).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < size_of::<Raw>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let [.., rtt, rttvar, _, snd_cwnd, _, _, _, rcv_space, _] = raw.words;
    Ok(TcpInfo { rtt, rttvar, snd_cwnd, rcv_space })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_has_figures_and_a_unix_socket_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let info = super::read(&client).expect("figures");
        // The kernel begins with ten segments (RFC 6928), and has measured the handshake.
        assert_eq!(info.snd_cwnd, 10, "{info:?}");
        assert!(info.rcv_space > 1000 && info.rtt < 1_000_000, "{info:?}");
        let (one, _other) = UnixStream::pair().expect("a pair");
        super::read(&one).expect_err("no TCP");
    }
}
