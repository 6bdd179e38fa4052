//! HTTP/2 on the client's side (RFC 9113).
//!
//! ```text
//!                    +-- Carrier: one task, reads and writes the connection --+
//!   socket  <------> | input ──> wire::h2 ──> an Inbox for each stream        |
//!                    | output <── wire::h2 <──────────────┐                   |
//!                    +------------------------------------│-------------------+
//!                               a task for each stream: walk::run over Stream
//! ```
//!
//! Each request is an exchange like any other, walked by the same code; [`crate::http::stream::Stream`] is its client's half. What a
//! stream sends goes through the windows of [`weir_wire::h2`] into the connection's output, which the carrier writes: what many
//! streams say in one wake-up leaves in one write.

mod carrier;
mod lane;
mod mux;

use weir_wire::h2::PREFACE;

pub(crate) use carrier::serve;

/// Whether a connection begins as HTTP/2 does. The beginning of the preface is enough: no method begins like it.
pub(crate) fn is_preface(input: &[u8]) -> bool {
    input.len() >= 4 && PREFACE.starts_with(&input[..input.len().min(PREFACE.len())])
}
