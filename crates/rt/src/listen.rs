//! Listening sockets: opening them, and accepting from them.
//!
//! Owns: socket options of listeners, and what is known of their readiness.
//! Never: decides when a listener closes; accepts a connection that nobody asked for.
//! Driven by: the process (opens descriptors), workers (adopt and accept).
//! Why: sockets belong to the process and outlive the workers that accept from them, so opening yields a plain
//! descriptor, and a worker makes its `Listener` from that. Accepting is readiness and accept4(2) on both drivers: an
//! accept on the ring costs a round of the loop for each connection, and may hold one when its worker stops.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::addr::PeerAddr;
use crate::fd::SharedFd;
use crate::source::{READABLE, Token};
use crate::stream::{Keepalive, Stream, set_keepalive};
use crate::worker::{Drive, Worker};

/// Options of a listening socket.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the kernel completes and queues; capped by net.core.somaxconn.
    pub backlog: i32,
    /// SO_REUSEPORT: several sockets (one per worker) share the port, the kernel spreads connections.
    pub reuse_port: bool,
    /// IPV6_V6ONLY: an IPv6 socket takes no IPv4 connections.
    pub v6_only: bool,
    /// TCP_FASTOPEN queue length.
    pub fast_open: Option<u32>,
    /// TCP_DEFER_ACCEPT: hand a connection over only once it has sent data, waiting at most this long.
    pub defer_accept: Option<Duration>,
    /// SO_RCVBUF in bytes.
    pub recv_buffer: Option<usize>,
    /// SO_SNDBUF in bytes.
    pub send_buffer: Option<usize>,
    /// TCP_NODELAY of accepted connections (inherited, so that it costs no system call for each). Without it the last
    /// part of an answer waits for the acknowledgement of what went before, up to 40 ms.
    pub nodelay: bool,
    /// Keep-alive probes of accepted connections (inherited).
    pub keepalive: Option<Keepalive>,
    /// SO_BINDTODEVICE.
    pub device: Option<String>,
    /// IP_FREEBIND / transparent use: bind to an address that the machine does not have yet.
    pub free_bind: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 4096,
            reuse_port: false,
            v6_only: true,
            fast_open: None,
            defer_accept: None,
            recv_buffer: None,
            send_buffer: None,
            nodelay: true,
            keepalive: None,
            device: None,
            free_bind: false,
        }
    }
}

