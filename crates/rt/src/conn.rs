//! A connection, plain or encrypted, with one face.
//!
//! Owns: nothing; it forwards. Never: hides the difference where it matters (`tls`).
//! Driven by: `wire` and `engine`, which serve both kinds with one code path.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker, ready};

use crate::addr::PeerAddr;
use crate::buf::{Buf, MEDIUM};
use crate::stream::Stream;
use crate::tls::TlsStream;

/// A plain or encrypted connection. Clones are handles on the same connection.
#[derive(Debug, Clone)]
pub enum Conn {
    /// TCP or unix.
    Plain(Stream),
    /// TLS over it.
    Tls(TlsStream),
}

impl From<Stream> for Conn {
    fn from(stream: Stream) -> Self {
        Self::Plain(stream)
    }
}

impl From<TlsStream> for Conn {
    fn from(stream: TlsStream) -> Self {
        Self::Tls(stream)
    }
}

macro_rules! forward {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            Conn::Plain($stream) => $call,
            Conn::Tls($stream) => $call,
        }
    };
}

impl Conn {
    /// The socket: addresses and options. Do not read or write it on an encrypted connection.
    #[inline]
    pub fn socket(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.stream(),
        }
    }

    /// The encryption, if any.
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// See [`Stream::readable`].
    pub fn readable(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.poll_readable(cx))
    }

    /// See [`Stream::poll_readable`].
    #[inline]
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        forward!(self, stream => stream.poll_readable(cx))
    }

    /// Whether anything has been heard that no read took: data, an end, a failure. Asks the driver's notes, not the
    /// kernel: what came since the last round of the loop is heard in the next one. The first call makes the driver
    /// listen. Not while somebody else waits to read.
    pub fn heard(&self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        forward!(self, stream => stream.poll_heard(cx)).is_ready()
    }

    /// See [`Stream::read`]; for TLS see [`TlsStream::read`].
    pub fn read(&self, buf: &mut Buf) -> impl Future<Output = io::Result<usize>> {
        self.read_up_to(buf, MEDIUM)
    }

    /// See [`Stream::read_up_to`].
    pub fn read_up_to(&self, buf: &mut Buf, limit: usize) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |cx| self.poll_read(cx, buf, limit))
    }

    /// See [`Stream::poll_read`].
    #[inline]
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf, limit: usize) -> Poll<io::Result<usize>> {
        forward!(self, stream => stream.poll_read(cx, buf, limit))
    }

    /// See [`Stream::try_read`].
    pub fn try_read(&self, buf: &mut Buf) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_read(buf))
    }

    /// See [`Stream::try_read_up_to`].
    pub fn try_read_up_to(&self, buf: &mut Buf, limit: usize) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_read_up_to(buf, limit))
    }

    /// See [`Stream::writable`].
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> {
        self.socket().writable()
    }

    /// See [`Stream::try_write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_write(bytes))
    }

    /// See [`Stream::try_writev`].
    pub fn try_writev(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_writev(pieces))
    }

    /// See [`Stream::write_all`].
    pub fn write_all(&self, mut buf: Buf) -> impl Future<Output = (io::Result<()>, Buf)> {
        poll_fn(move |cx| {
            let result = ready!(self.poll_write_all(cx, &mut buf));
            Poll::Ready((result, buf.take()))
        })
    }

    /// See [`Stream::poll_write_all`].
    pub fn poll_write_all(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<()>> {
        forward!(self, stream => stream.poll_write_all(cx, buf))
    }

    /// See [`Stream::write_slice`].
    pub async fn write_slice(&self, bytes: &[u8]) -> io::Result<()> {
        forward!(self, stream => stream.write_slice(bytes).await)
    }

    /// See [`Stream::write_vectored`].
    pub async fn write_vectored(&self, pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        forward!(self, stream => stream.write_vectored(pieces).await)
    }

    /// See [`Stream::send_file`].
    pub async fn send_file(&self, file: &std::fs::File, offset: u64, len: u64) -> io::Result<u64> {
        forward!(self, stream => stream.send_file(file, offset, len).await)
    }

    /// See [`Stream::flushed`].
    pub fn flushed(&self) -> impl Future<Output = io::Result<()>> {
        self.socket().flushed()
    }

    /// Ends writing: FIN, with close_notify before it on TLS.
    pub async fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown_write().await,
            Self::Tls(tls) => tls.shutdown_write().await,
        }
    }

    /// See [`Stream::abort`].
    pub fn abort(self) {
        forward!(self, stream => stream.abort())
    }

    /// See [`Stream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<PeerAddr> {
        self.socket().peer_addr()
    }

    /// See [`Stream::local_addr`].
    pub fn local_addr(&self) -> io::Result<PeerAddr> {
        self.socket().local_addr()
    }
}
