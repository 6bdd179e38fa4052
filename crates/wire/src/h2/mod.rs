//! HTTP/2 (RFC 9113) in both roles, without a socket and without a clock.
//!
//! Owns: frames, header compression, streams and their states, flow control both ways, what a peer may cost us.
//! Never: reads, writes or waits; holds payload: pieces of bodies are ranges of what the caller read. Pushes (the client
//! role refuses it), keeps priorities (they are read over).
//! Driven by: `loadgen` today, the engine next.
//! Why our own and not the crate `h2`: that one owns the socket, wakes a task for each stream and allocates for each
//! message. Through memory, both roles together, a 1 KB answer on one of 10 streams takes 0.55 µs here (0.18 µs where the
//! heads repeat themselves) and 4.8 µs there: `examples/h2_requests.rs`.
//!
//! # Calling order
//!
//! ```text
//!   bytes read ──> receive ──> Event, again until there is none; keep what was not used, and read more behind it
//!                              Head: head()     Data: input[range], then release()
//!   open / send_head / begin_data or send_data / reset ──> output() ──> bytes to write, before the next read
//!   after a receive, and after a write: next_writable() until none, for streams that could not send all
//! ```
//!
//! After an error, write what stands in the output (it says why) and close. When [`Connection::is_congested`], write before
//! reading on: a peer that does not read is not listened to either.
//!
//! # Known attacks, and what meets them
//!
//! | attack | bound |
//! |---|---|
//! | rapid reset (CVE-2023-44487), also paced | [`Config::resets`]: streams that the peer resets before their end |
//! | MadeYouReset (CVE-2025-8671) | the same allowance pays for streams that we reset for the peer's faults |
//! | floods of SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown frames, 1xx (CVE-2019-9512 and others) | [`Config::chatter`], and the output's bound |
//! | CONTINUATION flood (CVE-2024-27316) | bytes and frames of a block |
//! | HPACK bomb (CVE-2016-6581) | [`Config::max_head`] bounds the decoded list; the table is 4 KB |
//! | more streams than allowed | refused, and paid for out of [`Config::resets`] |
//! | windows kept at zero (CVE-2019-9517, slow read) | nothing is buffered beyond the output's bound; [`Connection::is_stalled`] is for the caller's timer |
//! | windows beyond 2³¹−1 | FLOW_CONTROL_ERROR |

pub(crate) mod budget;
mod connection;
mod error;
mod fields;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub(crate) mod head;
pub(crate) mod hpack;
mod receive;
mod send;
mod streams;

pub use budget::Allowance;
pub use connection::{Config, Connection, Role};
pub use error::{ConnectionError, Reason};
pub use fields::{FieldRef, Fields};
pub use head::{Head, HeadKind};
pub use receive::{Event, Received};
pub use send::{Gone, OpenError};
pub use streams::StreamKey;

/// What a client's connection begins with (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The name in ALPN of HTTP/2 over TLS.
pub const ALPN: &[u8] = b"h2";

#[cfg(test)]
mod tests;
