//! Origins that speak HTTP/2, and misbehave on demand.
//!
//! Owns: a listening socket, a thread a connection, what each connection was asked.
//! Never: knows what a test wants: that is a function of the connection.
//! Driven by: tests. The protocol is `weir_wire`'s server role; what it would never say is sent as raw bytes.

use crate::port::Address;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
pub use weir_wire::h2::{Config, Reason, StreamKey};
use weir_wire::h2::{Connection, Event, Fields, Role};

/// An origin on a loopback port. It prints as `127.0.0.1:PORT`.
pub struct H2Origin {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<H2Request>>>,
}

/// A request as it reached the origin.
#[derive(Clone, Debug)]
pub struct H2Request {
    /// Its stream.
    pub stream: StreamKey,
    /// Which connection of the origin it came on, from 0.
    pub connection: usize,
    /// All fields in order, the pseudo-fields in front.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Its trailers.
    pub trailers: Vec<(String, String)>,
}

impl H2Request {
    /// The first value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// One connection of an origin.
pub struct H2Conn {
    tcp: TcpStream,
    /// The protocol's state.
    pub wire: Connection,
    input: Vec<u8>,
    nth: usize,
    open: Vec<H2Request>,
    asked: Arc<Mutex<Vec<H2Request>>>,
}

impl H2Origin {
    /// Serves each connection by this function; the connection closes when it returns.
    #[must_use]
    pub fn new(serve: impl Fn(&mut H2Conn) + Send + Sync + 'static) -> Self {
        Self::with(Config::default(), serve)
    }

