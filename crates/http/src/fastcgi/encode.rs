//! Writing FastCGI records.
//!
//! Owns: record heads, parameter lengths, padding to eight bytes.
//! Why: a stream ends with an empty record; until [`end_stream`] is written the application waits, so a request body
//! that was cut never looks whole.

use super::{BEGIN_REQUEST, HEADER, PARAMS, REQUEST, STDIN, VERSION};

/// Most content of one record, a multiple of eight so that full records need no padding.
const MAX_CONTENT: usize = 0xfff8;

/// Appends the start of a request in the responder role. `keep` asks the application not to close the connection
/// afterwards.
pub fn begin_request(out: &mut Vec<u8>, keep: bool) {
    const RESPONDER: u8 = 1;
    record_head(out, BEGIN_REQUEST, 8, 0);
    out.extend_from_slice(&[0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
}

/// Appends one parameter to a buffer of parameters, which [`params`] then makes records of.
pub fn param(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    length(out, name.len());
    length(out, value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn length(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(short @ 0..128) => out.push(short),
        // Heads are bounded far below two gigabytes; a longer length would be no length.
        _ => out.extend_from_slice(&(u32::try_from(len).unwrap_or(u32::MAX) | 1 << 31).to_be_bytes()),
    }
}

/// Appends all parameters and their end.
pub fn params(out: &mut Vec<u8>, pairs: &[u8]) {
    stream(out, PARAMS, pairs);
    record_head(out, PARAMS, 0, 0);
}

/// Appends a piece of the request body; nothing for an empty piece, which would end the body.
pub fn stdin(out: &mut Vec<u8>, piece: &[u8]) {
    stream(out, STDIN, piece);
}

/// Appends the end of the request body.
pub fn end_stream(out: &mut Vec<u8>) {
    record_head(out, STDIN, 0, 0);
}

fn stream(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    for piece in content.chunks(MAX_CONTENT) {
        let padding = piece.len().next_multiple_of(8) - piece.len();
        record_head(out, kind, piece.len(), padding);
        out.extend_from_slice(piece);
        out.extend_from_slice(&[0; 8][..padding]);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "contents come in pieces of `MAX_CONTENT`, and padding ends at eight"
)]
fn record_head(out: &mut Vec<u8>, kind: u8, content: usize, padding: usize) {
    let [id_high, id_low] = REQUEST.to_be_bytes();
    let [high, low] = (content as u16).to_be_bytes();
    let head: [u8; HEADER] = [VERSION, kind, id_high, id_low, high, low, padding as u8, 0];
    out.extend_from_slice(&head);
}
