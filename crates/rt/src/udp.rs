//! Datagram sockets: bound ones that hear many peers, connected ones that hear one.
//!
//! Owns: the descriptor with what is known of its readiness; the kernel's form of addresses in messages.
//! Never: knows a session; keeps a datagram: what the kernel cannot take now is for the caller to wait with, or to drop.
//! Driven by: services of datagrams.
//! Why readiness on both drivers: one wake-up reads up to [`crate::datagram::BATCH`] datagrams by one system call (recvmmsg(2)), which the
//! ring would do by one operation each. Why the destination of each: a socket bound to all addresses must answer from the
//! one that was asked, or clients drop the answer.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, Socket, Type};

use crate::datagram::{Batch, Control, sock_addr};
use crate::fd::SharedFd;
use crate::listen::ListenOptions;
use crate::source::{READABLE, Token};
use crate::turn;
use crate::worker::{Drive, Worker};

/// Opens a socket that takes datagrams. Of the options those about connections have no effect.
///
/// # Errors
/// The address cannot be had.
pub fn bind_udp(addr: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    udp_socket(addr, options, options.reuse_port).map(Into::into)
}

/// As [`crate::probe`], for datagrams.
///
/// # Errors
/// Another program holds the address.
pub fn probe_udp(addr: SocketAddr, options: &ListenOptions) -> io::Result<()> {
    udp_socket(addr, options, false).map(drop)
}

/// Whether a descriptor is a datagram socket.
pub fn takes_datagrams(fd: impl AsFd) -> bool {
    rustix::net::sockopt::socket_type(fd).is_ok_and(|kind| kind == rustix::net::SocketType::DGRAM)
}

fn udp_socket(addr: SocketAddr, options: &ListenOptions, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // No SO_REUSEADDR: for datagrams it would share the port with any other program of this user that asks for it, too.
    socket.set_reuse_port(reuse_port)?;
    options.apply(&socket, addr)?;
    if addr.ip().is_unspecified() {
        tell_destinations(&socket, addr.is_ipv6())?;
    }
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Has the kernel say with each datagram to which address it was sent.
fn tell_destinations(socket: &Socket, v6: bool) -> io::Result<()> {
    let (level, name) = match v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
    };
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

/// A datagram socket in use by this worker.
pub struct UdpSocket {
    worker: Rc<Worker>,
    fd: SharedFd,
    token: Token,
}

impl UdpSocket {
    /// Adopts a socket into the calling thread's runtime; makes it nonblocking.
    ///
    /// # Errors
    /// The driver has no room for it.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let worker = Worker::current();
        let fd = SharedFd::new(fd);
        let token = worker.listen_to(&fd)?;
        Ok(Self { worker, fd, token })
    }

    /// A socket that sends to one peer and hears that peer alone, from a local address if one is given, which may be another machine's if `transparent`. What the peer's
    /// machine says about datagrams that it does not take comes as an error of a later call.
    ///
    /// # Errors
    /// There is no way to the peer, the local address cannot be had, or no descriptor is left.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn connect(peer: SocketAddr, local: Option<SocketAddr>, transparent: bool) -> io::Result<Self> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new_raw(Domain::for_address(peer), kind, Some(Protocol::UDP))?;
        if let Some(local) = local {
            if transparent {
                crate::connect::set_transparent(&socket, local)?;
            }
            socket.bind(&local.into())?;
        }
        socket.connect(&peer.into())?;
        Self::from_fd(socket.into())
    }

    /// The descriptor.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// It has none.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = socket2::SockRef::from(&self.fd).local_addr()?;
        local.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Waits until there is something to read: a datagram, or an error. Dropping the wait loses nothing.
    pub async fn readable(&self) {
        poll_fn(|cx| {
            std::task::ready!(self.poll_readable(cx));
            turn::poll(cx)
        })
        .await;
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.worker.drive {
            Drive::Uring(ring) => ring.poll_read_flags(self.token, READABLE, cx).map(drop),
            Drive::Epoll(reactor) => reactor.poll_read_flags(self.token, READABLE, cx).map(drop),
        }
    }

    /// Takes what has arrived into a batch, whose former content is dropped; how many that was, at least one.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn recv(&self, batch: &mut Batch) -> io::Result<usize> {
        loop {
            self.readable().await;
            if let Some(count) = self.try_recv(batch)? {
                return Ok(count);
            }
        }
    }

    /// As [`UdpSocket::recv`], if something has arrived.
    ///
    /// # Errors
    /// Those of the socket; on a connected one, what the peer's machine said about an earlier datagram.
    pub fn try_recv(&self, batch: &mut Batch) -> io::Result<Option<usize>> {
        turn::spend();
        match batch.fill(self.fd.as_fd()) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.drained();
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A datagram socket has no end: an error that was read leaves nothing to be read.
    fn drained(&self) {
        match &self.worker.drive {
            Drive::Uring(ring) => ring.clear_read(self.token),
            Drive::Epoll(reactor) => reactor.clear_read(self.token),
        }
    }

    /// Sends to the peer of a connected socket. False: the kernel takes none now.
    ///
    /// # Errors
    /// Those of the socket; also what the peer's machine said about an earlier datagram.
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<bool> {
        taken(rustix::net::send(&self.fd, datagram, rustix::net::SendFlags::NOSIGNAL))
    }

    /// Sends to a peer, from an own address where that is to be chosen. False: the kernel takes none now.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn try_send_to(&self, datagram: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<bool> {
        let mut control = Control::default();
        let length = from.map_or(0, |from| control.set_source(from, to));
        self.send_message(datagram, to, &mut control, length)
    }

    /// Whether the kernel cuts what is sent by [`UdpSocket::try_send_segments`].
    pub fn can_segment(&self) -> bool {
        let mut size: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the option's value is an int; both it and its length outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw mut size).cast(),
                &raw mut length,
            )
        };
        result == 0
    }

    /// As [`UdpSocket::try_send_to`], many datagrams of one size, the last one perhaps smaller.
    ///
    /// # Errors
    /// Those of the socket; also that kernel or device cannot cut.
    pub fn try_send_segments(
        &self,
        datagrams: &[u8],
        size: usize,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<bool> {
        let mut control = Control::default();
        let length = from.map_or(0, |from| control.set_source(from, to));
        let length = control.add_segments(length, u16::try_from(size).unwrap_or(u16::MAX));
        self.send_message(datagrams, to, &mut control, length)
    }

    fn send_message(
        &self,
        datagram: &[u8],
        to: SocketAddr,
        control: &mut Control,
        length: usize,
    ) -> io::Result<bool> {
        let name = sock_addr(to);
        let mut piece =
            libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
        // SAFETY: all zeros is a message without anything.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = name.as_ptr().cast_mut().cast();
        message.msg_namelen = name.len();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        if length > 0 {
            message.msg_control = control.as_mut_ptr();
            message.msg_controllen = length as _;
        }
        // SAFETY: the message points at values that outlive the call, with their lengths; a sent piece is only read.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error());
        taken(sent.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)))
    }
}

