//! Settings of TCP services' sessions.
//!
//! Owns: how much is read ahead, and for how long; what a session of datagrams consists of. Driven by: front ends, which choose; `engine`, which reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Reading a connection ahead, before it is decided what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inspect {
    /// So long a whole hello is waited for (`preread_timeout`, `inspect-delay`).
    pub time: Duration,
    /// Most bytes that are read for it (`preread_buffer_size`).
    pub most: u64,
    /// What is no hello is waited for until there are so many bytes: rules look at stretches of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least: u64,
    /// A hello that does not come whole ends the session, as in nginx; else rules see what there is.
    pub strict: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a session of datagrams consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Datagrams {
    /// After so many datagrams of a client the next one begins another session (`proxy_requests`); `None`: never.
    pub requests: Option<u64>,
    /// So many datagrams answer each of a client's, and then the session is over (`proxy_responses`); `None`: nobody knows.
    pub responses: Option<u64>,
}
