//! What a rule may make of a target, one step at a time.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// One of HAProxy's normalizers of targets (`http-request normalize-uri`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnTimeout {
    /// Between two reads from the endpoint, or two writes to it.
    Endpoint,
    /// Between two reads in a tunnel.
    Tunnel,
    /// Between two writes to the client.
    Client,
}

/// A proxy of SOCKS 4 in front of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Socks {
    /// Where it is.
    pub address: std::net::SocketAddr,
    /// Checks go through it, too.
    pub checks: bool,
}

/// What of an endpoint's address is where the client wants to go (HAProxy servers at `*`, or without a port).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Follows {
    /// The address.
    pub address: bool,
    /// The port, with this added.
    pub port: Option<i32>,
}

impl Follows {
    /// The endpoint's address for a client that wants to go to `meant`. `None`: there is no such port.
    #[must_use]
    pub fn place(self, own: SocketAddr, meant: (IpAddr, u16)) -> Option<SocketAddr> {
        let port = match self.port {
            Some(added) => u16::try_from(i32::from(meant.1) + added).ok().filter(|&port| port > 0)?,
            None => own.port(),
        };
        Some(SocketAddr::new(if self.address { meant.0 } else { own.ip() }, port))
    }
}

/// Which end of a connection a rule says something of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Who the client is taken for (HAProxy `set-src` and its kin).
    Source,
    /// Where it is taken to want to go (HAProxy `set-dst` and its kin).
    Destination,
}

/// A part of an address that a rule sets (HAProxy `set-src`, `set-src-port`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressPart {
    /// The address.
    Ip,
    /// The port.
    Port,
}
