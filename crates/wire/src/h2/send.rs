//! The sending direction: heads, payload, resets, windows granted.
//!
//! Owns: whose turn it is to send. Never: sends more than windows allow, or holds payload back.
//! Driven by: the caller; by `receive` when windows open.

use super::connection::{Connection, MAX_ID, Role};
use super::error::Reason;
use super::fields::Fields;
use super::frame::{self, FrameHead};
use super::streams::{Stream, StreamKey, Waiting};

/// The stream has ended or was reset: there is nobody to send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// Why no stream can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// The peer allows no more of them at a time.
    Full,
    /// The connection is ending, or has no numbers left: open another one.
    Ending,
}

/// Payload of which a frame is worth something to who sends it back as chatter.
const WORTHY: usize = 256;

impl Connection {
    /// Opens a stream with a request (client role). `end`: it has no body. `to_head`: the answer will have none.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was sent.
    pub fn open(&mut self, fields: &Fields, end: bool, to_head: bool) -> Result<StreamKey, OpenError> {
        debug_assert_eq!(self.role, Role::Client);
        if self.is_ending() || self.last >= MAX_ID - 1 {
            return Err(OpenError::Ending);
        }
        if self.streams.len() >= self.peer.max_streams as usize {
            return Err(OpenError::Full);
        }
        let id = if self.last == 0 { 1 } else { self.last + 2 };
        self.last = id;
        let key = self.streams.insert(Stream {
            id,
            receiving: true,
            sending: !end,
            head_seen: false,
            to_head,
            faulty: false,
            length_left: None,
            receive_window: i64::from(self.config.stream_window),
            released: 0,
            send_window: i64::from(self.peer.stream_window),
            waiting: Waiting::No,
        });
        self.write_head(id, fields, end);
        Ok(key)
    }

    /// Sends a head: an interim one, an answer, or trailers (then `end` is true).
    ///
    /// # Errors
    /// The stream is gone.
    pub fn send_head(&mut self, key: StreamKey, fields: &Fields, end: bool) -> Result<(), Gone> {
        if !self.streams.peek(key).is_some_and(|stream| stream.sending) {
            return Err(Gone);
        }
        self.write_head(key.id, fields, end);
        if end {
            self.sent_all(key);
        }
        Ok(())
    }

    fn write_head(&mut self, id: u32, fields: &Fields, end: bool) {
        let block = self.encoder.encode(fields);
        let most = self.peer.max_payload;
        let mut pieces = block.chunks(most);
        let first = pieces.next().unwrap_or_default();
        let mut left = block.len() - first.len();
        let mut kind = frame::HEADERS;
        let mut flags = if end { frame::END_STREAM } else { 0 };
        let mut piece = first;
        loop {
            let last = if left == 0 { frame::END_HEADERS } else { 0 };
            let head = FrameHead { len: piece.len(), kind, flags: flags | last, stream: id };
            self.out.extend(&head.bytes());
            self.out.extend(piece);
            let Some(next) = pieces.next() else { return };
            left -= next.len();
            (kind, flags, piece) = (frame::CONTINUATION, 0, next);
        }
    }

    /// Begins a frame of payload and says how many bytes it has: at most `want`. Exactly that many have to follow, either
    /// appended to the output or written right behind it. `end`: with all of `want` the stream ends.
    ///
    /// Fewer than `want` mean that a window or the output is full: the stream is then among those that
    /// [`Connection::next_writable`] tells when there is room.
    ///
    /// # Errors
    /// The stream is gone.
    pub fn begin_data(&mut self, key: StreamKey, want: usize, end: bool) -> Result<usize, Gone> {
        let room = self.config.output_limit.saturating_sub(self.out.len() + frame::HEAD);
        let window = self.send_window.max(0) as usize;
        let most = self.peer.max_payload.min(frame::MAX_PAYLOAD);
        let stream = self.streams.get(key).filter(|stream| stream.sending).ok_or(Gone)?;
        let own = stream.send_window.max(0) as usize;
        let n = want.min(most).min(own).min(window).min(room);
        if n < want && stream.waiting == Waiting::No {
            let starved = own == n && n < window.min(room);
            stream.waiting = if starved { Waiting::Starved } else { Waiting::Queued };
            self.waiting += 1;
            if !starved {
                self.queue.push_back(key);
            }
        }
        let end = end && n == want;
        if n == 0 && !end {
            return Ok(0);
        }
        stream.send_window -= n as i64;
        self.send_window -= n as i64;
        let flags = if end { frame::END_STREAM } else { 0 };
        let head = FrameHead { len: n, kind: frame::DATA, flags, stream: key.id };
        self.out.extend(&head.bytes());
        if n >= WORTHY || end {
            self.chatter.earn(2);
        }
        if end {
            self.sent_all(key);
        }
        Ok(n)
    }

