//! HPACK (RFC 7541): header lists as HTTP/2 has them on the wire.
//!
//! Owns: the static and the dynamic tables, integers, strings, the Huffman code.
//! Never: judges a field's name or value (`head` does); keeps more than its bounds.
//! Driven by: `receive` and `send`, a block at a time.
//! Why our own: crates for it make two vectors of each field. Here a list is one run of bytes with marks in it, kept from
//! request to request, and a block that is the same bytes as the one before is not decoded again (`Connection`).

mod decode;
mod encode;
pub(crate) mod huffman;
pub(crate) mod integer;
mod table;

pub(crate) use decode::{Decoder, Fit, HpackError};
pub(crate) use encode::Encoder;

/// Bytes of the dynamic tables (SETTINGS_HEADER_TABLE_SIZE), the protocol's default. Announced and used: an encoder takes
/// less where its peer says so, never more.
pub(crate) const TABLE_SIZE: usize = 4096;
