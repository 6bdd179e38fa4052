//! WebSocket: the handshake, and a message sent and answered.
//!
//! Owns: the upgrade (RFC 6455 §4.1), sending and receiving at the same time, what pings and closes mean.
//! Never: takes a message that nobody asked for as an answer, unless any will do (`--any-reply`).
//! Driven by: `link` (the handshake), `slot` (messages).

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_rt::{Buf, Conn, LARGE, MEDIUM};

use super::link::Link;
use super::state::Worker;
use super::unit::Failure;
use crate::answer::frames::{Frame, Frames, Kind, write};
use crate::answer::{Fed, HeadCache, Reader};
use crate::plan::{Options, Origin};
use crate::report::Cause;

/// What is hashed with the key (§1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Pings that are answered at once; a server that sends more gets no more answers before ours is taken.
const MOST_PONGS: usize = 64 << 10;

/// The WebSocket on a connection.
pub(super) struct Socket {
    frames: Frames,
    /// What is to be sent: a message, answers to pings.
    out: Vec<u8>,
    sent: usize,
    /// Bytes that were read with the handshake's answer.
    early: Vec<u8>,
    seed: u64,
}

impl Socket {
    /// A key that differs from frame to frame.
    fn key(&mut self) -> [u8; 4] {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let [a, b, c, d, ..] = self.seed.to_le_bytes();
        [a, b, c, d]
    }

    fn send(&mut self, kind: Kind, payload: &[u8]) {
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        let key = self.key();
        write(&mut self.out, kind, payload, key);
    }
}

/// Asks for a WebSocket on `conn`.
///
/// # Errors
/// What went wrong, and in words.
pub(super) async fn upgrade(
    conn: &Conn,
    origin: &Origin,
    options: &Options,
) -> Result<Socket, (Cause, String)> {
    let of = |error: &io::Error| (Cause::of(error), format!("no WebSocket: {error}"));
    let mut bytes = [0; 24];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| (Cause::Other, "no random numbers".to_owned()))?;
    let (nonce, seed) = bytes.split_at(16);
    let nonce = BASE64_STANDARD.encode(nonce);
    let request = request(origin, options, &nonce);
    conn.write_slice(request.as_bytes()).await.map_err(|error| of(&error))?;
    let (mut reader, mut heads, mut buf) = (Reader::new(true), HeadCache::default(), Buf::new());
    reader.begin(false);
    loop {
        buf.clear();
        let read = conn.read_up_to(&mut buf, MEDIUM).await.map_err(|error| of(&error))?;
        if read == 0 {
            return Err((Cause::ClosedEarly, "no WebSocket: the server closed the connection".into()));
        }
        let fed =
            reader.feed(&mut heads, &buf).map_err(|_| (Cause::NotHttp, "its answer is no HTTP".into()))?;
        let (taken, status) = match fed {
            Fed::Answer { taken, status, .. } => (taken, status),
            // An answer that is no upgrade has a body, perhaps.
            Fed::More => match reader.status() {
                None | Some(101) => continue,
                Some(status) => (buf.len(), status),
            },
        };
        if status != 101 {
            return Err((Cause::Other, format!("no WebSocket: the server answered {status}")));
        }
        let head = reader.collected().map_or(&[][..], |kept| &kept.head);
        if !accepts(head, &nonce) {
            return Err((Cause::Other, "no WebSocket: Sec-WebSocket-Accept is wrong".into()));
        }
        let seed = u64::from_le_bytes(seed.try_into().unwrap_or([7; 8])) | 1;
        let early = buf[taken..].to_vec();
        return Ok(Socket { frames: Frames::new(), out: Vec::new(), sent: 0, early, seed });
    }
}

fn request(origin: &Origin, options: &Options, nonce: &str) -> String {
    let target = &origin.target;
    let mut text = format!("GET {} HTTP/1.1\r\n", target.path);
    let has = |wanted: &str| options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if !has("host") {
        text += &format!("Host: {}\r\n", target.authority);
    }
    for (name, value) in &options.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    text + &format!("Sec-WebSocket-Key: {nonce}\r\n\r\n")
}

/// Whether a head has the answer to `nonce` (§4.2.2).
fn accepts(head: &[u8], nonce: &str) -> bool {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{nonce}{GUID}").as_bytes());
    let wanted = BASE64_STANDARD.encode(hash);
    let field = |line: &[u8]| {
        let at = line.iter().position(|&b| b == b':')?;
        let (name, value) = line.split_at(at);
        name.eq_ignore_ascii_case(b"sec-websocket-accept")
            .then(|| value[1..].trim_ascii() == wanted.as_bytes())
    };
    head.split(|&b| b == b'\n').find_map(field).unwrap_or(false)
}

