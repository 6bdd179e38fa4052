//! An encrypted stream: a socket, a TLS session, and no buffers while idle.
//!
//! Owns: the order of reads, writes and close_notify on one connection.
//! Never: holds a buffer between two requests; mixes the records of two writes.
//! Driven by: connection tasks, through `Conn` or directly.
//! Why writes go in groups of 48 KB: three records and what they add fit the largest pooled buffer, and the
//! ciphertext is still in the cache when the kernel copies it.
//!
//! ```text
//!   socket --> incoming (ciphertext) --session--> plain --> reader
//!   writer --session--> out (ciphertext) --> socket        out also collects tickets, alerts, key updates
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::{HandshakeKind, ProtocolVersion};

use super::cert::ClientCert;
use super::digest::Digest;
use super::early::Early;
use super::error::{AcceptError, CertFailure, alerted, truncated};
use super::session::{Io, Session, TlsSession};
use super::suites::{TlsVersion, name_of};
use super::verify::TrustedClient;
use crate::buf::{Buf, LARGE, MEDIUM, SMALL};
use crate::stream::Stream;

/// Plaintext bytes encrypted and sent at a time.
const GROUP: usize = 48 * 1024;

/// Receives for one read: whoever sends tickets, key updates or empty records only is heard out in the next turn.
const RECEIVES: usize = 16;

/// An encrypted connection. Clones are handles on the same connection.
#[derive(Clone)]
pub struct TlsStream {
    inner: Rc<Inner>,
}

struct Inner {
    stream: Stream,
    state: RefCell<State>,
    server_name: Option<Box<str>>,
    basis: Option<Digest>,
}

struct State {
    session: Session,
    incoming: Buf,
    plain: Buf,
    out: Buf,
    /// The last receive filled its buffer: more is likely to come, in bulk.
    bulk: bool,
    /// close_notify was sent, or must not be any more.
    closed: bool,
    /// The socket's end was read, or the session failed: what every later read says.
    end: Option<End>,
    client_failure: Option<CertFailure>,
    /// The client has sent early data.
    early: Option<Early>,
}

#[derive(Clone, Copy)]
enum End {
    Truncated,
    Failed,
}

impl State {
    fn with_io<T>(&mut self, run: impl FnOnce(&mut Session, &mut Io<'_>) -> T) -> T {
        let mut io = Io { incoming: &mut self.incoming, plain: &mut self.plain, out: &mut self.out };
        run(&mut self.session, &mut io)
    }

    /// Gives back what holds nothing.
    fn shrink(&mut self) {
        for buf in [&mut self.incoming, &mut self.plain, &mut self.out] {
            if buf.is_empty() {
                buf.release();
            }
        }
    }

    fn handshaking(&self) -> bool {
        self.session.facts().is_handshaking()
    }

    /// Tells whoever waits for it how a handshake that early data came in has ended, if it has.
    #[cold]
    fn note_early(&mut self, early: &Early) {
        if self.end.is_some() {
            early.end(false);
        } else if !self.handshaking() {
            early.end(true);
        }
    }

    /// How much ciphertext to ask for: a small head first, the whole of a record begun, or bulk.
    fn receive_limit(&self) -> usize {
        if self.bulk {
            return LARGE - self.incoming.len().min(LARGE - SMALL);
        }
        match self.incoming.get(3..5) {
            Some(len) => {
                let record = 5 + (usize::from(len[0]) << 8 | usize::from(len[1]));
                record.saturating_sub(self.incoming.len()).max(1)
            }
            None => SMALL,
        }
    }
}

fn invalid(error: &rustls::Error) -> io::Error {
    match error {
        rustls::Error::AlertReceived(_) => alerted(error.to_string()),
        _ => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
    }
}

impl TlsStream {
    pub(crate) fn new(
        stream: Stream,
        session: Session,
        incoming: Buf,
        server_name: Option<String>,
        basis: Option<Digest>,
    ) -> Self {
        let state = State {
            session,
            incoming,
            plain: Buf::new(),
            out: Buf::new(),
            bulk: false,
            closed: false,
            end: None,
            client_failure: None,
            early: None,
        };
        let server_name = server_name.map(String::into_boxed_str);
        Self { inner: Rc::new(Inner { stream, state: RefCell::new(state), server_name, basis }) }
    }