/// Whether the kernel took a datagram, which it does wholly or not at all.
fn taken(sent: rustix::io::Result<usize>) -> io::Result<bool> {
    use rustix::io::Errno;
    match sent {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        match &self.worker.drive {
            Drive::Uring(ring) => ring.deregister(self.token),
            // Duplicates of the socket may stay open, so the registration must go by itself.
            Drive::Epoll(reactor) => drop(reactor.detach(self.token, self.fd.as_fd())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoChoice, Runtime, RuntimeConfig};
    use std::net::UdpSocket as Plain;

    fn on_both(test: impl AsyncFn()) {
        for io in [IoChoice::Epoll, IoChoice::Auto] {
            let runtime = Runtime::new(RuntimeConfig { io, ..Default::default() }).expect("a runtime");
            runtime.block_on(test());
        }
    }

    fn bound(addr: &str) -> UdpSocket {
        let options = ListenOptions::default();
        UdpSocket::from_fd(bind_udp(addr.parse().expect("an address"), &options).expect("a port"))
            .expect("a runtime")
    }

    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        on_both(async || {
            let socket = bound("0.0.0.0:0");
            let port = socket.local_addr().expect("bound").port();
            let client = Plain::bind("127.0.0.1:0").expect("a port");
            for ip in ["127.0.0.1", "127.0.0.2"] {
                let asked: SocketAddr = format!("{ip}:{port}").parse().expect("an address");
                client.send_to(b"ping", asked).expect("sent");
                client.send_to(b"", asked).expect("sent");
                let mut batch = Batch::new();
                let mut heard = Vec::new();
                while heard.len() < 2 {
                    socket.recv(&mut batch).await.expect("a datagram");
                    heard.extend(batch.iter().map(|one| (one.data.to_vec(), one.from, one.to)));
                }
                assert_eq!(heard[0].0, b"ping");
                assert_eq!(heard[1].0, b"");
                let (from, to) = (heard[0].1, heard[0].2);
                assert_eq!((from, to), (client.local_addr().expect("bound"), Some(asked.ip())));
                assert!(socket.try_send_to(b"pong", from, to).expect("sent"));
                let mut answer = [0; 9];
                let (length, by) = client.recv_from(&mut answer).expect("an answer");
                assert_eq!((&answer[..length], by), (&b"pong"[..], asked));
            }
        });
    }

    #[test]
    fn a_peer_that_is_not_there_is_told_of() {
        on_both(async || {
            let gone = Plain::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
            let socket = UdpSocket::connect(gone, None, false).expect("a socket");
            assert!(socket.try_send(b"x").expect("nothing is known yet"));
            let error = socket.recv(&mut Batch::new()).await.expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
            // What was said is said once.
            assert!(socket.try_recv(&mut Batch::new()).expect("no error").is_none());
        });
    }

    #[test]
    fn many_arrive_in_few_calls_and_in_order() {
        on_both(async || {
            let socket = bound("[::1]:0");
            let client = Plain::bind("[::1]:0").expect("a port");
            let to = socket.local_addr().expect("bound");
            for n in 0..50_u8 {
                client.send_to(&[n; 100], to).expect("sent");
            }
            let (mut batch, mut heard, mut calls) = (Batch::new(), Vec::new(), 0);
            while heard.len() < 50 {
                socket.recv(&mut batch).await.expect("a datagram");
                heard.extend(batch.iter().map(|one| one.data[0]));
                calls += 1;
            }
            assert_eq!(heard, (0..50).collect::<Vec<u8>>());
            assert!(calls <= 10, "{calls}");
        });
    }
}
