//! What a rule may make of a target, one step at a time.

use serde::Serialize;

/// One of HAProxy's normalizers of targets (`http-request normalize-uri`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalizer {
    /// Slashes in a row become one.
    MergeSlashes,
    /// Segments that are one dot go.
    StripDot,
    /// Segments that are two dots go, with the one before them.
    StripDotDot {
        /// At the root, too.
        full: bool,
    },
    /// Escapes of characters that need none are decoded.
    DecodeUnreserved {
        /// A broken escape is the client's fault.
        strict: bool,
    },
    /// Digits of escapes are written in capitals.
    UppercaseEscapes {
        /// A broken escape is the client's fault.
        strict: bool,
    },
    /// Arguments of the query are sorted by name.
    SortQuery,
    /// What follows `#` goes.
    StripFragment,
    /// `#` is escaped.
    EncodeFragment,
}

/// A time that a rule sets for one exchange (HAProxy `set-timeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTimeout {
    /// Between two reads from the endpoint, or two writes to it.
    Endpoint,
    /// Between two reads in a tunnel.
    Tunnel,
    /// Between two writes to the client.
    Client,
}

/// A part of an address that a rule sets (HAProxy `set-src`, `set-src-port`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressPart {
    /// The address.
    Ip,
    /// The port.
    Port,
}
