//! What must hold for any bytes of a peer.
//!
//! Owns: the properties, and good input to spoil. Never: makes inputs; `cargo xtask fuzz` and the tests do.
//! Why: plain functions over bytes run on stable Rust, and under any driver. The first byte of an input says in what
//! pieces the rest arrives: what is told must not depend on it.

use std::collections::BTreeMap;

use weir_rt::Instant;

use super::frame::{self, FrameHead};
use super::hpack::Decoder;
use super::{Config, Connection, Event, Fields, Role, StreamKey};

/// What is sent.
static PAGE: [u8; 40_000] = [b'x'; 40_000];

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[("h2_server", server), ("h2_client", client), ("h2_hpack", hpack)];

/// A server, and a client that sends `data`.
pub fn server(data: &[u8]) {
    session(Role::Server, data);
}

/// A client with four requests under way, and a server that sends `data`.
pub fn client(data: &[u8]) {
    session(Role::Client, data);
}

/// A header block, decoded within a bound.
pub fn hpack(data: &[u8]) {
    let (mut decoder, mut fields) = (Decoder::new(), Fields::new());
    for block in data.split(|&byte| byte == 0xff) {
        let limit = block.len() * 3;
        let _ = decoder.decode(block, &mut fields, limit);
        let size: usize = fields.iter().map(|field| field.name.len() + field.value.len() + 32).sum();
        assert!(size <= limit, "a list of {size} bytes, {limit} allowed");
    }
}

fn session(role: Role, data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let whole = told(role, bytes, bytes.len().max(1));
    let pieces = told(role, bytes, usize::from(first % 64) + 1);
    assert_eq!(whole, pieces, "what is told depends on the pieces in which it came");
}

/// What a connection says of its peer.
#[derive(Debug, PartialEq)]
enum Told {
    /// Payload of a stream, and whether it ends there.
    Data(u32, Vec<u8>, bool),
    Other(String),
}

/// One side under test.
struct Side {
    connection: Connection,
    /// Bytes that each stream has still to send.
    owed: BTreeMap<u32, (StreamKey, usize)>,
    told: Vec<Told>,
    /// Streams that have told their end.
    ended: Vec<u32>,
}

/// What a connection makes of bytes that come in pieces of `step`.
fn told(role: Role, bytes: &[u8], step: usize) -> Vec<Told> {
    let now = Instant::now();
    let connection = Connection::new(role, Config { max_streams: 8, ..Config::default() });
    let mut side = Side { connection, owed: BTreeMap::new(), told: Vec::new(), ended: Vec::new() };
    if role == Role::Client {
        for n in 0..4 {
            let request =
                list(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")]);
            let key = side.connection.open(&request, n % 2 == 0, n == 3).expect("streams are allowed");
            if n % 2 == 1 {
                side.owed.insert(key.id(), (key, 40_000));
                side.send(key);
            }
        }
    }
    side.written();
    let (mut at, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + step);
        loop {
            let received = match side.connection.receive(&bytes[at..end], now) {
                Ok(received) => received,
                Err(error) => {
                    side.told.push(Told::Other(error.to_string()));
                    assert!(side.connection.is_over());
                    side.written();
                    return side.told;
                }
            };
            let start = at;
            at += received.used;
            assert!(at <= end);
            let Some(event) = received.event else { break };
            side.take(event, &bytes[start..at]);
            while let Some(key) = side.connection.next_writable() {
                side.send(key);
            }
            side.written();
        }
    }
    side.told
}

impl Side {
    fn take(&mut self, event: Event, used: &[u8]) {
        assert!(self.connection.streams() <= 8);
        match event {
            Event::Head { stream, kind, end } => {
                self.alive(stream, end);
                let fields: Vec<_> =
                    self.connection.head().fields().map(|field| field.name.to_vec()).collect();
                self.told.push(Told::Other(format!("{} {kind:?} {end} {fields:?}", stream.id())));
                if self.connection.role == Role::Server {
                    self.answer(stream);
                }
            }
            Event::Malformed { stream, end } | Event::TooLarge { stream, end } => {
                self.alive(stream, end);
                self.told.push(Told::Other(format!("{} too large {end}", stream.id())));
                self.answer(stream);
            }
            Event::Data { stream, range, end } => {
                self.alive(stream, end);
                let piece = &used[range.clone()];
                // Pieces of one stream in a row are one.
                match self.told.last_mut() {
                    Some(Told::Data(id, bytes, ended)) if *id == stream.id() && !*ended => {
                        bytes.extend_from_slice(piece);
                        *ended = end;
                    }
                    _ => self.told.push(Told::Data(stream.id(), piece.to_vec(), end)),
                }
                self.connection.release(stream, range.len());
            }
            Event::Trailers { stream } => {
                self.alive(stream, true);
                self.told.push(Told::Other(format!("{} trailers", stream.id())));
            }
            Event::Reset { stream, reason, .. } => {
                assert!(!self.connection.is_alive(stream));
                self.owed.remove(&stream.id());
                self.told.push(Told::Other(format!("{} reset {reason}", stream.id())));
            }
            other => self.told.push(Told::Other(format!("{other:?}"))),
        }
    }

