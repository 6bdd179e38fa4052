//! HTTP/1 connections in both roles; HTTP/2 as a machine without a socket ([`h2`]); what HTTP/3 puts on streams ([`h3`]).
//!
//! Owns: receiving heads and bodies into pooled buffers, sending heads and bodies with the right framing, timeouts of
//! both.
//! Never: routes, retries, or decides what a message means; `engine` and `loadgen` do.
//! Driven by: the engine's exchanges (server role towards clients, client role towards endpoints).
//! Why: the two directions of a connection are two values ([`Incoming`], [`Outgoing`]) on handles of one socket, so
//! that an answer can be sent while the request is still arriving, without a lock or a third party.
//!
//! ```text
//!   socket ──> Incoming { input, BodyReader } ──> pieces of payload
//!   socket <── Outgoing { output, framing }   <── head, pieces of payload, end
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
pub mod h2;
pub mod h3;
mod pace;
mod receive;
mod send;
mod server;

pub use client::{ClientConnection, Heard, ResponseFailure};
pub use error::{ReceiveError, SendError};
pub use pace::{LeastRate, Pace};
pub use receive::{Incoming, Lent, Step};
pub use send::{Outgoing, SHARE, SendFraming};
pub use server::{HeadFailure, ServerConnection};

pub use weir_rt::Conn;
