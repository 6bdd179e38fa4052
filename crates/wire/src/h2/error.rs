//! What ends a stream or a connection (RFC 9113 §5.4, §7).
//!
//! Owns: error codes and their names. Driven by: everything here.

/// An error code. Peers may send ones that are not known here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// It ends as it should.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer does what the protocol does not allow.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// Something of our own failed.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// More was sent than a window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame for a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame is too large or too small.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// Nothing was done for the stream: it may be tried again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is not wanted any more.
    pub const CANCEL: Self = Self(0x8);
    /// The header tables have parted.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// What a CONNECT led to has failed.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer costs too much.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The encryption is too weak.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// HTTP/1.1 is wanted.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// Its name in the RFC.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("an unknown error")
    }
}

impl std::fmt::Debug for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:#x})", self.name(), self.0)
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The connection cannot go on. The GOAWAY that says so stands in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// What the peer is told.
    pub reason: Reason,
    /// What a log is told.
    pub why: &'static str,
}

impl std::fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.why)
    }
}

impl std::error::Error for ConnectionError {}

pub(crate) const fn fault(reason: Reason, why: &'static str) -> ConnectionError {
    ConnectionError { reason, why }
}
