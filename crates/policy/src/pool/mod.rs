//! Endpoint choice for one pool.
//!
//! Owns: the methods, endpoint availability, in-flight counts, weights and turns.
//! Never: reads a clock, opens a socket, waits, sees configuration text.
//! Driven by: `engine`, once an attempt: [`Pool::choose`] → [`Lease`] → `succeed`, `fail` or drop.
//! Why: nginx's and HAProxy's methods are reproduced to the choice, because a fleet migrates one machine at a time and
//! both halves must send a session to the same endpoint.
//!
//! ```text
//! PoolConfig  immutable, in the plan     ─┐
//! PoolShared  the process's atomics      ─┼─ Pool: one per worker and plan version
//! Pool        view, own counts, own turns ┘
//! ```

mod choose;
mod config;
mod lease;
mod members;
mod method;
mod queue;
#[cfg(test)]
mod queue_tests;
mod rotation;
mod selection;
mod shared;
#[cfg(test)]
mod simulation;
mod table;
#[cfg(test)]
mod tests;

pub use choose::Pool;
pub use config::{
    BackupUse, Balance, EndpointConfig, KeyHash, MAX_WEIGHT, Measured, Placement, PoolConfig, PoolOptions,
    Times,
};
pub use lease::{Lease, Turnover};
pub use queue::{Place, Turn};
pub use selection::{Selection, TriedSet};
pub use shared::{EndpointLoad, EndpointShared, PoolShared, Standing};

use std::net::IpAddr;

/// An endpoint's place in its pool's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u32);

/// What the hash methods hash. Methods without a key ignore it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Key<'a> {
    /// No key: hash methods fall back to turns, as nginx (empty key) and HAProxy (missing field) do.
    #[default]
    None,
    /// The client's address, for `ip_hash` and `source`.
    Client(IpAddr),
    /// A computed string, for `hash`, `uri`, `url_param`, `hdr`.
    Bytes(&'a [u8]),
}

/// The outcome of a choice.
#[derive(Debug)]
pub enum Choice {
    /// Use this endpoint.
    Endpoint(Lease),
    /// None is up, or all were tried: nginx's "no live upstreams" (502), HAProxy's 503.
    NoneLive,
    /// Some are up, but full. nginx answers 502; HAProxy queues: for `wanted` if the key binds it there,
    /// else for whichever frees a slot first.
    AllBusy {
        /// The endpoint that the key names.
        wanted: Option<EndpointIndex>,
    },
}

/// The part of a path that HAProxy's `balance uri` hashes: up to the query unless `whole`, at most `len` bytes and
/// `depth` slashes (zero: no bound).
pub fn uri_key(uri: &[u8], len: usize, depth: usize, whole: bool) -> &[u8] {
    let uri = if len > 0 { &uri[..uri.len().min(len)] } else { uri };
    let mut slashes = 0;
    let end = uri.iter().position(|&byte| {
        slashes += usize::from(byte == b'/');
        (byte == b'/' && slashes == depth.saturating_add(1) && depth > 0) || (byte == b'?' && !whole)
    });
    &uri[..end.unwrap_or(uri.len())]
}
