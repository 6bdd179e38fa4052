//! A connection: what both directions share.
//!
//! Owns: settings of both sides, windows of the connection, streams, output.
//! Never: see [`super`].
//! Driven by: `receive`, `send`, and the caller's questions.

use std::collections::VecDeque;

use weir_rt::Buf;

use super::budget::{Allowance, Budget};
use super::error::{ConnectionError, Reason};
use super::frame::{self, FrameHead};
use super::hpack::{Decoder, Encoder};
use super::receive::{Expect, Memo, Unfinished};
use super::streams::{StreamKey, Streams, Waiting};
use super::{Head, PREFACE};

/// Which side we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Opens streams.
    Client,
    /// Answers on them.
    Server,
}

/// Bounds of a connection. The defaults are a server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Streams that a client may have open at a time. Each may cost an upstream connection; below 100 browsers wait.
    pub max_streams: u32,
    /// Bytes that each stream may send before they are released; 65,535 at least. Smaller: less memory for uploads, which
    /// then take a round trip for each window.
    pub stream_window: u32,
    /// The same for all streams together; 65,535 at least.
    pub connection_window: u32,
    /// The largest header list: names, values, and 32 for each field (SETTINGS_MAX_HEADER_LIST_SIZE); also the most bytes
    /// that its block may have.
    pub max_head: u32,
    /// A malformed request is told ([`super::Event::Malformed`]), so that it can be answered before its stream is reset.
    /// Otherwise the stream is reset at once.
    pub tells_malformed: bool,
    /// Bytes of output beyond which no more payload is taken.
    pub output_limit: usize,
    /// Streams that a client may end early by resets or faults. Browsers reset dozens when a page is left.
    pub resets: Allowance,
    /// Frames that carry nothing and make work.
    pub chatter: Allowance,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_streams: 128,
            stream_window: 65_536,
            connection_window: 1 << 20,
            max_head: 64 * 1024,
            tells_malformed: false,
            output_limit: 64 * 1024,
            resets: Allowance { burst: 400, per_second: 30 },
            chatter: Allowance { burst: 2_000, per_second: 200 },
        }
    }
}

/// What the peer's SETTINGS say.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) max_streams: u32,
    pub(super) stream_window: u32,
    pub(super) max_payload: usize,
}

/// The largest window there is (RFC 9113 §6.9.1).
pub(super) const MAX_WINDOW: i64 = (1 << 31) - 1;
/// The window of streams and connections before anything was said.
pub(super) const FIRST_WINDOW: u32 = 65_535;
pub(super) const MAX_ID: u32 = (1 << 31) - 1;
/// Frames of ours that may stand in the output behind its bound: answers to what was read before it was reached.
const SLACK: usize = 64 * 1024;

/// A connection. See [`super`] for the order of calls.
pub struct Connection {
    pub(super) role: Role,
    pub(super) config: Config,
    pub(super) fault: Option<ConnectionError>,

    pub(super) expect: Expect,
    pub(super) settings_seen: bool,
    pub(super) decoder: Decoder,
    pub(super) head: Head,
    pub(super) memo: Memo,
    pub(super) block: Vec<u8>,
    /// Bytes of the last whole header block, as they arrived.
    pub(super) block_length: usize,
    pub(super) unfinished: Option<Unfinished>,
    pub(super) resets: Budget,
    pub(super) chatter: Budget,
    /// Streams that a GOAWAY left out, to be told.
    pub(super) refused: Vec<StreamKey>,
    pub(super) receive_window: i64,
    pub(super) released: u32,

    pub(super) streams: Streams,
    /// The highest stream that the client opened: the peer's in the server role, ours in the client role.
    pub(super) last: u32,

    pub(super) peer: Peer,
    pub(super) send_window: i64,
    pub(super) encoder: Encoder,
    pub(super) out: Buf,
    pub(super) queue: VecDeque<StreamKey>,
    /// Streams that wait to send, for whatever.
    pub(super) waiting: usize,
    /// The last stream that we answer, once we have said so.
    pub(super) going: Option<u32>,
    /// The last stream that the peer answers.
    pub(super) peer_going: Option<u32>,
}

impl Connection {
    /// A connection that has begun: the output holds what comes first.
    #[must_use]
    pub fn new(role: Role, mut config: Config) -> Self {
        // Smaller windows would be in force only once the peer has acknowledged them.
        config.stream_window = config.stream_window.clamp(FIRST_WINDOW, MAX_WINDOW as u32);
        config.connection_window = config.connection_window.clamp(FIRST_WINDOW, MAX_WINDOW as u32);
        let mut connection = Self {
            role,
            config,
            fault: None,
            expect: if role == Role::Server { Expect::Preface } else { Expect::Frame },
            settings_seen: false,
            decoder: Decoder::new(),
            head: Head::default(),
            memo: Memo::default(),
            block: Vec::new(),
            block_length: 0,
            unfinished: None,
            resets: Budget::new(config.resets),
            chatter: Budget::new(config.chatter),
            refused: Vec::new(),
            receive_window: i64::from(config.connection_window),
            released: 0,
            streams: Streams::default(),
            last: 0,
            // What a server allows is unknown until it says so; 100 is what the RFC asks it to allow at least.
            peer: Peer { max_streams: 100, stream_window: FIRST_WINDOW, max_payload: frame::MAX_PAYLOAD },
            send_window: i64::from(FIRST_WINDOW),
            encoder: Encoder::new(),
            out: Buf::new(),
            queue: VecDeque::new(),
            waiting: 0,
            going: None,
            peer_going: None,
        };
        connection.begin();
        connection
    }

