//! The streams of a connection.
//!
//! Owns: their states (RFC 9113 §5.1), finding one by its number.
//! Never: keeps one that has ended; of those that we reset it keeps the numbers, up to a bound.
//! Driven by: `receive`, `send`.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use slab::Slab;

/// A stream. It stays valid as long as the stream lives, and means no other one afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(super) id: u32,
    pub(super) slot: u32,
}

impl StreamKey {
    /// Its number on the wire.
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// Its place among the living streams: small, dense, given to another one when this one has ended. For tables beside.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Whether a stream has something to send that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    No,
    /// For its turn.
    Queued,
    /// For its own window.
    Starved,
}

/// One living stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// Whether the peer has not ended it.
    pub(super) receiving: bool,
    /// Whether we have not.
    pub(super) sending: bool,
    /// Whether the final head has come (in the client role), so that data may.
    pub(super) head_seen: bool,
    /// The answer has no body whatever its length says: that to HEAD.
    pub(super) to_head: bool,
    /// The request was malformed: it is reset once it is answered.
    pub(super) faulty: bool,
    /// Payload that is still to come, where the length is known.
    pub(super) length_left: Option<u64>,
    /// What the peer may still send.
    pub(super) receive_window: i64,
    /// What was released and not yet granted again.
    pub(super) released: u32,
    /// What we may still send; below 0 after the peer made its windows smaller.
    pub(super) send_window: i64,
    pub(super) waiting: Waiting,
}

/// A number times a large odd one: neighbours fall apart, and there are few.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// Numbers of streams that we reset: frames that were under way are no fault of the peer's.
const REMEMBERED: usize = 256;

#[derive(Default)]
pub(super) struct Streams {
    slab: Slab<Stream>,
    slots: HashMap<u32, u32, BuildHasherDefault<NumberHasher>>,
    reset: VecDeque<u32>,
    /// Whether a number was forgotten.
    forgot: bool,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn insert(&mut self, stream: Stream) -> StreamKey {
        let id = stream.id;
        // As many as there may be streams: far below 2³².
        let slot = self.slab.insert(stream) as u32;
        self.slots.insert(id, slot);
        StreamKey { id, slot }
    }

    pub(super) fn find(&self, id: u32) -> Option<StreamKey> {
        self.slots.get(&id).map(|&slot| StreamKey { id, slot })
    }

    pub(super) fn get(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.slab.get_mut(key.slot as usize).filter(|stream| stream.id == key.id)
    }

    pub(super) fn peek(&self, key: StreamKey) -> Option<&Stream> {
        self.slab.get(key.slot as usize).filter(|stream| stream.id == key.id)
    }

    pub(super) fn remove(&mut self, key: StreamKey) -> Option<Stream> {
        self.get(key)?;
        self.slots.remove(&key.id);
        self.slab.try_remove(key.slot as usize)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut Stream)> {
        self.slab.iter_mut().map(|(slot, stream)| (StreamKey { id: stream.id, slot: slot as u32 }, stream))
    }

    /// Notes that frames for `id` may still come.
    pub(super) fn remember(&mut self, id: u32) {
        if self.reset.len() == REMEMBERED {
            self.reset.pop_front();
            self.forgot = true;
        }
        self.reset.push_back(id);
    }

    /// Whether frames for `id`, which has ended, may have been under way when it did. In doubt they may.
    pub(super) fn may_straggle(&self, id: u32) -> bool {
        self.forgot || self.reset.contains(&id)
    }
}
