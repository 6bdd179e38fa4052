//! Writing chunked bodies.
//!
//! Owns: chunk heads and tails, and the last chunk with its trailers.
//! Never: copies payload; the caller sends head, payload and tail in that order.
//! Why: always the shortest form, never extensions: what was read in two ways upstream is written in one.

use crate::name::HeaderId;
use crate::scan;

/// What follows the payload of each chunk.
pub const CHUNK_TAIL: &[u8] = b"\r\n";

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the head of a chunk of `size` bytes. A size of zero would end the body, so nothing is written for it.
pub fn chunk_head(out: &mut Vec<u8>, size: usize) {
    if size == 0 {
        return;
    }
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[size >> (place * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole chunk; nothing for no payload.
pub fn chunk(out: &mut Vec<u8>, payload: &[u8]) {
    if payload.is_empty() {
        return;
    }
    chunk_head(out, payload.len());
    out.extend_from_slice(payload);
    out.extend_from_slice(CHUNK_TAIL);
}

/// Appends the last chunk with these trailers. Fields that are no valid field, or that a trailer may not be, are left
/// out.
pub fn last_chunk<'a>(out: &mut Vec<u8>, trailers: impl IntoIterator<Item = (HeaderId, &'a [u8], &'a [u8])>) {
    out.extend_from_slice(b"0\r\n");
    for (id, name, value) in trailers {
        if super::chunked::is_forbidden_trailer(id) || !scan::is_token(name) || !scan::is_field_value(value) {
            continue;
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