    fn begin(&mut self) {
        let Config { max_streams, stream_window, connection_window, max_head, .. } = self.config;
        let mut settings = Vec::with_capacity(24);
        let mut set = |id: u16, value: u32| {
            settings.extend_from_slice(&id.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        };
        if self.role == Role::Client {
            self.out.extend(PREFACE);
            set(SETTINGS_ENABLE_PUSH, 0);
        } else {
            set(SETTINGS_MAX_STREAMS, max_streams);
        }
        set(SETTINGS_STREAM_WINDOW, stream_window);
        set(SETTINGS_MAX_HEAD, max_head);
        self.control(frame::SETTINGS, 0, 0, &settings);
        if connection_window > FIRST_WINDOW {
            self.control(frame::WINDOW_UPDATE, 0, 0, &(connection_window - FIRST_WINDOW).to_be_bytes());
        }
    }

    /// The head or trailers of the last event that told of one. Valid until [`Connection::receive`] is called again.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How many bytes [`Connection::head`] arrived in.
    #[must_use]
    pub fn block_length(&self) -> usize {
        self.block_length
    }

    /// What is to be written. Whoever writes it takes it out.
    pub fn output(&mut self) -> &mut Buf {
        &mut self.out
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether so much is to be written that nothing should be read before it was.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.out.len() > self.config.output_limit
    }

    /// Living streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether the stream lives.
    #[must_use]
    pub fn is_alive(&self, key: StreamKey) -> bool {
        self.streams.peek(key).is_some()
    }

    /// How many more streams may be opened now (client role).
    #[must_use]
    pub fn may_open(&self) -> usize {
        if self.is_ending() || self.last >= MAX_ID - 1 {
            return 0;
        }
        (self.peer.max_streams as usize).saturating_sub(self.streams.len())
    }

    /// Whether no stream begins any more: either side has said so, or it failed.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.fault.is_some() || self.going.is_some() || self.peer_going.is_some()
    }

    /// Whether it is ending and the last stream has ended: write what there is, and close.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.fault.is_some() || (self.is_ending() && self.streams.len() == 0)
    }

    /// Whether payload waits and the peer's windows take none: that may last as long as a peer may be slow, and no longer.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.waiting > 0 && (self.send_window <= 0 || self.queue.is_empty())
    }

    /// Gives back memory that an idle connection does not need.
    pub fn idle(&mut self) {
        if self.out.is_empty() {
            self.out.release();
        }
        if self.unfinished.is_none() {
            self.block = Vec::new();
        }
    }

    /// Writes a frame of ours that is no payload.
    pub(super) fn control(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let head = FrameHead { len: payload.len(), kind, flags, stream };
        self.out.extend(&head.bytes());
        self.out.extend(payload);
    }

    /// Whether our own frames pile up, because the peer makes us answer and reads no answers.
    pub(super) fn is_flooded(&self) -> bool {
        self.out.len() > self.config.output_limit + SLACK
    }

    /// Takes a stream out.
    pub(super) fn forget(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.remove(key) else { return };
        self.leave_queue(key, stream.waiting);
    }

    /// Takes a stream out of those that wait: nobody stands in the queue who does not.
    pub(super) fn leave_queue(&mut self, key: StreamKey, was: Waiting) {
        if was == Waiting::Queued {
            // Mostly the last one, that has just come.
            if self.queue.back() == Some(&key) {
                self.queue.pop_back();
            } else {
                self.queue.retain(|other| *other != key);
            }
        }
        self.waiting -= usize::from(was != Waiting::No);
    }

    /// Whether the queue holds exactly the streams that wait for their turn.
    #[cfg(test)]
    pub(super) fn is_consistent(&mut self) -> bool {
        let (mut queued, mut waiting) = (0, 0);
        for (_, stream) in self.streams.iter_mut() {
            queued += usize::from(stream.waiting == Waiting::Queued);
            waiting += usize::from(stream.waiting != Waiting::No);
        }
        (queued, waiting) == (self.queue.len(), self.waiting)
    }

    /// Ends the connection for the peer's fault.
    pub(super) fn fail(&mut self, fault: ConnectionError) {
        if self.fault.is_none() {
            self.say_goodbye(fault.reason, fault.why.as_bytes());
            self.fault = Some(fault);
        }
    }

    pub(super) fn say_goodbye(&mut self, reason: Reason, why: &[u8]) {
        let last = if self.role == Role::Server { self.last } else { 0 };
        self.goodbye(last, reason, why);
        self.going = Some(last);
    }

    pub(super) fn goodbye(&mut self, last: u32, reason: Reason, why: &[u8]) {
        let mut payload = Vec::with_capacity(8 + why.len());
        payload.extend_from_slice(&last.to_be_bytes());
        payload.extend_from_slice(&reason.0.to_be_bytes());
        payload.extend_from_slice(why);
        self.control(frame::GOAWAY, 0, 0, &payload);
    }
}

pub(super) const SETTINGS_TABLE: u16 = 0x1;
pub(super) const SETTINGS_ENABLE_PUSH: u16 = 0x2;
pub(super) const SETTINGS_MAX_STREAMS: u16 = 0x3;
pub(super) const SETTINGS_STREAM_WINDOW: u16 = 0x4;
pub(super) const SETTINGS_MAX_PAYLOAD: u16 = 0x5;
pub(super) const SETTINGS_MAX_HEAD: u16 = 0x6;