    /// Drives the handshake to its end, or until early data is there, which [`TlsStream::early`] then says.
    pub(crate) async fn handshake(&self) -> Result<(), AcceptError> {
        let stream = &self.inner.stream;
        let mut received = false;
        loop {
            let (result, out, done) = {
                let mut state = self.inner.state.borrow_mut();
                let result = state.with_io(|session, io| session.feed(io));
                let early = state.handshaking() && !state.plain.is_empty() && result.is_ok();
                if early {
                    state.early = Some(Early::default());
                }
                let done = !state.handshaking();
                // A TLS 1.3 server's tickets travel with its first data, or when the connection falls idle. For
                // everything else the peer is waiting.
                let version = state.session.facts().protocol_version();
                let tickets = state.session.is_server() && version == Some(ProtocolVersion::TLSv1_3);
                let keep = done && result.is_ok() && tickets;
                let out = if keep { Buf::new() } else { state.out.take() };
                (result, out, done || early)
            };
            if !out.is_empty() {
                if result.is_err() {
                    let _ = stream.try_write(&out);
                } else {
                    stream.write_all(out).await.0?;
                }
            }
            if let Err(error) = result {
                self.inner.state.borrow_mut().end = Some(End::Failed);
                return Err(match error {
                    rustls::Error::AlertReceived(_) => AcceptError::Alert(error.to_string()),
                    _ => AcceptError::Handshake(error.to_string()),
                });
            }
            if done {
                self.inner.state.borrow_mut().shrink();
                return Ok(());
            }
            stream.readable().await;
            let mut state = self.inner.state.borrow_mut();
            if state.incoming.len() >= LARGE {
                state.end = Some(End::Failed);
                return Err(AcceptError::Handshake("the handshake is too large".into()));
            }
            match stream.try_read_up_to(&mut state.incoming, SMALL)? {
                Some(0) => {
                    state.end = Some(End::Truncated);
                    return Err(AcceptError::Closed { received });
                }
                Some(_) => received = true,
                None => {}
            }
        }
    }

    /// The handshake that early data came in; `None` if none did.
    pub fn early(&self) -> Option<Early> {
        self.inner.state.borrow().early.clone()
    }

    /// Drives a handshake to its end that early data came in: whatever else arrives waits to be read. Not while somebody
    /// else reads.
    pub async fn finish_handshake(&self) -> io::Result<()> {
        while self.inner.state.borrow().handshaking() {
            poll_fn(|cx| self.inner.stream.poll_readable(cx)).await;
            let mut state = self.inner.state.borrow_mut();
            if state.end.is_some() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.receive(&mut state)?;
        }
        Ok(())
    }

    /// Verifies the certificate that the client showed, in this handshake or in that of the session it resumed.
    pub(crate) fn check_client(&self, verifier: &TrustedClient) -> Option<CertFailure> {
        let mut state = self.inner.state.borrow_mut();
        let chain = state.session.facts().peer_certificates();
        state.client_failure = chain.and_then(|chain| verifier.failure(chain));
        state.client_failure
    }

    /// The socket under the encryption, for its options and addresses. Reading or writing it breaks the connection.
    pub fn stream(&self) -> &Stream {
        &self.inner.stream
    }

    // ---- facts ----

    /// The negotiated application protocol.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.inner.state.borrow().session.facts().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// Whether `protocol` was negotiated.
    pub fn alpn_is(&self, protocol: &[u8]) -> bool {
        self.inner.state.borrow().session.facts().alpn_protocol() == Some(protocol)
    }

    /// The name the client asked for, in lower case (server side only).
    pub fn server_name(&self) -> Option<&str> {
        self.inner.server_name.as_deref()
    }

