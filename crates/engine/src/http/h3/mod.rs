//! HTTP/3 on the client's side (RFC 9114).
//!
//! ```text
//!                 +-- Carrier: one task, polls the connection, reads heads --+
//!   datagrams <-> | rt::QuicConnection ──> a Half for each stream            |
//!                 +------------------------------│---------------------------+
//!                               a task for each stream: walk::run over Stream
//! ```
//!
//! Each request is an exchange like any other; [`crate::http::stream::Stream`] is its client's half, as for HTTP/2. A stream's task
//! takes its body from the transport itself: what is not taken stays within the stream's window.

mod carrier;
mod half;
mod lane;

pub(crate) use carrier::serve;
