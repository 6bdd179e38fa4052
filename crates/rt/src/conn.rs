//! A connection, plain or encrypted, with one face.
//!
//! Owns: nothing; it forwards. Never: hides the difference where it matters (`tls`).
//! Driven by: `wire` and `engine`, which serve both kinds with one code path.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use crate::addr::PeerAddr;
use crate::buf::Buf;
use crate::stream::{PeerClosed, Stream};
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
    pub async fn readable(&self) {
        forward!(self, stream => stream.readable().await)
    }

    /// See [`Stream::poll_readable`].
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        forward!(self, stream => stream.poll_readable(cx))
    }

    /// See [`Stream::read`]; for TLS see [`TlsStream::read`].
    pub async fn read(&self, buf: &mut Buf) -> io::Result<usize> {
        forward!(self, stream => stream.read(buf).await)
    }

    /// See [`Stream::read_up_to`].
    pub async fn read_up_to(&self, buf: &mut Buf, limit: usize) -> io::Result<usize> {
        forward!(self, stream => stream.read_up_to(buf, limit).await)
    }

    /// See [`Stream::try_read`].
    pub fn try_read(&self, buf: &mut Buf) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_read(buf))
    }

    /// See [`Stream::try_read_up_to`].
    pub fn try_read_up_to(&self, buf: &mut Buf, limit: usize) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_read_up_to(buf, limit))
    }

    /// See [`Stream::peer_closed`].
    pub async fn peer_closed(&self) -> PeerClosed {
        forward!(self, stream => stream.peer_closed().await)
    }

    /// See [`Stream::writable`].
    pub async fn writable(&self) -> io::Result<()> {
        forward!(self, stream => stream.writable().await)
    }

    /// See [`Stream::try_write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        forward!(self, stream => stream.try_write(bytes))
    }

    /// See [`Stream::write_all`].
    pub async fn write_all(&self, buf: Buf) -> (io::Result<()>, Buf) {
        forward!(self, stream => stream.write_all(buf).await)
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

    /// Ends writing: FIN, with close_notify before it on TLS.
    pub async fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.shutdown_write(),
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