    /// Copies payload to the output, as much as fits now; says how much that was. See [`Connection::begin_data`].
    ///
    /// # Errors
    /// The stream is gone.
    pub fn send_data(&mut self, key: StreamKey, payload: &[u8], end: bool) -> Result<usize, Gone> {
        let mut sent = 0;
        loop {
            let n = self.begin_data(key, payload.len() - sent, end)?;
            self.out.extend(&payload[sent..sent + n]);
            sent += n;
            if sent == payload.len() || n == 0 {
                return Ok(sent);
            }
            // It did not fit one frame, or not at all; the next round tells.
            self.unwait(key);
        }
    }

    /// The next stream that could not send all and may now. It is told once; it waits again when it still cannot.
    pub fn next_writable(&mut self) -> Option<StreamKey> {
        while self.send_window > 0 && self.out.len() + frame::HEAD < self.config.output_limit {
            let key = self.queue.pop_front()?;
            let Some(stream) = self.streams.get(key).filter(|stream| stream.waiting == Waiting::Queued)
            else {
                continue;
            };
            if stream.send_window <= 0 {
                stream.waiting = Waiting::Starved;
                continue;
            }
            stream.waiting = Waiting::No;
            self.waiting -= 1;
            return Some(key);
        }
        None
    }

    /// Says that the stream has nothing to send for now.
    fn unwait(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        let was = std::mem::replace(&mut stream.waiting, Waiting::No);
        self.leave_queue(key, was);
    }

    /// Ends a stream early. What the peer has under way for it is read over.
    pub fn reset(&mut self, key: StreamKey, reason: Reason) {
        if self.is_alive(key) {
            let faulty = self.streams.peek(key).is_some_and(|stream| stream.faulty);
            self.write_reset(key.id, if faulty { Reason::PROTOCOL_ERROR } else { reason });
            self.forget(key);
        }
    }

    pub(super) fn write_reset(&mut self, id: u32, reason: Reason) {
        self.control(frame::RST_STREAM, 0, id, &reason.0.to_be_bytes());
        self.streams.remember(id);
    }

    /// Says that `n` bytes of a stream's payload are out of the way, so that the peer may send as many more. For every
    /// byte of every [`super::Event::Data`], also when the stream has ended since.
    pub fn release(&mut self, key: StreamKey, n: usize) {
        self.release_connection(n);
        let window = self.config.stream_window;
        let Some(stream) = self.streams.get(key).filter(|stream| stream.receiving) else { return };
        stream.released = stream.released.saturating_add(n as u32);
        // Half a window at a time: a frame for each piece would be a frame too many.
        if stream.released >= window / 2 {
            let released = std::mem::take(&mut stream.released);
            stream.receive_window += i64::from(released);
            self.control(frame::WINDOW_UPDATE, 0, key.id, &released.to_be_bytes());
        }
    }

    pub(super) fn release_connection(&mut self, n: usize) {
        self.released = self.released.saturating_add(n as u32);
        if self.released >= self.config.connection_window / 2 {
            let released = std::mem::take(&mut self.released);
            self.receive_window += i64::from(released);
            self.control(frame::WINDOW_UPDATE, 0, 0, &released.to_be_bytes());
        }
    }

    /// Asks the peer whether it is there; it answers with [`super::Event::Pong`].
    pub fn ping(&mut self, token: u64) {
        self.control(frame::PING, 0, 0, &token.to_be_bytes());
    }

    /// Says that the connection will end (server role): the first of two steps, so that what a client has sent before it
    /// hears is answered. Some time later [`Connection::go_away`].
    pub fn announce_end(&mut self) {
        if !self.is_ending() {
            self.goodbye(MAX_ID, Reason::NO_ERROR, b"");
        }
    }

    /// Says that streams that begin from now on are not answered. Those that live go on.
    pub fn go_away(&mut self, reason: Reason) {
        if self.fault.is_none() && self.going.is_none() {
            self.say_goodbye(reason, b"");
        }
    }

    /// Our side of the stream has ended.
    pub(super) fn sent_all(&mut self, key: StreamKey) {
        self.unwait(key);
        let Some(stream) = self.streams.get(key) else { return };
        stream.sending = false;
        if !stream.receiving {
            self.forget(key);
        }
    }
}