    /// Nothing is told of a stream behind its end.
    fn alive(&mut self, stream: StreamKey, end: bool) {
        assert!(!self.ended.contains(&stream.id()), "stream {} goes on behind its end", stream.id());
        if end {
            self.ended.push(stream.id());
        }
    }

    fn answer(&mut self, key: StreamKey) {
        let head = list(&[(":status", "200"), ("server", "weir")]);
        if self.connection.send_head(key, &head, false).is_ok() {
            self.owed.insert(key.id(), (key, 40_000));
            self.send(key);
        }
    }

    fn send(&mut self, key: StreamKey) {
        let Some((_, left)) = self.owed.get_mut(&key.id()) else { return };
        match self.connection.send_data(key, &PAGE[..*left], true) {
            Ok(sent) => *left -= sent,
            Err(_) => *left = 0,
        }
        if *left == 0 {
            self.owed.remove(&key.id());
        }
    }

    /// Everything that was sent is whole frames.
    fn written(&mut self) {
        let out = self.connection.output().take();
        let mut rest = &out[..];
        if rest.starts_with(super::PREFACE) {
            rest = &rest[super::PREFACE.len()..];
        }
        assert!(rest.len() < 256 * 1024, "{} bytes of output", rest.len());
        while !rest.is_empty() {
            let head = FrameHead::read(rest).expect("a frame's head");
            assert!(head.kind <= frame::CONTINUATION && head.len <= 1 << 24, "{head:?}");
            rest = rest.get(frame::HEAD + head.len..).expect("a frame's payload");
        }
    }
}

fn list(fields: &[(&str, &str)]) -> Fields {
    let mut list = Fields::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

/// Good input for the target `name`, the byte for the pieces included.
pub fn corpus(name: &str) -> Vec<Vec<u8>> {
    let now = Instant::now();
    let with_pieces = |mut bytes: Vec<u8>| {
        bytes.insert(0, 20);
        bytes
    };
    let mut client = Connection::new(Role::Client, Config::default());
    let mut server = Connection::new(Role::Server, Config::default());
    let mut request =
        list(&[(":method", "POST"), (":scheme", "https"), (":authority", "a.example:1"), (":path", "/x?y")]);
    request.push(b"content-length", b"300");
    request.push_sensitive(b"cookie", b"a=b");
    let get =
        list(&[(":method", "GET"), (":scheme", "https"), (":authority", "a.example:1"), (":path", "/")]);
    let post = client.open(&request, false, false).expect("the first stream");
    let _ = client.send_data(post, &[b'p'; 300], true);
    let chunked = client.open(&request_without_length(), false, false).expect("the second stream");
    let _ = client.send_data(chunked, b"piece", false);
    let _ = client.send_head(chunked, &list(&[("x-trailer", "1")]), true);
    for _ in 0..2 {
        let _ = client.open(&get, true, false);
    }
    client.ping(7);
    client.reset(chunked, super::Reason::CANCEL);
    client.control(frame::PRIORITY, 0, 5, &[0, 0, 0, 1, 9]);
    client.control(0xfa, 3, 0, b"unknown");
    client.control(frame::DATA, frame::PADDED, 1, b"\x03abc\0\0\0");
    client.control(frame::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]);
    let sent = client.output().to_vec();
    client.output().clear();
    let mut at = 0;
    while let Ok(received) = server.receive(&sent[at..], now) {
        at += received.used;
        match received.event {
            Some(Event::Head { stream, .. }) => {
                let _ = server.send_head(stream, &list(&[(":status", "103"), ("link", "</a>")]), false);
                let answer = list(&[(":status", "200"), ("server", "weir"), ("content-length", "900")]);
                let _ = server.send_head(stream, &answer, false);
                let _ = server.send_data(stream, &[b'r'; 900], true);
            }
            Some(_) => {}
            None => break,
        }
    }
    server.announce_end();
    server.go_away(super::Reason::NO_ERROR);
    let answered = server.output().to_vec();
    match name {
        "h2_server" => vec![with_pieces(sent), with_pieces(super::PREFACE.to_vec())],
        "h2_client" => vec![with_pieces(answered)],
        _ => {
            let mut encoder = super::hpack::Encoder::new();
            [&request, &get, &request, &list(&[(":status", "200"), ("x-a", "b")])]
                .map(|fields| encoder.encode(fields).to_vec())
                .into()
        }
    }
}

fn request_without_length() -> Fields {
    list(&[
        (":method", "PUT"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/put"),
        ("te", "trailers"),
    ])
}