/// Sends `message` and waits for its answer.
pub(super) async fn exchange(worker: &Worker, link: &mut Link, message: &[u8]) -> Result<(), Failure> {
    let Link { conn: Some(conn), socket: Some(socket), served, .. } = link else {
        return Err(Failure::Write(Cause::Other));
    };
    let kept = *served > 0;
    let kind = if std::str::from_utf8(message).is_ok() { Kind::Text } else { Kind::Binary };
    socket.send(kind, message);
    let mut answer = Answer { message, got: 0, any: worker.plan.options.any_reply };
    let conn = &*conn;
    let result = poll_fn(|cx| poll(cx, worker, conn, socket, &mut answer)).await;
    match result {
        Err(Failure::Read(_) | Failure::Write(_)) if kept && answer.got == 0 => Err(Failure::Stale),
        result => result,
    }
}

/// The answer that is waited for.
struct Answer<'a> {
    message: &'a [u8],
    got: usize,
    any: bool,
}

impl Answer<'_> {
    /// Takes a piece of a message; whether it is the last one.
    fn take(&mut self, piece: &[u8], end: bool) -> Result<bool, Failure> {
        let upto = self.got + piece.len();
        if !self.any && self.message.get(self.got..upto) != Some(piece) {
            return Err(Failure::Malformed);
        }
        self.got = upto;
        if end && !self.any && upto < self.message.len() { Err(Failure::Malformed) } else { Ok(end) }
    }
}

fn poll(
    cx: &mut Context<'_>,
    worker: &Worker,
    conn: &Conn,
    socket: &mut Socket,
    answer: &mut Answer<'_>,
) -> Poll<Result<(), Failure>> {
    let broken = |error: io::Error| Failure::Write(Cause::of(&error));
    loop {
        let mut stuck = true;
        if socket.sent < socket.out.len() {
            match conn.try_write(&socket.out[socket.sent..]).map_err(broken)? {
                Some(n) => {
                    socket.sent += n;
                    worker.count(|tally| tally.bytes.sent += n as u64);
                    stuck = false;
                }
                // Ready means that there is room again since: go round.
                None => stuck = conn.socket().poll_writable(cx).map_err(broken)?.is_pending(),
            }
        }
        if !socket.early.is_empty() {
            let early = std::mem::take(&mut socket.early);
            if take_in(socket, answer, &early)? {
                return Poll::Ready(Ok(()));
            }
            stuck = false;
        }
        if conn.poll_readable(cx).is_ready() {
            let mut scratch = worker.scratch.borrow_mut();
            scratch.clear();
            match conn
                .try_read_up_to(&mut scratch, LARGE)
                .map_err(|error| Failure::Read(Cause::of(&error)))?
            {
                Some(0) => return Poll::Ready(Err(Failure::Read(ended(answer)))),
                Some(n) => {
                    worker.count(|tally| tally.bytes.received += n as u64);
                    if take_in(socket, answer, &scratch)? {
                        return Poll::Ready(Ok(()));
                    }
                    stuck = false;
                }
                // Not ready after all; the next look at it leaves the waker.
                None => stuck &= conn.poll_readable(cx).is_pending(),
            }
        }
        if stuck {
            return Poll::Pending;
        }
    }
}

/// What the end of a connection means.
fn ended(answer: &Answer<'_>) -> Cause {
    if answer.got > 0 { Cause::Truncated } else { Cause::ClosedEarly }
}

/// Takes in what was read; whether the answer is whole.
fn take_in(socket: &mut Socket, answer: &mut Answer<'_>, bytes: &[u8]) -> Result<bool, Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (taken, frame) = socket.frames.next(rest).map_err(|_| Failure::Malformed)?;
        match frame {
            Some(Frame::Data { range, end }) => {
                if answer.take(&rest[range], end)? {
                    socket.early.extend_from_slice(&rest[taken..]);
                    return Ok(true);
                }
            }
            Some(Frame::Ping(payload))
                if socket.out.len() - socket.sent < MOST_PONGS + answer.message.len() =>
            {
                socket.send(Kind::Pong, &payload);
            }
            Some(Frame::Close) => return Err(Failure::Read(ended(answer))),
            Some(Frame::Ping(_)) | None => {}
        }
        rest = &rest[taken..];
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accepting_answer_is_that_of_the_key() {
        // The example of RFC 6455 §1.3.
        let head =
            b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        assert!(accepts(head, "dGhlIHNhbXBsZSBub25jZQ=="));
        assert!(!accepts(head, "another") && !accepts(b"HTTP/1.1 101 S\r\n\r\n", "another"));
    }

    #[test]
    fn only_the_same_message_is_an_answer_unless_any_will_do() {
        let answer = |any| Answer { message: b"abc", got: 0, any };
        let mut same = answer(false);
        assert_eq!((same.take(b"ab", false), same.take(b"c", true)), (Ok(false), Ok(true)));
        assert!(answer(false).take(b"ax", false).is_err() && answer(false).take(b"ab", true).is_err());
        assert!(answer(false).take(b"abcd", true).is_err());
        assert_eq!(answer(true).take(b"another", true), Ok(true));
    }
}
