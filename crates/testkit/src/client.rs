//! A client that sends exactly the bytes it is told to, and reads strictly.
//!
//! Owns: one connection, and what it takes to say what must come back on it.
//! Never: retries, follows redirects, or adds a byte on its own (`Request` is the convenience that does).
//! Driven by: tests.

use crate::cert::Certificate;
use crate::deadline::{Deadline, patience};
use crate::port::Address;
use crate::response::{self, ReadError, Response};
use crate::tls::{self, Session, TlsOptions};
use crate::wire::{Ended, Wire};
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// One connection to the program under test.
pub struct Client {
    wire: Wire,
    session: Option<Session>,
}

impl Client {
    /// Connects over plain TCP.
    ///
    /// # Panics
    /// When nobody accepts within the deadline.
    #[must_use]
    #[track_caller]
    pub fn connect(to: impl Address) -> Self {
        let address = to.address();
        Self::try_connect(address).unwrap_or_else(|e| panic!("cannot connect to {address}: {e}"))
    }

    pub(crate) fn over(wire: Wire) -> Self {
        Self { wire, session: None }
    }

    /// Connects over plain TCP, or says why not.
    ///
    /// # Errors
    /// What `connect` returned.
    pub fn try_connect(to: impl Address) -> io::Result<Self> {
        Ok(Self { wire: Wire::plain(tcp(&to)?)?, session: None })
    }

    /// Connects and shakes hands.
    ///
    /// # Panics
    /// When either fails.
    #[must_use]
    #[track_caller]
    pub fn tls(to: impl Address, options: &TlsOptions) -> Self {
        let address = to.address();
        Self::try_tls(address, options).unwrap_or_else(|e| panic!("no TLS with {address}: {e}"))
    }

    /// Connects and shakes hands as `localhost`, trusting `certificate`.
    ///
    /// # Panics
    /// When either fails.
    #[must_use]
    #[track_caller]
    pub fn tls_trusting(to: impl Address, certificate: &Certificate) -> Self {
        Self::tls(to, &TlsOptions::trusting(certificate))
    }

    /// Connects and shakes hands, or says why not.
    ///
    /// # Errors
    /// What `connect` or the handshake returned.
    pub fn try_tls(to: impl Address, options: &TlsOptions) -> io::Result<Self> {
        Self { wire: Wire::plain(tcp(&to)?)?, session: None }.try_start_tls(options)
    }

    /// Shakes hands on a connection that has carried plain bytes so far (a PROXY header, a CONNECT).
    ///
    /// # Errors
    /// What the handshake returned.
    pub fn try_start_tls(self, options: &TlsOptions) -> io::Result<Self> {
        let tcp = self.wire.tcp().try_clone()?;
        tcp.set_read_timeout(Some(patience()))?;
        let (stream, session) =
            tls::connect(tcp.try_clone()?, options.client_config(), options.server_name())?;
        Ok(Self { wire: Wire::over(tcp, Box::new(stream))?, session: Some(session) })
    }

