//! Connected stream sockets, TCP or unix.
//!
//! Owns: the descriptor, and what is known of its readiness.
//! Never: holds a buffer while it waits; loses data when a waiting future is dropped.
//! Driven by: connection tasks. Waits borrow the stream, so one task may read and write at once; a clone is another
//! handle on the same socket. At most one waiting reader and one waiting writer at a time.
//! Why readiness and a plain recv: an idle connection holds no buffer, nothing is allocated for an operation, and
//! nothing has to be cancelled when a timeout drops a read. Why small writes go through the ring: see `uring`. Large ones
//! are sent directly, from the buffer while it is in the cache.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

use crate::addr::PeerAddr;
use crate::buf::{Buf, LARGE, MEDIUM};
use crate::fd::SharedFd;
use crate::shared::Shared;
use crate::source::{HANGUP, READABLE, Token, WRITABLE};
use crate::tcp_info::TcpInfo;
use crate::turn;
use crate::worker::{Drive, Worker};

/// Up to so many bytes are sent through the ring.
const RING_SEND: usize = 16 * 1024;

/// A connected socket. Clones are handles on the same socket, which closes with the last one.
#[derive(Clone)]
pub struct Stream {
    inner: Rc<Inner>,
}

struct Inner {
    worker: Rc<Worker>,
    fd: SharedFd,
    /// The registration, made at the first wait or send: a connection that is answered at once may never need one.
    token: Cell<Option<Token>>,
    /// A first read is worth trying before any wait.
    fresh: Cell<bool>,
    /// Its end is our own doing: see [`Cutter::cut`].
    cut: Cell<bool>,
}

/// The right to end a connection from outside, and to look at it, which does not keep it open.
#[derive(Clone, Debug)]
pub struct Cutter(Weak<Inner>);

impl Cutter {
    /// Ends the connection, if it is still there: whoever reads it gets what had arrived, then an error instead of an end
    /// that could be taken for a whole message's; whoever writes gets an error.
    pub fn cut(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.cut.set(true);
            // An error says that it has ended already.
            let _ = rustix::net::shutdown(&inner.fd, rustix::net::Shutdown::Both);
        }
    }

    /// What the kernel knows of the connection, if it is still there and is TCP.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        crate::tcp_info::read(&self.0.upgrade()?.fd).ok()
    }
}

/// How a peer went away (see [`Stream::peer_closed`]).
#[derive(Debug)]
pub enum PeerClosed {
    /// It sent FIN: it will send no more, but may still read.
    Finished,
    /// The connection failed, as after RST.
    Failed(io::Error),
}

impl Inner {
    /// The registration, made now if need be. Whatever is true of the socket by then comes as the first event.
    fn token(&self) -> io::Result<Token> {
        if let Some(token) = self.token.get() {
            return Ok(token);
        }
        let token = match &self.worker.drive {
            Drive::Uring(ring) => ring.register(&self.fd, WRITABLE),
            Drive::Epoll(reactor) => reactor.register(self.fd.as_fd(), WRITABLE)?,
        };
        self.token.set(Some(token));
        Ok(token)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(token) = self.token.get() {
            match &self.worker.drive {
                Drive::Uring(ring) => ring.deregister(token),
                Drive::Epoll(reactor) => reactor.deregister(token),
            }
        }
    }
}

