//! HTTP/3 (RFC 9114) in the server's role: what stands on QUIC's streams. No socket, no clock, no stream.
//!
//! Owns: frames, field sections (QPACK, RFC 9204) without a dynamic table, the checks on both, streams of one direction.
//! Never: reads or writes a stream; keeps a body.
//! Driven by: the engine's connections, with bytes of one stream at a time.
//! Why no dynamic table: it makes streams wait for one another and costs memory for each connection. A server that announces
//! a capacity of zero is answered with the static table and literals; our answers use the same.
//!
//! | attack | bound |
//! |---|---|
//! | long field sections, many fields | [`RequestReader::new`] says what a list may measure; more is told as [`Item::TooLarge`] |
//! | frames nobody knows, empty frames, settings that never end | each is counted by [`Frames`], which the caller bounds |
//! | pushes, dynamic tables | errors of the connection |

mod code;
#[doc(hidden)]
pub mod fuzzing;
mod one_way;
mod qpack;
mod request;
mod static_table;
mod varint;
mod write;

pub use code::{Code, Fault};
pub use one_way::{Frames, OneWay, Opened};
pub use request::{Item, RequestReader};
pub use write::{data_head, goaway, head, settings};

/// The name in ALPN.
pub const ALPN: &[u8] = b"h3";

#[cfg(test)]
mod tests;
