//! The receiving direction: bytes to events.
//!
//! Owns: the place in the input, the checks of RFC 9113 §4 to §6 on every frame.
//! Never: copies payload, or a header block that is whole in one frame.
//! Driven by: the caller, through [`Connection::receive`].

use std::ops::Range;

use weir_rt::Instant;

use super::PREFACE;
use super::connection::{
    Connection, MAX_WINDOW, Role, SETTINGS_ENABLE_PUSH, SETTINGS_MAX_PAYLOAD, SETTINGS_MAX_STREAMS,
    SETTINGS_STREAM_WINDOW, SETTINGS_TABLE,
};
use super::error::{ConnectionError, Reason, fault};
use super::frame::{self, FrameHead, number};
use super::head::{Expected, HeadKind};
use super::hpack::Fit;
use super::streams::{Stream, StreamKey, Waiting};

/// What came of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// So many of them are done with.
    pub used: usize,
    /// What they said. `None`: more bytes are needed.
    pub event: Option<Event>,
}

/// What a peer has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A head: [`Connection::head`] shows it. In the server role a stream begins with it.
    Head {
        /// The stream.
        stream: StreamKey,
        /// Which head.
        kind: HeadKind,
        /// Whether the peer ends the stream with it.
        end: bool,
    },
    /// A request whose head is beyond [`super::Config::max_head`] and was not kept: 431 (server role). In the client role such
    /// an answer is a reset.
    TooLarge {
        /// The stream.
        stream: StreamKey,
        /// Whether the peer ends the stream with it.
        end: bool,
    },
    /// A request that is malformed (RFC 9113 §8.1.1), where [`super::Config::tells_malformed`]: 400. Its stream is to be reset,
    /// which says PROTOCOL_ERROR whatever reason is given.
    Malformed {
        /// The stream.
        stream: StreamKey,
        /// Whether the peer ends the stream with it.
        end: bool,
    },
    /// A piece of a body. To be given back with [`Connection::release`].
    Data {
        /// The stream.
        stream: StreamKey,
        /// Where in the input it stands.
        range: Range<usize>,
        /// Whether the peer ends the stream with it.
        end: bool,
    },
    /// Trailers, which end the stream: [`Connection::head`] shows them.
    Trailers {
        /// The stream.
        stream: StreamKey,
    },
    /// The stream has ended early. No more of it is sent or told.
    Reset {
        /// The stream.
        stream: StreamKey,
        /// Why. After [`Reason::REFUSED_STREAM`] the peer has done nothing, and the request may be sent again.
        reason: Reason,
        /// Whether the peer did it; otherwise we did, for a fault of the peer's.
        by_peer: bool,
    },
    /// The peer has said what it allows; in the client role more streams may fit.
    Settings,
    /// The peer takes no more streams.
    GoAway {
        /// Why.
        reason: Reason,
    },
    /// The answer to [`Connection::ping`].
    Pong(u64),
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Preface,
    Frame,
    /// Payload of a DATA frame, and the padding behind it.
    Data {
        stream: StreamKey,
        left: usize,
        padding: usize,
        end: bool,
    },
    /// Bytes that nobody wants.
    Skip(usize),
}

/// A header block that goes on in CONTINUATION frames.
pub(super) struct Unfinished {
    stream: u32,
    end: bool,
    frames: usize,
}

/// The frames that one block may be cut into. A block of the default bound takes five.
const MAX_FRAMES: usize = 16;

/// The last block, and what it meant: see `hpack`.
#[derive(Default)]
pub(super) struct Memo {
    block: Vec<u8>,
    /// The table's generation under which it means that, if it left the table as it was.
    known: Option<(Option<u64>, Expected, HeadKind)>,
}

/// A block that is HPACK, and still no good.
enum Bad {
    Malformed,
    TooLarge,
}

type Step<T> = Result<T, ConnectionError>;