fn would_block<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Stream {
    /// Adopts a connected socket into the calling thread's runtime; makes it nonblocking.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self::adopt(&Worker::current(), fd, true))
    }

    /// As `from_fd`, for a descriptor known to be nonblocking. `ready` says that data may be there already, as on an
    /// accepted connection, where it mostly is.
    pub(crate) fn adopt(worker: &Rc<Worker>, fd: OwnedFd, ready: bool) -> Self {
        Self::from_shared(worker, SharedFd::new(fd), ready)
    }

    fn from_shared(worker: &Rc<Worker>, fd: SharedFd, ready: bool) -> Self {
        Self {
            inner: Rc::new(Inner {
                worker: worker.clone(),
                fd,
                token: Cell::new(None),
                fresh: Cell::new(ready),
                cut: Cell::new(false),
            }),
        }
    }

    /// Takes the descriptor out, for instance to move the connection to another worker. Gives the stream back when
    /// another handle exists, or a wait has been begun on it.
    pub fn into_fd(self) -> Result<OwnedFd, Stream> {
        let inner = Rc::try_unwrap(self.inner).map_err(|inner| Stream { inner })?;
        if let Some(token) = inner.token.get() {
            match &inner.worker.drive {
                Drive::Uring(ring) if ring.is_busy(token) => return Err(Stream { inner: Rc::new(inner) }),
                Drive::Uring(_) => {}
                Drive::Epoll(reactor) => {
                    inner.token.set(None);
                    // A failure means that the kernel had no registration; there is nothing left to undo.
                    let _ = reactor.detach(token, inner.fd.as_fd());
                }
            }
        }
        let (fd, worker) = (inner.fd.clone(), inner.worker.clone());
        drop(inner);
        fd.try_unwrap().map_err(|fd| Self::from_shared(&worker, fd, true))
    }

    /// The descriptor, for socket options.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.fd.as_fd()
    }

    // ---- reading ----

    /// Waits until a read would not block (data, end or error). Holds no buffer.
    pub fn readable(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.poll_readable(cx))
    }

    /// Ready when a read would not block, and the task's share of the turn is not used up (see `turn`).
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_heard(cx));
        turn::poll(cx)
    }

    /// Ready when a read would not block, whoever else waits.
    pub(crate) fn poll_heard(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_flags(READABLE, cx).map(drop)
    }

    fn poll_flags(&self, wanted: u8, cx: &mut Context<'_>) -> Poll<u8> {
        // No memory for a registration: a plain receive says what is the matter.
        let Ok(token) = self.inner.token() else { return Poll::Ready(READABLE | HANGUP) };
        match &self.inner.worker.drive {
            Drive::Uring(ring) => ring.poll_read_flags(token, wanted, cx),
            Drive::Epoll(reactor) => reactor.poll_read_flags(token, wanted, cx),
        }
    }

    fn clear_readable(&self) {
        if let Some(token) = self.inner.token.get() {
            match &self.inner.worker.drive {
                Drive::Uring(ring) => ring.clear_readable(token),
                Drive::Epoll(reactor) => reactor.clear_readable(token),
            }
        }
    }

    /// Waits for data without holding a buffer, then appends what has arrived to `buf`, which grows to at most
    /// 16 KB for it. `Ok(0)` is the peer's end of stream. Dropping the future loses nothing.
    pub fn read(&self, buf: &mut Buf) -> impl Future<Output = io::Result<usize>> {
        self.read_up_to(buf, MEDIUM)
    }

    /// As [`Stream::read`], appending at most `limit` bytes (`limit` is taken from the pool once data has arrived).
    // Plain functions around `poll_read`, because nested `async fn` make the future of every idle connection larger.
    pub fn read_up_to(&self, buf: &mut Buf, limit: usize) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |cx| self.poll_read(cx, buf, limit))
    }

    /// The poll form of [`Stream::read_up_to`].
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf, limit: usize) -> Poll<io::Result<usize>> {
        loop {
            if !self.inner.fresh.take() {
                ready!(self.poll_readable(cx));
            }
            if let Some(read) = self.try_read_up_to(buf, limit).transpose() {
                return Poll::Ready(read);
            }
        }
    }

    /// Appends what has arrived to `buf`, at most its spare room (64 KB if it has none); `None` if nothing has.
    pub fn try_read(&self, buf: &mut Buf) -> io::Result<Option<usize>> {
        let limit = if buf.spare() == 0 { LARGE } else { buf.spare() };
        self.try_read_up_to(buf, limit)
    }

    /// As [`Stream::try_read`], with room for `limit` bytes made as needed.
    pub fn try_read_up_to(&self, buf: &mut Buf, limit: usize) -> io::Result<Option<usize>> {
        let was_empty = buf.is_empty();
        buf.reserve(limit);
        let read = self.recv_now(buf, limit)?;
        match read {
            None => {
                self.clear_readable();
                if was_empty {
                    buf.release();
                }
            }
            // Less than asked for: the socket is drained, and the next byte makes a new event.
            Some(read) if read < limit && read > 0 => self.clear_readable(),
            Some(0) if self.inner.cut.get() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Some(_) => {}
        }
        Ok(read)
    }

    /// Drops up to `limit` bytes that have arrived, without copying them out of the kernel (tcp(7), MSG_TRUNC): how
    /// many, 0 at the peer's end of stream, `None` if nothing has arrived. TCP only.
    pub fn try_discard(&self, limit: usize) -> io::Result<Option<usize>> {
        use std::os::fd::AsRawFd;
        let limit = limit.min(isize::MAX as usize);
        // SAFETY: no memory is lent: with MSG_TRUNC TCP writes nothing, and what would write to the null page is
        // refused with EFAULT.
        let count = unsafe {
            let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
            libc::recv(self.inner.fd.as_fd().as_raw_fd(), std::ptr::null_mut(), limit, flags)
        };
        let dropped = match usize::try_from(count) {
            Ok(count) => Some(count),
            Err(_) => would_block(Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error())
                .unwrap_or(rustix::io::Errno::IO)))?,
        };
        turn::spend();
        match dropped {
            None => self.clear_readable(),
            Some(count) if count < limit && count > 0 => self.clear_readable(),
            Some(0) if self.inner.cut.get() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Some(_) => {}
        }
        Ok(dropped)
    }

    fn recv_now(&self, buf: &mut Buf, limit: usize) -> io::Result<Option<usize>> {
        let spare = buf.spare_mut();
        let limit = limit.min(spare.len());
        let result = rustix::net::recv(&self.inner.fd, &mut spare[..limit], RecvFlags::DONTWAIT);
        let read = would_block(result.map(|(n, _)| n))?;
        if let Some(n) = read {
            buf.commit(n);
            turn::spend();
        }
        Ok(read)
    }

    /// Waits until the peer has finished or the connection failed, consuming nothing: data that arrives meanwhile
    /// is kept for the next read, and the wait goes on. Dropping the future is free.
    pub async fn peer_closed(&self) -> PeerClosed {
        poll_fn(|cx| self.poll_peer_closed(cx)).await
    }

    /// The poll form of [`Stream::peer_closed`]. It takes the place of the waiting reader.
    pub fn poll_peer_closed(&self, cx: &mut Context<'_>) -> Poll<PeerClosed> {
        self.poll_flags(HANGUP, cx).map(|_| match rustix::net::sockopt::socket_error(&self.inner.fd) {
            Ok(Err(errno)) | Err(errno) => PeerClosed::Failed(errno.into()),
            Ok(Ok(())) => PeerClosed::Finished,
        })
    }

    /// Whether the driver listens on this socket already: then a wait for what its peer does asks nothing of the kernel.
    pub fn is_listened_to(&self) -> bool {
        let Some(token) = self.inner.token.get() else { return false };
        match &self.inner.worker.drive {
            Drive::Uring(ring) => ring.is_listening(token),
            Drive::Epoll(_) => true,
        }
    }

    /// Tells the peer now what has arrived, which the kernel may put off for 40 ms to say it along with our next data.
    /// A peer that wrote the start of a message by itself holds the rest back until then (RFC 896; Linux `tcp(7)`,
    /// `TCP_QUICKACK`). Does nothing on other sockets than TCP's.
    pub fn acknowledge(&self) {
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.inner.fd, true);
    }

    // ---- writing ----

    /// Waits until a write would not block.
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> {
        poll_fn(|cx| self.poll_writable(cx))
    }

    /// Ready when a write would not block. Only meaningful after a write that took nothing.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let token = self.inner.token()?;
        match &self.inner.worker.drive {
            Drive::Uring(ring) => ring.poll_writable(token, cx),
            Drive::Epoll(reactor) => reactor.poll_writable(token, cx).map(Ok),
        }
    }

    /// Whether bytes of an earlier write are with the ring: nothing may overtake them.
    fn is_sending(&self) -> io::Result<bool> {
        match (&self.inner.worker.drive, self.inner.token.get()) {
            (Drive::Uring(ring), Some(token)) => ring.is_sending(token),
            _ => Ok(false),
        }
    }

    /// Ready when the kernel has all that was written.
    ///
    /// # Errors
    /// A write that had been taken failed.
    pub fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match (&self.inner.worker.drive, self.inner.token.get()) {
            (Drive::Uring(ring), Some(token)) => ring.poll_sent(token, cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Waits until the kernel has all that was written. Await it before a close: a close does not.
    ///
    /// # Errors
    /// As [`Stream::poll_flushed`].
    pub fn flushed(&self) -> impl Future<Output = io::Result<()>> {
        poll_fn(|cx| self.poll_flushed(cx))
    }

    /// Sends what the socket takes at once; `None` if it takes nothing.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if self.is_sending()? {
            return Ok(None);
        }
        let bytes = &bytes[..bytes.len().min(LARGE)];
        let sent =
            would_block(rustix::net::send(&self.inner.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT))?;
        self.note_write(sent)
    }

    /// As [`Stream::try_write`], for several pieces.
    pub fn try_writev(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if self.is_sending()? {
            return Ok(None);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = would_block(rustix::net::sendmsg(
            &self.inner.fd,
            pieces,
            &mut rustix::net::SendAncillaryBuffer::default(),
            flags,
        ))?;
        self.note_write(sent)
    }

    /// As [`Stream::try_write`], for bytes that more will follow at once: the kernel may hold the last packet back until it
    /// is full (MSG_MORE, send(2)).
    pub fn try_write_before_more(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if self.is_sending()? {
            return Ok(None);
        }
        let bytes = &bytes[..bytes.len().min(LARGE)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | SendFlags::MORE;
        self.note_write(would_block(rustix::net::send(&self.inner.fd, bytes, flags))?)
    }

    fn note_write(&self, sent: Option<usize>) -> io::Result<Option<usize>> {
        turn::spend();
        if sent.is_none() {
            let token = self.inner.token()?;
            match &self.inner.worker.drive {
                Drive::Uring(ring) => ring.write_blocked(token),
                Drive::Epoll(reactor) => reactor.write_blocked(token, self.inner.fd.as_fd())?,
            }
        }
        Ok(sent)
    }

    /// Writes all of `buf` and gives the buffer back, emptied of what was sent. On the ring a small write is taken at
    /// once and sent with the next wait; should it fail, the next write, flush or read tells. A write that is dropped
    /// half-way leaves the peer with a part of it: close the connection then.
    pub fn write_all(&self, mut buf: Buf) -> impl Future<Output = (io::Result<()>, Buf)> {
        poll_fn(move |cx| {
            let result = ready!(self.poll_write_all(cx, &mut buf));
            Poll::Ready((result, buf.take()))
        })
    }

    /// The poll form of [`Stream::write_all`]; `buf` is emptied as it is sent.
    pub fn poll_write_all(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<()>> {
        ready!(self.poll_flushed(cx))?;
        while !self.try_write_all(buf)? {
            ready!(self.poll_writable(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// As [`Stream::write_all`], as far as that needs no wait; false if something is left in `buf`.
    ///
    /// # Errors
    /// As [`Stream::poll_flushed`], or the connection is gone.
    pub fn try_write_all(&self, buf: &mut Buf) -> io::Result<bool> {
        if let Drive::Uring(ring) = &self.inner.worker.drive
            && buf.len() <= RING_SEND
            && !buf.is_empty()
        {
            if self.is_sending()? {
                return Ok(false);
            }
            turn::spend();
            ring.send(self.inner.token()?, buf, None);
        }
        while !buf.is_empty() {
            match self.try_write(buf)? {
                Some(sent) => buf.consume(sent),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// As [`Stream::write_all`], for a head and what follows it, which is not copied.
    pub fn write_with(&self, mut head: Buf, mut tail: Shared) -> impl Future<Output = (io::Result<()>, Buf)> {
        poll_fn(move |cx| {
            let result = ready!(self.poll_write_with(cx, &mut head, &mut tail));
            Poll::Ready((result, head.take()))
        })
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        head: &mut Buf,
        tail: &mut Shared,
    ) -> Poll<io::Result<()>> {
        if let Drive::Uring(ring) = &self.inner.worker.drive {
            ready!(self.poll_flushed(cx))?;
            if head.len() + tail.len() <= RING_SEND {
                turn::spend();
                ring.send(self.inner.token()?, head, Some(tail));
            }
        }
        while !head.is_empty() || !tail.is_empty() {
            match self.try_writev(&[IoSlice::new(head), IoSlice::new(tail)])? {
                Some(sent) => {
                    let first = sent.min(head.len());
                    head.consume(first);
                    tail.consume(sent - first);
                }
                None => ready!(self.poll_writable(cx))?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes all of `bytes`, waiting when the socket is full. For bytes that live elsewhere (a cache).
    pub fn write_slice(&self, mut bytes: &[u8]) -> impl Future<Output = io::Result<()>> {
        poll_fn(move |cx| {
            while !bytes.is_empty() {
                ready!(turn::poll(cx));
                match self.try_write(bytes)? {
                    Some(sent) => bytes = &bytes[sent..],
                    None => ready!(self.poll_writable(cx))?,
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Writes all pieces, waiting when the socket is full.
    pub async fn write_vectored(&self, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            turn::fair().await;
            match self.try_writev(pieces)? {
                Some(sent) => IoSlice::advance_slices(&mut pieces, sent),
                None => self.writable().await?,
            }
        }
        Ok(())
    }

    /// Sends `len` bytes of `file` from `offset`, without copying them through user space. Returns how many were
    /// sent: fewer only if the file is shorter than it was said to be.
    pub async fn send_file(&self, file: &std::fs::File, mut offset: u64, len: u64) -> io::Result<u64> {
        let (start, end) = (offset, offset.saturating_add(len));
        while offset < end {
            turn::fair().await;
            match self.try_send_file(file, &mut offset, end)? {
                Some(0) => break,
                Some(_) => {}
                None => self.writable().await?,
            }
        }
        Ok(offset - start)
    }

    /// One sendfile(2) call: `None` if the socket is full, `Some(0)` at the file's end. Moves `offset`.
    pub fn try_send_file(
        &self,
        file: &std::fs::File,
        offset: &mut u64,
        end: u64,
    ) -> io::Result<Option<usize>> {
        if self.is_sending()? {
            return Ok(None);
        }
        // Bounded, so that a fast peer cannot keep the worker from its other connections.
        let count = end.saturating_sub(*offset).min(1 << 20) as usize;
        let sent = would_block(rustix::fs::sendfile(&self.inner.fd, file, Some(offset), count))?;
        self.note_write(sent)
    }

    /// Sends FIN, behind all that was written: no more will be.
    ///
    /// # Errors
    /// As [`Stream::poll_flushed`], or the connection is gone.
    pub async fn shutdown_write(&self) -> io::Result<()> {
        self.flushed().await?;
        Ok(rustix::net::shutdown(&self.inner.fd, rustix::net::Shutdown::Write)?)
    }

    /// Notes that a connect is under way: `writable` is what ends it.
    pub(crate) fn connecting(&self) -> io::Result<()> {
        self.note_write(None).map(drop)
    }

    // ---- addresses and options ----

    /// The peer's address.
    pub fn peer_addr(&self) -> io::Result<PeerAddr> {
        PeerAddr::from_sock(&socket2::SockRef::from(&self.inner.fd).peer_addr()?)
    }

    /// The own address.
    pub fn local_addr(&self) -> io::Result<PeerAddr> {
        PeerAddr::from_sock(&socket2::SockRef::from(&self.inner.fd).local_addr()?)
    }

    /// TCP_NODELAY.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        socket2::SockRef::from(&self.inner.fd).set_tcp_nodelay(on)
    }

    /// TCP_CORK: hold partial segments back while on (200 ms at most), send them when off.
    pub fn set_cork(&self, on: bool) -> io::Result<()> {
        socket2::SockRef::from(&self.inner.fd).set_tcp_cork(on)
    }

    /// SO_KEEPALIVE, with the idle time, interval and count of probes where given.
    pub fn set_keepalive(&self, keepalive: Keepalive) -> io::Result<()> {
        set_keepalive(&self.inner.fd, keepalive)
    }

    /// The right to end the connection from outside.
    pub fn cutter(&self) -> Cutter {
        Cutter(Rc::downgrade(&self.inner))
    }

    /// Closes with RST instead of FIN (linger of zero), dropping what was not sent yet.
    pub fn abort(self) {
        let _ = socket2::SockRef::from(&self.inner.fd).set_linger(Some(Duration::ZERO));
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::os::fd::AsRawFd;
        f.debug_struct("Stream").field("fd", &self.inner.fd.as_raw_fd()).finish()
    }
}

/// TCP keep-alive probes; `None` leaves the system's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether probes are sent at all.
    pub on: bool,
    /// Idle time before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Unanswered probes before the connection counts as dead.
    pub count: Option<u32>,
}

pub(crate) fn set_keepalive(fd: impl AsFd, keepalive: Keepalive) -> io::Result<()> {
    let socket = socket2::SockRef::from(&fd);
    socket.set_keepalive(keepalive.on)?;
    if !keepalive.on {
        return Ok(());
    }
    let mut settings = socket2::TcpKeepalive::new();
    if let Some(idle) = keepalive.idle {
        settings = settings.with_time(idle);
    }
    if let Some(interval) = keepalive.interval {
        settings = settings.with_interval(interval);
    }
    if let Some(count) = keepalive.count {
        settings = settings.with_retries(count);
    }
    socket.set_tcp_keepalive(&settings)
}
