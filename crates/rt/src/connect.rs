//! Outgoing connections.
//!
//! Owns: options of outgoing sockets. Never: resolves names, retries, or keeps time (wrap it in a timeout).
//! Driven by: upstream pools, health probes of workers.
//! Why a direct nonblocking connect on both drivers: on a local network it is mostly done when the call returns, and
//! then the ring has nothing to add.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::stream::{Keepalive, Stream, set_keepalive};
use crate::worker::Worker;

/// Options of an outgoing connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// The local address to connect from.
    pub source: Option<SocketAddr>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// Keep-alive probes.
    pub keepalive: Option<Keepalive>,
    /// IP_TRANSPARENT: `source` may be an address of another machine (needs CAP_NET_RAW).
    pub transparent: bool,
    /// SO_RCVBUF in bytes.
    pub recv_buffer: Option<usize>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: Option<usize>,
}

/// Connects over TCP.
pub async fn connect(addr: SocketAddr, options: &ConnectOptions) -> io::Result<Stream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new_raw(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    if options.nodelay {
        socket.set_tcp_nodelay(true)?;
    }
    if let Some(keepalive) = options.keepalive {
        set_keepalive(&socket, keepalive)?;
    }
    if let Some(bytes) = options.recv_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(source) = options.source {
        if options.transparent {
            set_transparent(&socket, source)?;
        }
        if source.port() == 0 {
            // The port is chosen at connect, by the whole four-tuple: more than 28,000 connections fit.
            without_port(&socket)?;
        }
        socket.bind(&source.into())?;
    }
    finish(socket, &addr.into()).await
}

/// Connects to a unix socket.
pub async fn connect_unix(path: &Path) -> io::Result<Stream> {
    let socket = Socket::new_raw(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    finish(socket, &SockAddr::unix(path)?).await
}

/// Allows a socket to send from an address of another machine.
///
/// # Errors
/// The process has not the right; the error's text says so, and what to do.
pub(crate) fn set_transparent(socket: &Socket, source: SocketAddr) -> io::Result<()> {
    let set = match source {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
        SocketAddr::V6(_) => {
            let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT);
            set_flag(socket, level, name)
        }
    };
    set.map_err(|error| {
        let code = error.raw_os_error().unwrap_or_default();
        let system = error.to_string();
        let words = system.split(" (os error").next().unwrap_or_default();
        io::Error::other(format!(
            "setsockopt(IP_TRANSPARENT) failed ({code}: {words}); sending from addresses of others needs CAP_NET_RAW"
        ))
    })
}

fn set_flag(socket: &Socket, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn without_port(socket: &Socket) -> io::Result<()> {
    set_flag(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

async fn finish(socket: Socket, addr: &SockAddr) -> io::Result<Stream> {
    let pending = match socket.connect(addr) {
        Ok(()) => false,
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => true,
        Err(error) => return Err(error),
    };
    let stream = Stream::adopt(&Worker::current(), socket.into(), false);
    if pending {
        stream.connecting()?;
        stream.writable().await?;
        if let Some(error) = socket2::SockRef::from(&stream.as_fd()).take_error()? {
            return Err(error);
        }
    }
    Ok(stream)
}