    /// The settings, by content, that the peer was judged by: on the server's side what client certificates are verified
    /// by ([`ServerTls::client_auth`](super::ServerTls::client_auth)), on the client's all of [`ClientTls::digest`](
    /// super::ClientTls::digest).
    pub fn basis(&self) -> Option<&Digest> {
        self.inner.basis.as_ref()
    }

    /// The protocol version.
    pub fn version(&self) -> TlsVersion {
        match self.inner.state.borrow().session.facts().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            _ => TlsVersion::Tls13,
        }
    }

    /// The cipher suite, as OpenSSL names it.
    pub fn cipher(&self) -> &'static str {
        let state = self.inner.state.borrow();
        state.session.facts().negotiated_cipher_suite().map_or("(none)", |suite| name_of(suite.suite()))
    }

    /// The key exchange group, as the library names it (none for a resumed TLS 1.2 session).
    pub fn group(&self) -> Option<String> {
        let state = self.inner.state.borrow();
        let group = state.session.facts().negotiated_key_exchange_group()?;
        group.name().as_str().map(str::to_owned)
    }

    /// Whether an earlier session was resumed.
    pub fn resumed(&self) -> bool {
        self.inner.state.borrow().session.facts().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The client's certificate and its verification, if one was asked for and shown (server side); on the client
    /// side the server's.
    pub fn client_cert(&self) -> Option<ClientCert> {
        let state = self.inner.state.borrow();
        let first = state.session.facts().peer_certificates()?.first()?;
        Some(ClientCert { der: first.to_vec(), failure: state.client_failure })
    }

    // ---- reading ----

    /// Ready when a read may yield something without waiting for the socket; see [`Stream::poll_readable`].
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_heard(cx));
        crate::turn::poll(cx)
    }

    /// The same, whoever else waits.
    pub(crate) fn poll_heard(&self, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.inner.state.borrow_mut();
            if !state.plain.is_empty() || state.end.is_some() || state.session.peer_closed() {
                return Poll::Ready(());
            }
            if !state.out.is_empty() {
                self.flush_now(&mut state);
            }
        }
        self.inner.stream.poll_heard(cx)
    }

    /// Waits until a read may yield something. Holds no buffer, unless a record has arrived in part.
    pub fn readable(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.poll_readable(cx))
    }

    /// As [`Stream::read`]: `Ok(0)` is the peer's close_notify; an end without it is an error that `is_truncated` knows.
    pub fn read(&self, buf: &mut Buf) -> impl Future<Output = io::Result<usize>> {
        self.read_up_to(buf, MEDIUM)
    }

    /// As [`Stream::read_up_to`].
    pub fn read_up_to(&self, buf: &mut Buf, limit: usize) -> impl Future<Output = io::Result<usize>> {
        poll_fn(move |cx| self.poll_read(cx, buf, limit))
    }

    /// The poll form of [`TlsStream::read_up_to`].
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Buf, limit: usize) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx));
            if let Some(read) = self.try_read_up_to(buf, limit).transpose() {
                return Poll::Ready(read);
            }
        }
    }

    /// As [`Stream::try_read`].
    pub fn try_read(&self, buf: &mut Buf) -> io::Result<Option<usize>> {
        let limit = if buf.spare() == 0 { LARGE } else { buf.spare() };
        self.try_read_up_to(buf, limit)
    }

    /// As [`Stream::try_read_up_to`]. Records without data may end it with `None` though more has arrived.
    pub fn try_read_up_to(&self, buf: &mut Buf, limit: usize) -> io::Result<Option<usize>> {
        let mut state = self.inner.state.borrow_mut();
        for _ in 0..RECEIVES {
            if !state.plain.is_empty() {
                return Ok(Some(deliver(&mut state.plain, buf, limit)));
            }
            if state.session.peer_closed() {
                return Ok(Some(0));
            }
            match state.end {
                Some(End::Truncated) => return Err(truncated()),
                Some(End::Failed) => return Err(io::ErrorKind::InvalidData.into()),
                None => {}
            }
            if !self.receive(&mut state)? {
                break;
            }
        }
        state.shrink();
        Ok(None)
    }

    /// Takes what the socket has and decrypts it; false when the socket has nothing.
    fn receive(&self, state: &mut State) -> io::Result<bool> {
        let limit = state.receive_limit();
        match self.inner.stream.try_read_up_to(&mut state.incoming, limit)? {
            None => return Ok(false),
            Some(0) => {
                state.end = Some(End::Truncated);
                state.shrink();
                note(state);
                return Ok(true);
            }
            Some(read) => state.bulk = read >= limit && read >= SMALL,
        }
        let result = state.with_io(|session, io| session.feed(io));
        if !state.out.is_empty() && result.is_err() {
            self.flush_now(state);
        }
        if let Err(error) = result {
            state.end = Some(End::Failed);
            state.shrink();
            note(state);
            return Err(invalid(&error));
        }
        note(state);
        if state.incoming.is_empty() {
            state.incoming.release();
        }
        Ok(true)
    }

    /// Sends what is pending as far as the socket takes it; a failure shows at the next write.
    fn flush_now(&self, state: &mut State) {
        while !state.out.is_empty() {
            match self.inner.stream.try_write(&state.out) {
                Ok(Some(sent)) => state.out.consume(sent),
                _ => return,
            }
        }
        state.out.release();
    }

    // ---- writing ----

    /// Waits until a write may make progress.
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> {
        self.inner.stream.writable()
    }

    /// Ready when a write may make progress.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.stream.poll_writable(cx)
    }

    /// Encrypts into `out`, behind what is pending there.
    fn encrypt(&self, plain: &[u8]) -> io::Result<()> {
        let mut state = self.inner.state.borrow_mut();
        if state.closed {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the stream was closed for writing"));
        }
        state.with_io(|session, io| session.encrypt(plain, io)).map_err(|error| invalid(&error))
    }

    /// Sends everything that is pending.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.inner.state.borrow_mut();
        ready!(self.inner.stream.poll_write_all(cx, &mut state.out))?;
        state.out.release();
        Poll::Ready(Ok(()))
    }

    /// As [`Stream::write_all`].
    pub fn write_all(&self, mut buf: Buf) -> impl Future<Output = (io::Result<()>, Buf)> {
        poll_fn(move |cx| {
            let result = ready!(self.poll_write_all(cx, &mut buf));
            Poll::Ready((result, buf.take()))
        })
    }

    /// The poll form of [`TlsStream::write_all`]. Groups leave `buf` once they are encrypted; ready when all is sent.
    pub fn poll_write_all(&self, cx: &mut Context<'_>, buf: &mut Buf) -> Poll<io::Result<()>> {
        loop {
            // Tickets and the like travel with the first group; more than that is sent before more is encrypted.
            let group = buf.len().min(GROUP);
            if group > 0 && self.inner.state.borrow().out.len() <= SMALL {
                self.encrypt(&buf[..group])?;
                buf.consume(group);
            }
            ready!(self.poll_flush(cx))?;
            if buf.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// As [`Stream::write_slice`].
    pub fn write_slice(&self, mut bytes: &[u8]) -> impl Future<Output = io::Result<()>> {
        poll_fn(move |cx| {
            loop {
                ready!(self.poll_flush(cx))?;
                ready!(crate::turn::poll(cx));
                if bytes.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let (group, rest) = bytes.split_at(bytes.len().min(GROUP));
                self.encrypt(group)?;
                bytes = rest;
            }
        })
    }

    /// As [`Stream::write_vectored`]; pieces are gathered, so that small ones share a record.
    pub async fn write_vectored(&self, pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut gathered = Buf::new();
        for piece in pieces.iter() {
            let mut piece: &[u8] = piece;
            while !piece.is_empty() {
                let room = piece.len().min(GROUP - gathered.len());
                gathered.extend(&piece[..room]);
                piece = &piece[room..];
                if gathered.len() == GROUP {
                    self.encrypt(&gathered)?;
                    gathered.clear();
                    self.flush().await?;
                }
            }
        }
        if !gathered.is_empty() {
            self.encrypt(&gathered)?;
        }
        drop(gathered);
        self.flush().await
    }

    /// As [`Stream::try_write`]; a part of the ciphertext may be left to later calls, but counts as written.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.try_writev(&[IoSlice::new(bytes)])
    }

    /// As [`TlsStream::try_write`], for several pieces: they leave together.
    pub fn try_writev(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let mut state = self.inner.state.borrow_mut();
        if state.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.flush_out(&mut state)? {
            return Ok(None);
        }
        let mut taken = 0;
        for piece in pieces {
            let part = &piece[..piece.len().min(GROUP - taken)];
            if !part.is_empty() {
                state.with_io(|session, io| session.encrypt(part, io)).map_err(|error| invalid(&error))?;
                taken += part.len();
            }
        }
        self.flush_out(&mut state)?;
        Ok(Some(taken))
    }

    fn flush_out(&self, state: &mut State) -> io::Result<bool> {
        while !state.out.is_empty() {
            match self.inner.stream.try_write(&state.out)? {
                Some(sent) => state.out.consume(sent),
                None => return Ok(false),
            }
        }
        state.out.release();
        Ok(true)
    }

    /// Sends whatever `try_write`, a dropped write or the handshake left behind.
    pub fn flush(&self) -> impl Future<Output = io::Result<()>> {
        poll_fn(|cx| self.poll_flush(cx))
    }

    /// As [`Stream::send_file`], through memory.
    pub async fn send_file(&self, file: &std::fs::File, mut offset: u64, len: u64) -> io::Result<u64> {
        let (start, end) = (offset, offset.saturating_add(len));
        while offset < end {
            crate::turn::fair().await;
            let read = self.encrypt_file(file, offset, end)?;
            if read == 0 {
                break;
            }
            self.flush().await?;
            offset += read;
        }
        Ok(offset - start)
    }

    fn encrypt_file(&self, file: &std::fs::File, offset: u64, end: u64) -> io::Result<u64> {
        let mut plain = Buf::new();
        let read =
            crate::file::pread_into(file, offset, &mut plain, (end - offset).min(GROUP as u64) as usize)?;
        if read > 0 {
            self.encrypt(&plain)?;
        }
        Ok(read as u64)
    }

    /// Sends close_notify, then FIN.
    pub async fn shutdown_write(&self) -> io::Result<()> {
        if self.inner.state.borrow().closed {
            return Ok(());
        }
        self.close_notify().await?;
        self.inner.stream.shutdown_write().await
    }

    /// Sends close_notify and leaves the socket open: a peer that then closes first keeps the TIME-WAIT state to itself.
    pub async fn close_notify(&self) -> io::Result<()> {
        {
            let mut state = self.inner.state.borrow_mut();
            if state.closed {
                return Ok(());
            }
            state.closed = true;
            // A session that cannot even be closed has nothing to say.
            let _ = state.with_io(|session, io| session.close(io));
        }
        self.flush().await
    }

    /// Closes with RST and without close_notify.
    pub fn abort(self) {
        self.inner.state.borrow_mut().closed = true;
        self.inner.stream.clone().abort();
    }
}

/// See [`State::note_early`].
fn note(state: &mut State) {
    if let Some(early) = &state.early {
        let early = early.clone();
        state.note_early(&early);
    }
}

/// Moves or copies plaintext to the reader.
fn deliver(plain: &mut Buf, buf: &mut Buf, limit: usize) -> usize {
    let n = plain.len().min(limit);
    if buf.is_empty() && n == plain.len() {
        buf.release();
        *buf = plain.take();
    } else {
        buf.extend(&plain[..n]);
        plain.consume(n);
        if plain.is_empty() {
            plain.release();
        }
    }
    n
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(early) = &state.early {
            early.end(false);
        }
        let spoiled = state.closed || matches!(state.end, Some(End::Failed));
        if spoiled || state.handshaking() && state.early.is_none() {
            return;
        }
        // Once, without waiting: whoever needs it delivered awaits `shutdown_write`.
        if state.with_io(|session, io| session.close(io)).is_ok() && !state.out.is_empty() {
            let _ = self.stream.try_write(&state.out);
        }
    }
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TlsStream").field(&self.inner.stream).finish()
    }
}
