//! Frame heads (RFC 9113 §4.1), types and flags (§6).
//!
//! Owns: their nine bytes. Never: looks into a payload.
//! Driven by: `receive`, `send`.

/// Bytes of a frame's head.
pub(crate) const HEAD: usize = 9;
/// The largest payload that we take: the protocol's default, which need not be announced.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// DATA, HEADERS: the sender's last frame of the stream.
pub(crate) const END_STREAM: u8 = 0x1;
/// SETTINGS, PING.
pub(crate) const ACK: u8 = 0x1;
/// HEADERS, CONTINUATION: the block ends here.
pub(crate) const END_HEADERS: u8 = 0x4;
/// DATA, HEADERS.
pub(crate) const PADDED: u8 = 0x8;
/// HEADERS: five bytes of priority come first.
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    /// The head that `bytes` begin with.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, s, t, u, v, ..] = *bytes else { return None };
        Some(Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes([s & 0x7f, t, u, v]),
        })
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> [u8; HEAD] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of four bytes at `at`.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
