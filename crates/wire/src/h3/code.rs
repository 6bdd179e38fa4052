//! Why a stream or a connection ends.

/// An error code of HTTP/3 (RFC 9114 §8.1) or QPACK (RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

impl Code {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0x100);
    /// The peer breaks a rule that has no code of its own.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// We could not go on.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream that must not be.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream ended that must not.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that must not stand here.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame whose form or length is wrong.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The peer costs too much.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// A setting that must not be.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// Settings did not come first.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not looked at.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request ended before it was whole.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The message is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section is none.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction to a table that we do not keep.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An acknowledgement of what was never sent.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// A fault of the peer's, and what ends by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The stream.
    Stream(Code),
    /// The connection.
    Connection(Code),
}
