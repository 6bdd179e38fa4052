//! What a server writes.

use super::{qpack, varint};
use crate::h2::Fields;

/// What our control stream begins with: its kind, and settings: no dynamic table, lists of this size at most.
pub fn settings(out: &mut Vec<u8>, max_list: u64) {
    let mut payload = Vec::new();
    for (name, value) in [(0x01, 0), (0x06, max_list), (0x07, 0)] {
        varint::write(&mut payload, name);
        varint::write(&mut payload, value);
    }
    out.extend_from_slice(&[0x00, 0x04]);
    varint::write(out, payload.len() as u64);
    out.extend_from_slice(&payload);
}

/// Says that streams from this one on are not looked at.
pub fn goaway(out: &mut Vec<u8>, stream: u64) {
    let mut payload = Vec::new();
    varint::write(&mut payload, stream);
    out.push(0x07);
    varint::write(out, payload.len() as u64);
    out.extend_from_slice(&payload);
}

/// A head, or trailers.
pub fn head(out: &mut Vec<u8>, fields: &Fields) {
    let mut section = Vec::new();
    qpack::encode(fields, &mut section);
    out.push(0x01);
    varint::write(out, section.len() as u64);
    out.extend_from_slice(&section);
}

/// What stands before so many bytes of a body.
pub fn data_head(out: &mut Vec<u8>, length: usize) {
    out.push(0x00);
    varint::write(out, length as u64);
}