    /// The same, with other windows.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn with(config: Config, serve: impl Fn(&mut H2Conn) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (connections, asked) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (count, log, serve) = (Arc::clone(&connections), Arc::clone(&asked), Arc::new(serve));
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let nth = count.fetch_add(1, Ordering::SeqCst);
                let (asked, serve) = (Arc::clone(&log), Arc::clone(&serve));
                std::thread::spawn(move || {
                    let _ = tcp.set_read_timeout(Some(Duration::from_secs(30)));
                    let wire = Connection::new(Role::Server, config);
                    serve(&mut H2Conn { tcp, wire, input: Vec::new(), nth, open: Vec::new(), asked });
                });
            }
        });
        Self { address, connections, asked }
    }

    /// An origin that answers every request with this, and keeps its connections.
    #[must_use]
    pub fn answering(fields: &'static [(&'static str, &'static str)], body: &'static [u8]) -> Self {
        Self::new(move |conn| {
            while let Some(request) = conn.request() {
                conn.respond(request.stream, fields, body, &[]);
            }
        })
    }

    /// Connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Whole requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<H2Request> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl H2Conn {
    /// Which connection of the origin it is, from 0.
    #[must_use]
    pub fn nth(&self) -> usize {
        self.nth
    }

    /// Writes what the protocol has to say.
    pub fn flush(&mut self) {
        let output = self.wire.output();
        let _ = self.tcp.write_all(output);
        output.clear();
    }

    /// Writes bytes as they are, behind what the protocol has to say.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.flush();
        let _ = self.tcp.write_all(bytes);
    }

    /// The next event; `None` when the peer closed or broke the protocol.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.step()? {
                return Some(event);
            }
        }
    }

    /// Takes what has come, or reads once: an event, if that made one.
    fn step(&mut self) -> Option<Option<Event>> {
        self.flush();
        let received = self.wire.receive(&self.input, weir_rt::now()).ok()?;
        if let Some(Event::Data { stream, range, .. }) = &received.event {
            let piece = &self.input[range.clone()];
            if let Some(open) = self.open.iter_mut().find(|open| open.stream == *stream) {
                open.body.extend_from_slice(piece);
            }
            self.wire.release(*stream, range.len());
        }
        self.input.drain(..received.used);
        // What made no event may have opened a window.
        if received.event.is_some() || received.used > 0 {
            return Some(received.event);
        }
        let mut piece = [0; 16 << 10];
        match self.tcp.read(&mut piece) {
            Ok(read) if read > 0 => self.input.extend_from_slice(&piece[..read]),
            _ => return None,
        }
        Some(None)
    }

    /// Waits for the head of a request. Its body is taken by [`H2Conn::request`].
    pub fn head(&mut self) -> Option<H2Request> {
        loop {
            if let Event::Head { stream, end, .. } = self.event()? {
                let fields = list(self.wire.head().fields(), self.wire.head());
                let request = H2Request {
                    stream,
                    connection: self.nth,
                    fields,
                    body: Vec::new(),
                    trailers: Vec::new(),
                };
                if end {
                    self.note(&request);
                } else {
                    self.open.push(request.clone());
                }
                return Some(request);
            }
        }
    }

    /// Waits for a whole request.
    pub fn request(&mut self) -> Option<H2Request> {
        loop {
            let ended = match self.event()? {
                Event::Head { stream, end, .. } => {
                    let fields = list(self.wire.head().fields(), self.wire.head());
                    self.open.push(H2Request {
                        stream,
                        connection: self.nth,
                        fields,
                        body: Vec::new(),
                        trailers: Vec::new(),
                    });
                    end.then_some(stream)
                }
                Event::Data { stream, end, .. } => end.then_some(stream),
                Event::Trailers { stream } => {
                    let trailers = plain(self.wire.head().fields());
                    if let Some(open) = self.open.iter_mut().find(|open| open.stream == stream) {
                        open.trailers = trailers;
                    }
                    Some(stream)
                }
                _ => None,
            };
            if let Some(at) = self.open.iter().position(|open| Some(open.stream) == ended) {
                let request = self.open.remove(at);
                self.note(&request);
                return Some(request);
            }
        }
    }

    fn note(&self, request: &H2Request) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    }

    /// Sends a head: pseudo-fields first.
    pub fn send_head(&mut self, stream: StreamKey, fields: &[(&str, &str)], end: bool) {
        let mut sent = Fields::new();
        fields.iter().for_each(|(name, value)| sent.push(name.as_bytes(), value.as_bytes()));
        let _ = self.wire.send_head(stream, &sent, end);
        self.flush();
    }

    /// Sends payload, waiting for windows.
    pub fn send_data(&mut self, stream: StreamKey, mut data: &[u8], end: bool) {
        loop {
            let Ok(sent) = self.wire.send_data(stream, data, end) else { return };
            self.flush();
            data = &data[sent..];
            if data.is_empty() {
                return;
            }
            while self.wire.next_writable().is_none() {
                if self.step().is_none() {
                    return;
                }
            }
        }
    }

    /// Sends a whole answer with status 200, unless the fields say otherwise.
    pub fn respond(
        &mut self,
        stream: StreamKey,
        fields: &[(&str, &str)],
        body: &[u8],
        trailers: &[(&str, &str)],
    ) {
        let own = fields.iter().any(|(name, _)| *name == ":status");
        let head: Vec<(&str, &str)> =
            if own { fields.to_vec() } else { [&[(":status", "200")], fields].concat() };
        self.send_head(stream, &head, body.is_empty() && trailers.is_empty());
        if !body.is_empty() {
            self.send_data(stream, body, trailers.is_empty());
        }
        if !trailers.is_empty() {
            self.send_head(stream, trailers, true);
        }
    }

    /// Ends a stream early.
    pub fn reset(&mut self, stream: StreamKey, reason: Reason) {
        self.wire.reset(stream, reason);
        self.flush();
    }

    /// Takes no more requests.
    pub fn go_away(&mut self) {
        self.wire.go_away(Reason::NO_ERROR);
        self.flush();
    }

    /// Reads on until the peer closes.
    pub fn until_closed(&mut self) {
        while self.event().is_some() {}
    }
}

fn list<'a>(
    fields: impl Iterator<Item = weir_wire::h2::FieldRef<'a>>,
    head: &weir_wire::h2::Head,
) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pseudo = [(":method", Some(head.method())), (":scheme", head.scheme()), (":path", head.path())];
    let pseudo = pseudo.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value?))));
    let authority = head.authority().map(|value| (":authority".to_owned(), text(value)));
    pseudo.chain(authority).chain(plain(fields)).collect()
}

fn plain<'a>(fields: impl Iterator<Item = weir_wire::h2::FieldRef<'a>>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.map(|field| (text(field.name), text(field.value))).collect()
}

impl Address for H2Origin {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Display for H2Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