impl ListenOptions {
    /// Sets what sockets of any kind have.
    pub(crate) fn apply(&self, socket: &Socket, addr: SocketAddr) -> io::Result<()> {
        if addr.is_ipv6() {
            socket.set_only_v6(self.v6_only)?;
        }
        if self.free_bind {
            if addr.is_ipv6() { socket.set_freebind_v6(true)? } else { socket.set_freebind_v4(true)? }
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(bytes) = self.recv_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }
}

fn tcp_socket(addr: SocketAddr, options: &ListenOptions, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    options.apply(&socket, addr)?;
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(keepalive) = options.keepalive {
        set_keepalive(&socket, keepalive)?;
    }
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Checks that no other program holds `addr`, by binding to it without SO_REUSEPORT (and without listening).
///
/// With SO_REUSEPORT alone a second program of the same user would silently share the port. Do this before the first
/// socket of an address is opened, never while own sockets are bound to it.
pub fn probe(addr: SocketAddr, options: &ListenOptions) -> io::Result<()> {
    // Beside a socket that listens, binding is refused already, SO_REUSEADDR or not. Listening here would for a moment
    // take connections that are then reset.
    tcp_socket(addr, options, false).map(drop)
}

/// Opens a listening TCP socket. Port 0 asks the kernel for one (see [`listen_addr`]).
pub fn listen_tcp(addr: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = tcp_socket(addr, options, options.reuse_port)?;
    socket.listen(options.backlog)?;
    set_listen_only(&socket, options)?;
    Ok(socket.into())
}

fn set_listen_only(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let set = |name: libc::c_int, value: libc::c_int| -> io::Result<()> {
        // SAFETY: the option's value is an int that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                name,
                std::ptr::from_ref(&value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    if let Some(queue) = options.fast_open {
        set(libc::TCP_FASTOPEN, queue.min(i32::MAX as u32) as i32)?;
    }
    if let Some(wait) = options.defer_accept {
        set(libc::TCP_DEFER_ACCEPT, wait.as_secs().clamp(1, i32::MAX as u64) as i32)?;
    }
    Ok(())
}

/// Opens a listening unix socket. `named` is called once its file is there, and before anybody can connect.
///
/// # Errors
/// Also if there is a file of this name already; whether it may go is for the caller to know.
pub fn listen_unix(
    path: &Path,
    options: &ListenOptions,
    named: impl FnOnce() -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    named()?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// The address a listening socket is bound to.
pub fn listen_addr(fd: impl AsFd) -> io::Result<PeerAddr> {
    PeerAddr::from_sock(&socket2::SockRef::from(&fd).local_addr()?)
}

/// Connections accepted in one go before other tasks get their turn.
const BATCH: u8 = 16;

/// A listening socket in use by this worker.
pub struct Listener {
    worker: Rc<Worker>,
    fd: SharedFd,
    token: Token,
    /// The own address of all its connections, where that is one.
    local: Option<Rc<PeerAddr>>,
    /// Connections that may still be accepted in this turn.
    budget: Cell<u8>,
}

impl Listener {
    /// Adopts a listening socket into the calling thread's runtime; makes it nonblocking. To keep the socket open
    /// beyond this listener, pass a duplicate (`OwnedFd::try_clone`).
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let worker = Worker::current();
        let fd = SharedFd::new(fd);
        let token = worker.listen_to(&fd)?;
        let local =
            listen_addr(&fd).ok().filter(|addr| !addr.inet().is_some_and(|addr| addr.ip().is_unspecified()));
        let local = local.map(Rc::new);
        Ok(Self { worker, fd, token, local, budget: Cell::new(BATCH) })
    }

    /// The descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<PeerAddr> {
        listen_addr(&self.fd)
    }

    /// The own address of a connection accepted here, which all connections share unless the socket is bound to all
    /// addresses: then the kernel is asked.
    pub fn local_of(&self, stream: &Stream) -> io::Result<Rc<PeerAddr>> {
        self.local.clone().map_or_else(|| stream.local_addr().map(Rc::new), Ok)
    }

    /// The next connection. Dropping the future loses none. Errors of one connection (aborted before it was accepted)
    /// are skipped; what comes back is about this process, such as no descriptors left: wait a little before the
    /// next call.
    pub async fn accept(&self) -> io::Result<(Stream, PeerAddr)> {
        loop {
            if self.budget.get() == 0 {
                self.budget.set(BATCH);
                crate::runtime::yield_now().await;
            }
            poll_fn(|cx| self.poll_acceptable(cx)).await;
            if let Some(accepted) = self.try_accept()? {
                self.budget.set(self.budget.get() - 1);
                return Ok(accepted);
            }
            self.budget.set(BATCH);
        }
    }

    fn poll_acceptable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.worker.drive {
            Drive::Uring(ring) => ring.poll_read_flags(self.token, READABLE, cx).map(drop),
            Drive::Epoll(reactor) => reactor.poll_read_flags(self.token, READABLE, cx).map(drop),
        }
    }

    /// A connection, if one is queued.
    pub fn try_accept(&self) -> io::Result<Option<(Stream, PeerAddr)>> {
        loop {
            match rustix::net::acceptfrom_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, addr)) => {
                    return Ok(Some((Stream::adopt(&self.worker, fd, true), peer_of(addr)?)));
                }
                Err(Errno::AGAIN) => {
                    self.clear();
                    return Ok(None);
                }
                Err(errno) => {
                    let error = io::Error::from(errno);
                    if !is_transient(&error) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// For a worker that stops accepting: a connection that is still queued, if any. Nothing is ever in flight, so
    /// this is `try_accept` without its errors.
    pub async fn stop(&self) -> Option<(Stream, PeerAddr)> {
        self.try_accept().ok().flatten()
    }

    fn clear(&self) {
        match &self.worker.drive {
            Drive::Uring(ring) => ring.clear_readable(self.token),
            Drive::Epoll(reactor) => reactor.clear_readable(self.token),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // What is still queued is reset when the last descriptor of the socket closes: a listener that goes away for
        // good is first drained with `try_accept`.
        match &self.worker.drive {
            Drive::Uring(ring) => ring.deregister(self.token),
            // Duplicates of the socket may stay open, so the registration must go by itself.
            Drive::Epoll(reactor) => drop(reactor.detach(self.token, self.fd.as_fd())),
        }
    }
}

fn peer_of(addr: Option<rustix::net::SocketAddrAny>) -> io::Result<PeerAddr> {
    let Some(addr) = addr else {
        return Ok(PeerAddr::Unix(None));
    };
    match SocketAddr::try_from(addr.clone()) {
        Ok(inet) => Ok(PeerAddr::Inet(inet)),
        Err(_) => {
            let unix = rustix::net::SocketAddrUnix::try_from(addr)?;
            Ok(PeerAddr::Unix(
                unix.path_bytes()
                    .filter(|path| !path.is_empty())
                    .map(|path| Path::new(std::ffi::OsStr::from_bytes(path)).to_path_buf()),
            ))
        }
    }
}

/// Errors of the connection that would have been accepted, which accept(2) says to treat like `EAGAIN`.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
                | libc::EPERM
        )
    )
}