impl Connection {
    /// Takes in bytes: all that was read and not used yet, in order. To be called again, with the rest, until it tells
    /// nothing. `now` is for what a peer may do in a time.
    ///
    /// # Errors
    /// The connection cannot go on; the output holds the GOAWAY that says why.
    pub fn receive(&mut self, input: &[u8], now: Instant) -> Result<Received, ConnectionError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if let Some(stream) = self.refused.pop() {
            let event = Event::Reset { stream, reason: Reason::REFUSED_STREAM, by_peer: true };
            return Ok(Received { used: 0, event: Some(event) });
        }
        let mut used = 0;
        match self.advance(input, &mut used, now) {
            Ok(event) => Ok(Received { used, event }),
            Err(fault) => {
                self.fail(fault);
                Err(fault)
            }
        }
    }

    fn advance(&mut self, input: &[u8], used: &mut usize, now: Instant) -> Step<Option<Event>> {
        loop {
            let rest = &input[*used..];
            match self.expect {
                Expect::Preface => {
                    let known = rest.len().min(PREFACE.len());
                    if rest[..known] != PREFACE[..known] {
                        return Err(fault(Reason::PROTOCOL_ERROR, "no preface"));
                    }
                    if known < PREFACE.len() {
                        return Ok(None);
                    }
                    *used += known;
                    self.expect = Expect::Frame;
                }
                Expect::Skip(left) => {
                    let n = left.min(rest.len());
                    *used += n;
                    if n < left {
                        self.expect = Expect::Skip(left - n);
                        return Ok(None);
                    }
                    self.expect = Expect::Frame;
                }
                Expect::Data { stream, left, padding, end } => {
                    if !self.is_alive(stream) {
                        // It was reset in the midst of a frame.
                        self.release_connection(left);
                        self.expect = Expect::Skip(left + padding);
                        continue;
                    }
                    let n = left.min(rest.len());
                    if n == 0 && left > 0 {
                        return Ok(None);
                    }
                    let range = *used..*used + n;
                    *used += n;
                    let whole = n == left;
                    self.expect = if whole {
                        Expect::Skip(padding)
                    } else {
                        Expect::Data { stream, left: left - n, padding, end }
                    };
                    if whole && end {
                        self.received_all(stream);
                    }
                    if n > 0 || end {
                        return Ok(Some(Event::Data { stream, range, end: end && whole }));
                    }
                }
                Expect::Frame => {
                    let Some(head) = FrameHead::read(rest) else { return Ok(None) };
                    self.admit(head)?;
                    if head.kind == frame::DATA {
                        let overhead = frame::HEAD + usize::from(head.has(frame::PADDED));
                        if rest.len() < overhead {
                            return Ok(None);
                        }
                        *used += overhead;
                        let padding =
                            if head.has(frame::PADDED) { usize::from(rest[frame::HEAD]) } else { 0 };
                        if let Some(event) = self.data(head, padding, now)? {
                            return Ok(Some(event));
                        }
                        continue;
                    }
                    let Some(payload) = rest.get(frame::HEAD..frame::HEAD + head.len) else {
                        return Ok(None);
                    };
                    *used += frame::HEAD + head.len;
                    if let Some(event) = self.frame(head, payload, now)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Checks what can be checked before the payload has come. May be called again for the same frame.
    fn admit(&self, head: FrameHead) -> Step<()> {
        if !self.settings_seen && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return Err(fault(Reason::PROTOCOL_ERROR, "the first frame is not SETTINGS"));
        }
        if head.len > frame::MAX_PAYLOAD {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "a frame beyond the largest size"));
        }
        match (&self.unfinished, head.kind == frame::CONTINUATION) {
            (Some(block), true) if block.stream == head.stream => {}
            (None, false) => {}
            (None, true) => return Err(fault(Reason::PROTOCOL_ERROR, "CONTINUATION of nothing")),
            (Some(_), _) => return Err(fault(Reason::PROTOCOL_ERROR, "a frame within a header block")),
        }
        let of_stream = match head.kind {
            frame::DATA
            | frame::HEADERS
            | frame::PRIORITY
            | frame::RST_STREAM
            | frame::PUSH_PROMISE
            | frame::CONTINUATION => true,
            frame::SETTINGS | frame::PING | frame::GOAWAY => false,
            _ => return Ok(()),
        };
        if of_stream == (head.stream == 0) {
            return Err(fault(
                Reason::PROTOCOL_ERROR,
                "a frame of a stream without one, or the other way round",
            ));
        }
        Ok(())
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        match head.kind {
            frame::HEADERS => self.headers(head, payload, now),
            frame::CONTINUATION => self.continuation(head, payload, now),
            frame::RST_STREAM => self.rst_stream(head, payload, now),
            frame::SETTINGS => self.settings(head, payload, now),
            frame::PING => self.pinged(head, payload, now),
            frame::GOAWAY => self.goaway(payload),
            frame::WINDOW_UPDATE => self.window_update(head, payload, now),
            frame::PUSH_PROMISE => Err(fault(Reason::PROTOCOL_ERROR, "a push that was switched off")),
            frame::PRIORITY => {
                self.chat(now)?;
                if payload.len() == 5 {
                    self.depends(head.stream, payload).map(|()| None)
                } else {
                    self.offend(head.stream, Reason::FRAME_SIZE_ERROR, now)
                }
            }
            // Unknown frames mean nothing (§4.1), but they are counted.
            _ => self.chat(now).map(|()| None),
        }
    }

    /// Counts a frame that carries nothing.
    fn chat(&mut self, now: Instant) -> Step<()> {
        if !self.chatter.take(now) {
            return Err(fault(Reason::ENHANCE_YOUR_CALM, "too many frames that carry nothing"));
        }
        if self.is_flooded() {
            return Err(fault(Reason::ENHANCE_YOUR_CALM, "answers are not read"));
        }
        Ok(())
    }

    /// Counts a stream that the peer made end early.
    fn count_reset(&mut self, now: Instant) -> Step<()> {
        if self.role == Role::Server && !self.resets.take(now) {
            return Err(fault(Reason::ENHANCE_YOUR_CALM, "too many streams are reset"));
        }
        if self.is_flooded() {
            return Err(fault(Reason::ENHANCE_YOUR_CALM, "answers are not read"));
        }
        Ok(())
    }

    /// Whether a stream with this number has never been.
    fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    /// A frame for a stream that has ended: one that was under way when we reset it, or a fault.
    fn straggler(&mut self, id: u32, now: Instant) -> Step<()> {
        if !self.streams.may_straggle(id) {
            return Err(fault(Reason::STREAM_CLOSED, "a frame for a stream that has ended"));
        }
        self.chat(now)
    }

    /// Resets a stream for the peer's fault. The event, if the caller knows the stream.
    fn offend(&mut self, id: u32, reason: Reason, now: Instant) -> Step<Option<Event>> {
        if self.is_idle(id) {
            // A reset of what has never been would be a fault of ours.
            return Err(fault(reason, "a frame for a stream that was never opened"));
        }
        self.write_reset(id, reason);
        self.count_reset(now)?;
        let known = self.streams.find(id);
        if let Some(stream) = known {
            self.forget(stream);
        }
        Ok(known.map(|stream| Event::Reset { stream, reason, by_peer: false }))
    }

    /// The peer's side of the stream has ended.
    fn received_all(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        stream.receiving = false;
        if !stream.sending {
            self.forget(key);
        }
    }

    // DATA

    fn data(&mut self, head: FrameHead, padding: usize, now: Instant) -> Step<Option<Event>> {
        let overhead = padding + usize::from(head.has(frame::PADDED));
        if overhead > head.len {
            return Err(fault(Reason::PROTOCOL_ERROR, "more padding than payload"));
        }
        let rest = head.len - usize::from(head.has(frame::PADDED));
        self.receive_window -= head.len as i64;
        if self.receive_window < 0 {
            return Err(fault(Reason::FLOW_CONTROL_ERROR, "more than the connection's window"));
        }
        let end = head.has(frame::END_STREAM);
        if head.len == overhead && !end {
            self.chat(now)?;
        }
        let Some(stream) = self.streams.find(head.stream) else {
            if self.is_idle(head.stream) {
                return Err(fault(Reason::PROTOCOL_ERROR, "DATA on a stream that was never opened"));
            }
            self.straggler(head.stream, now)?;
            self.release_connection(head.len);
            self.expect = Expect::Skip(rest);
            return Ok(None);
        };
        if let Err(reason) = self.take_in(stream, head.len, head.len - overhead, end) {
            self.release_connection(head.len);
            self.expect = Expect::Skip(rest);
            return self.offend(head.stream, reason, now);
        }
        // Padding is done with as it comes.
        if overhead > 0 {
            self.release(stream, overhead);
        }
        self.expect = Expect::Data { stream, left: head.len - overhead, padding, end };
        Ok(None)
    }

    /// Counts a frame of `whole` bytes with so much payload.
    fn take_in(&mut self, key: StreamKey, whole: usize, payload: usize, end: bool) -> Result<(), Reason> {
        let stream = self.streams.get(key).ok_or(Reason::STREAM_CLOSED)?;
        if !stream.receiving {
            return Err(Reason::STREAM_CLOSED);
        }
        if !stream.head_seen {
            return Err(Reason::PROTOCOL_ERROR);
        }
        stream.receive_window -= whole as i64;
        if stream.receive_window < 0 {
            return Err(Reason::FLOW_CONTROL_ERROR);
        }
        if let Some(left) = &mut stream.length_left {
            *left = left.checked_sub(payload as u64).ok_or(Reason::PROTOCOL_ERROR)?;
            if end && *left > 0 {
                return Err(Reason::PROTOCOL_ERROR);
            }
        }
        Ok(())
    }

    // HEADERS and CONTINUATION

    fn headers(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        let bad = fault(Reason::PROTOCOL_ERROR, "a HEADERS frame that is cut");
        let (mut from, mut to) = (0, payload.len());
        if head.has(frame::PADDED) {
            from = 1;
            to = to.checked_sub(usize::from(*payload.first().ok_or(bad)?)).ok_or(bad)?;
        }
        if head.has(frame::WITH_PRIORITY) {
            self.depends(head.stream, payload.get(from..).unwrap_or_default())?;
            from += 5;
        }
        let block = payload.get(from..to).ok_or(bad)?;
        let end = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            return self.header_block(head.stream, end, block, now);
        }
        self.block.clear();
        self.block.extend_from_slice(block);
        self.unfinished = Some(Unfinished { stream: head.stream, end, frames: 1 });
        Ok(None)
    }

    /// Priorities of streams mean nothing any more, but one that depends on itself is still a fault (RFC 7540 §5.3.1).
    fn depends(&self, stream: u32, priority: &[u8]) -> Step<()> {
        match frame::number(priority, 0) {
            Some(on) if on & !(1 << 31) == stream => {
                Err(fault(Reason::PROTOCOL_ERROR, "a stream that depends on itself"))
            }
            _ => Ok(()),
        }
    }

    fn continuation(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        let Some(unfinished) = &mut self.unfinished else { return Ok(None) };
        unfinished.frames += 1;
        if unfinished.frames > MAX_FRAMES || self.block.len() + payload.len() > self.config.max_head as usize
        {
            return Err(fault(Reason::ENHANCE_YOUR_CALM, "a header block without end"));
        }
        self.block.extend_from_slice(payload);
        if !head.has(frame::END_HEADERS) {
            return Ok(None);
        }
        let end = unfinished.end;
        self.unfinished = None;
        let block = std::mem::take(&mut self.block);
        let result = self.header_block(head.stream, end, &block, now);
        self.block = block;
        result
    }

    fn header_block(&mut self, id: u32, end: bool, block: &[u8], now: Instant) -> Step<Option<Event>> {
        self.block_length = block.len();
        match self.streams.find(id) {
            Some(stream) => self.known_stream(stream, end, block, now),
            None if self.role == Role::Server => self.new_stream(id, end, block, now),
            None => {
                if self.is_idle(id) {
                    return Err(fault(Reason::PROTOCOL_ERROR, "HEADERS on a stream that was never opened"));
                }
                let _ = self.decode(block, Expected::Response)?;
                self.straggler(id, now).map(|()| None)
            }
        }
    }

    /// Reads a block into [`Connection::head`].
    fn decode(&mut self, block: &[u8], expected: Expected) -> Step<Result<HeadKind, Bad>> {
        let generation = self.decoder.generation();
        if let Some((then, what, kind)) = self.memo.known
            && what == expected
            && self.memo.block == block
            && (then == Some(generation) || self.decoder.repeat(&self.head.fields))
        {
            return Ok(Ok(kind));
        }
        self.memo.known = None;
        let limit = self.config.max_head as usize;
        match self.decoder.decode(block, &mut self.head.fields, limit) {
            Err(_) => return Err(fault(Reason::COMPRESSION_ERROR, "a header block that is no HPACK")),
            Ok(Fit::TooLarge) => return Ok(Err(Bad::TooLarge)),
            Ok(Fit::Whole) => {}
        }
        let Ok(kind) = self.head.check(expected) else { return Ok(Err(Bad::Malformed)) };
        self.memo.block.clear();
        self.memo.block.extend_from_slice(block);
        let lasting = (self.decoder.generation() == generation).then_some(generation);
        self.memo.known = Some((lasting, expected, kind));
        Ok(Ok(kind))
    }

    fn new_stream(&mut self, id: u32, end: bool, block: &[u8], now: Instant) -> Step<Option<Event>> {
        if id.is_multiple_of(2) {
            return Err(fault(Reason::PROTOCOL_ERROR, "a client's stream with an even number"));
        }
        let decoded = self.decode(block, Expected::Request)?;
        if id <= self.last {
            return self.straggler(id, now).map(|()| None);
        }
        self.last = id;
        if self.going.is_some() {
            // What was under way when we said that we go: the client knows that it was not answered.
            self.streams.remember(id);
            return self.chat(now).map(|()| None);
        }
        if self.streams.len() >= self.config.max_streams as usize {
            return self.offend(id, Reason::REFUSED_STREAM, now);
        }
        let length = match &decoded {
            Ok(_) => self.head.length(),
            Err(_) => None,
        };
        let faulty =
            matches!(decoded, Err(Bad::Malformed)) || (end && length.is_some_and(|length| length > 0));
        if faulty {
            if !self.config.tells_malformed {
                return self.offend(id, Reason::PROTOCOL_ERROR, now);
            }
            self.count_reset(now)?;
        } else {
            self.chatter.earn(4);
        }
        let stream = self.streams.insert(Stream {
            id,
            // A stream that is to be reset is open until then.
            receiving: !end || faulty,
            sending: true,
            head_seen: true,
            to_head: false,
            faulty,
            length_left: length.filter(|_| !faulty),
            receive_window: i64::from(self.config.stream_window),
            released: 0,
            send_window: i64::from(self.peer.stream_window),
            waiting: Waiting::No,
        });
        Ok(Some(match decoded {
            _ if faulty => Event::Malformed { stream, end },
            Ok(kind) => Event::Head { stream, kind, end },
            Err(_) => Event::TooLarge { stream, end },
        }))
    }

    fn known_stream(&mut self, key: StreamKey, end: bool, block: &[u8], now: Instant) -> Step<Option<Event>> {
        let (head_seen, receiving, to_head, left) = match self.streams.peek(key) {
            Some(stream) => (stream.head_seen, stream.receiving, stream.to_head, stream.length_left),
            None => (true, false, false, None),
        };
        let expected = if head_seen { Expected::Trailers } else { Expected::Response };
        let decoded = self.decode(block, expected)?;
        if !receiving {
            return self.offend(key.id, Reason::STREAM_CLOSED, now);
        }
        let Ok(kind) = decoded else { return self.offend(key.id, Reason::PROTOCOL_ERROR, now) };
        match kind {
            HeadKind::Trailers => {
                if !end || left.is_some_and(|left| left > 0) {
                    return self.offend(key.id, Reason::PROTOCOL_ERROR, now);
                }
                self.received_all(key);
                Ok(Some(Event::Trailers { stream: key }))
            }
            HeadKind::Interim => {
                self.chat(now)?;
                if end {
                    return self.offend(key.id, Reason::PROTOCOL_ERROR, now);
                }
                Ok(Some(Event::Head { stream: key, kind, end }))
            }
            HeadKind::Request | HeadKind::Response => {
                let bodiless = to_head || matches!(self.head.status(), 204 | 304);
                let length = if bodiless { Some(0) } else { self.head.length() };
                if end && length.is_some_and(|length| length > 0) {
                    return self.offend(key.id, Reason::PROTOCOL_ERROR, now);
                }
                self.chatter.earn(4);
                if let Some(stream) = self.streams.get(key) {
                    stream.head_seen = true;
                    stream.length_left = length;
                }
                if end {
                    self.received_all(key);
                }
                Ok(Some(Event::Head { stream: key, kind, end }))
            }
        }
    }

    // The others

    fn rst_stream(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        let (Some(code), 4) = (number(payload, 0), payload.len()) else {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "RST_STREAM of a wrong size"));
        };
        if self.is_idle(head.stream) {
            return Err(fault(Reason::PROTOCOL_ERROR, "RST_STREAM of a stream that was never opened"));
        }
        let Some(stream) = self.streams.find(head.stream) else { return self.chat(now).map(|()| None) };
        self.forget(stream);
        self.count_reset(now)?;
        Ok(Some(Event::Reset { stream, reason: Reason(code), by_peer: true }))
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        if head.has(frame::ACK) {
            if !payload.is_empty() {
                return Err(fault(Reason::FRAME_SIZE_ERROR, "an acknowledgement with a payload"));
            }
            return self.chat(now).map(|()| None);
        }
        if !payload.len().is_multiple_of(6) {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "SETTINGS of a wrong size"));
        }
        if !self.settings_seen && self.role == Role::Client {
            // Silence on it means no bound.
            self.peer.max_streams = u32::MAX;
        }
        self.settings_seen = true;
        self.chat(now)?;
        let mut window = None;
        for entry in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            let Some(value) = number(entry, 2) else { break };
            match id {
                SETTINGS_TABLE => self.encoder.limit(value as usize),
                // A server must not say 1 (§6.5.2).
                SETTINGS_ENABLE_PUSH if value > u32::from(self.role == Role::Server) => {
                    return Err(fault(Reason::PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH out of range"));
                }
                SETTINGS_MAX_STREAMS => self.peer.max_streams = value,
                SETTINGS_STREAM_WINDOW if i64::from(value) > MAX_WINDOW => {
                    return Err(fault(
                        Reason::FLOW_CONTROL_ERROR,
                        "SETTINGS_INITIAL_WINDOW_SIZE out of range",
                    ));
                }
                // The last one counts: each would be a walk over all streams.
                SETTINGS_STREAM_WINDOW => window = Some(value),
                SETTINGS_MAX_PAYLOAD if !(16_384..1 << 24).contains(&value) => {
                    return Err(fault(Reason::PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE out of range"));
                }
                SETTINGS_MAX_PAYLOAD => self.peer.max_payload = value as usize,
                _ => {}
            }
        }
        if let Some(window) = window {
            self.resize_windows(window)?;
        }
        self.control(frame::SETTINGS, frame::ACK, 0, &[]);
        Ok(Some(Event::Settings))
    }

    fn resize_windows(&mut self, window: u32) -> Step<()> {
        let change = i64::from(window) - i64::from(self.peer.stream_window);
        self.peer.stream_window = window;
        for (key, stream) in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > MAX_WINDOW {
                return Err(fault(Reason::FLOW_CONTROL_ERROR, "a window beyond the largest"));
            }
            if stream.waiting == Waiting::Starved && stream.send_window > 0 {
                stream.waiting = Waiting::Queued;
                self.queue.push_back(key);
            }
        }
        Ok(())
    }

    fn pinged(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        let Ok(token) = <[u8; 8]>::try_from(payload) else {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "PING of a wrong size"));
        };
        self.chat(now)?;
        if head.has(frame::ACK) {
            return Ok(Some(Event::Pong(u64::from_be_bytes(token))));
        }
        self.control(frame::PING, frame::ACK, 0, payload);
        Ok(None)
    }

    fn goaway(&mut self, payload: &[u8]) -> Step<Option<Event>> {
        let (Some(last), Some(code)) = (number(payload, 0), number(payload, 4)) else {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "GOAWAY of a wrong size"));
        };
        let last = last & 0x7fff_ffff;
        if self.peer_going.is_some_and(|before| last > before) {
            return Err(fault(Reason::PROTOCOL_ERROR, "a GOAWAY that takes another one back"));
        }
        self.peer_going = Some(last);
        if self.role == Role::Client {
            self.refused = self.streams.iter_mut().map(|(key, _)| key).filter(|key| key.id > last).collect();
            for at in 0..self.refused.len() {
                self.forget(self.refused[at]);
            }
        }
        Ok(Some(Event::GoAway { reason: Reason(code) }))
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8], now: Instant) -> Step<Option<Event>> {
        let (Some(more), 4) = (number(payload, 0), payload.len()) else {
            return Err(fault(Reason::FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size"));
        };
        self.chat(now)?;
        let more = i64::from(more & 0x7fff_ffff);
        if head.stream == 0 {
            self.send_window += more;
            return match more {
                0 => Err(fault(Reason::PROTOCOL_ERROR, "a window update of 0")),
                _ if self.send_window > MAX_WINDOW => {
                    Err(fault(Reason::FLOW_CONTROL_ERROR, "a window beyond the largest"))
                }
                _ => Ok(None),
            };
        }
        let Some(key) = self.streams.find(head.stream) else {
            if self.is_idle(head.stream) {
                return Err(fault(Reason::PROTOCOL_ERROR, "WINDOW_UPDATE of a stream that was never opened"));
            }
            // It may have been under way when the stream ended.
            return Ok(None);
        };
        let Some(stream) = self.streams.get(key) else { return Ok(None) };
        stream.send_window += more;
        let (window, starved) = (stream.send_window, stream.waiting == Waiting::Starved);
        if more == 0 {
            return self.offend(head.stream, Reason::PROTOCOL_ERROR, now);
        }
        if window > MAX_WINDOW {
            return self.offend(head.stream, Reason::FLOW_CONTROL_ERROR, now);
        }
        if starved && window > 0 {
            stream.waiting = Waiting::Queued;
            self.queue.push_back(key);
        }
        Ok(None)
    }
}