    /// What the handshake agreed on.
    ///
    /// # Panics
    /// On a plain connection.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.session.as_ref().expect("a connection made by Client::tls")
    }

    /// This end's address, as the program under test sees it.
    ///
    /// # Panics
    /// Never on a connected socket.
    #[must_use]
    pub fn local(&self) -> std::net::SocketAddr {
        self.wire.tcp().local_addr().expect("a connected socket has an address")
    }

    /// The socket, for options that a test wants to set.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.wire.tcp()
    }

    /// Sends exactly these bytes.
    ///
    /// # Panics
    /// When the connection is gone or the peer takes nothing until the deadline.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.wire.write(bytes.as_ref()).unwrap_or_else(|e| panic!("cannot send: {e}"));
        self
    }

    /// Sends, and tells instead of failing when the peer has closed.
    ///
    /// # Errors
    /// What `write` returned.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.wire.write(bytes.as_ref())
    }

    /// Sends in pieces of `piece` bytes with `pause` between them: a slow peer, not a way to wait.
    ///
    /// # Errors
    /// What `write` returned when the peer had enough.
    pub fn send_slowly(&mut self, bytes: impl AsRef<[u8]>, piece: usize, pause: Duration) -> io::Result<()> {
        for part in bytes.as_ref().chunks(piece) {
            self.wire.write(part)?;
            std::thread::sleep(pause);
        }
        Ok(())
    }

    /// Asks for `path` with nothing but a Host, on this connection, and reads the answer.
    ///
    /// # Panics
    /// When no whole answer comes.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        self.request(&Request::get(path))
    }

    /// Sends a request and reads its answer.
    ///
    /// # Panics
    /// When no whole answer comes.
    #[track_caller]
    pub fn request(&mut self, request: &Request) -> Response {
        self.try_request(request).unwrap_or_else(|e| panic!("{} {}: {e}", request.method, request.target))
    }

    /// Sends a request and reads its answer, or says why not.
    ///
    /// # Errors
    /// When no whole answer comes. An answer that came before the request could be sent whole still counts.
    pub fn try_request(&mut self, request: &Request) -> Result<Response, ReadError> {
        // A server may answer and close before it has read all: the answer is what matters.
        let _ = self.wire.write(&request.bytes());
        self.try_read(&request.method)
    }

    /// Reads the answer to a request that was sent as bytes (any method but HEAD and CONNECT).
    ///
    /// # Panics
    /// When no whole answer comes.
    #[track_caller]
    pub fn read(&mut self) -> Response {
        self.try_read("GET").unwrap_or_else(|e| panic!("no answer: {e}"))
    }

    /// Reads the answer to a request by `method`, or says why not.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub fn try_read(&mut self, method: &str) -> Result<Response, ReadError> {
        response::read(&mut self.wire, method, Deadline::standard())
    }

    /// Reads one head, interim or final, and leaves the body to [`Client::read_some`] and [`Client::read_exactly`].
    ///
    /// # Panics
    /// When no head comes.
    #[track_caller]
    pub fn read_head(&mut self) -> Response {
        response::read_head(&mut self.wire, Deadline::standard()).unwrap_or_else(|e| panic!("no head: {e}"))
    }

    /// Reads exactly `n` raw bytes.
    ///
    /// # Panics
    /// When fewer come.
    #[track_caller]
    pub fn read_exactly(&mut self, n: usize) -> Vec<u8> {
        let deadline = Deadline::standard();
        while self.wire.pending().len() < n {
            let have = self.wire.pending().len();
            self.wire.fill(deadline).unwrap_or_else(|end| panic!("{end:?} after {have} of {n} bytes"));
        }
        self.wire.take(n)
    }

    /// Reads whatever comes first; empty at the end of the stream.
    ///
    /// # Panics
    /// When nothing comes or the connection is reset.
    #[track_caller]
    pub fn read_some(&mut self) -> Vec<u8> {
        if self.wire.pending().is_empty() {
            match self.wire.fill(Deadline::standard()) {
                Ok(_) | Err(Ended::Closed) => {}
                Err(end) => panic!("{end:?} instead of bytes"),
            }
        }
        self.wire.take(self.wire.pending().len())
    }

    /// Reads all raw bytes until the connection ends, in whatever way; says whether it ended in good order.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn read_to_end(&mut self) -> (Vec<u8>, bool) {
        let end = self.wire.drain(Deadline::standard());
        assert_ne!(
            end,
            Ended::Late,
            "the connection stays open; got {:?}",
            response::latin1(self.wire.pending())
        );
        (self.wire.take(self.wire.pending().len()), end == Ended::Closed)
    }

    /// Fails the test unless the peer ends the connection (closing or resetting) with no further byte.
    ///
    /// # Panics
    /// When bytes come, or nothing until the deadline.
    #[track_caller]
    pub fn expect_closed(mut self) {
        let (rest, _) = self.read_to_end();
        assert!(rest.is_empty(), "bytes instead of the end: {:?}", response::latin1(&rest));
    }

    /// Fails the test if the peer says or ends anything within `quiet`: the absence of an event has no signal to wait for.
    ///
    /// # Panics
    /// When it does.
    #[track_caller]
    pub fn expect_silence(&mut self, quiet: Duration) {
        let got = self.wire.fill(Deadline::after(quiet));
        assert_eq!(
            got,
            Err(Ended::Late),
            "expected silence, got {:?}",
            response::latin1(self.wire.pending())
        );
    }

    /// Says that nothing more will be sent (TCP half-close; TLS without close_notify).
    pub fn half_close(&mut self) -> &mut Self {
        self.wire.half_close();
        self
    }

    /// Ends the connection with a RST.
    pub fn reset(self) {
        self.wire.reset();
    }
}

fn tcp(to: &impl Address) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to.address(), patience())
}

/// A well-formed request, for tests that are about something else.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    chunked: bool,
}

impl Request {
    /// Any method and target; the Host is `localhost`.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            host: Some("localhost".into()),
            headers: Vec::new(),
            body: None,
            chunked: false,
        }
    }

    /// A GET.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A HEAD.
    #[must_use]
    pub fn head(target: &str) -> Self {
        Self::new("HEAD", target)
    }

    /// A POST with a body, whose length is announced.
    #[must_use]
    pub fn post(target: &str, body: impl AsRef<[u8]>) -> Self {
        Self::new("POST", target).body(body)
    }

    /// Another Host.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// Sends the body in chunks instead of announcing its length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// The request as it goes over the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if let Some(host) = &self.host {
            out += &format!("Host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        let mut out = match (&self.body, self.chunked) {
            (None, _) => out + "\r\n",
            (Some(_), true) => out + "Transfer-Encoding: chunked\r\n\r\n",
            (Some(body), false) => out + &format!("Content-Length: {}\r\n\r\n", body.len()),
        }
        .into_bytes();
        match &self.body {
            Some(body) if self.chunked => chunk(body, &mut out),
            Some(body) => out.extend_from_slice(body),
            None => {}
        }
        out
    }
}

fn chunk(body: &[u8], out: &mut Vec<u8>) {
    for part in body.chunks(8192) {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
}
