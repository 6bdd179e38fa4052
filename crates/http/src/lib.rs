//! HTTP/1 on the wire and HTTP semantics, without a socket, a clock or a runtime.
//!
//! Owns: the one strict HTTP/1 grammar, header rules, body framing, and the writing of canonical heads.
//! Never: reads a clock, performs I/O, allocates per request on the common path.
//! Driven by: `wire` (connections in both roles), `engine` (semantics), `plan` and `lower` (header names, templates).
//! Why: a message that two programs can read in two ways is refused here, so that nobody behind can be fooled by it.
#![forbid(unsafe_code)]
// A length that is cut off is a length that a peer chose: each cast that could do so says why it does not.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod auth;
mod block;
pub mod body;
pub mod connection;
pub mod cookie;
mod cursor;
pub mod date;
pub mod fastcgi;
pub mod field;
pub mod forwarded;
pub mod framing;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
pub mod hello;
pub mod host;
pub mod limits;
pub mod lines;
pub mod list;
pub mod method;
pub mod name;
pub mod peers;
pub mod proxy_protocol;
pub mod request;
pub mod response;
pub mod scan;
pub mod semantics;
pub mod status;
pub mod target;
pub mod trace_context;
pub mod uri;
pub mod write;

pub use body::{BodyError, BodyEvent, BodyReader, ChunkLimits, Trailers};
pub use connection::ConnectionOptions;
pub use cursor::Cursor;
pub use date::{DateLine, HttpDate};
pub use field::{Field, Headers};
pub use framing::{Framing, FramingError};
pub use host::Authority;
pub use limits::{HeadRules, UnusualNames};
pub use lines::LineError;
pub use method::{Method, Version};
pub use name::HeaderId;
pub use request::{Parsed, Request, RequestError, RequestHead};
pub use response::{Response, ResponseError, ResponseHead};
pub use status::Phrases;
pub use target::TargetForm;
pub use write::{ConnectionOption, FieldLines, HeadWriter, InvalidText};
