//! Unpacking of bodies in gzip, for clients that take none.
//!
//! Owns: deciding whether a response is unpacked (nginx's gunzip module), and the decoder.
//! Driven by: `answer::filters`.
//! Why: what is unpacked may be a thousand times as long, so little of it is taken at a time.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use weir_http::HeaderId;

use super::{compress, entity};
use crate::exchange::{BodyFilter, BodySize, Exchange, Then};

/// Bytes that are unpacked at once; they come to a megabyte at most.
const STEP: usize = 1024;

/// A gzip stream that is being read.
struct Decoder {
    inner: MultiGzDecoder<Vec<u8>>,
    out: Vec<u8>,
    problem: Option<String>,
    /// Something came: an empty body is no broken one.
    began: bool,
}

impl Decoder {
    fn new() -> Self {
        Self { inner: MultiGzDecoder::new(Vec::new()), out: Vec::new(), problem: None, began: false }
    }
}

impl BodyFilter for Decoder {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.out.clear();
        if self.problem.is_some() {
            return &self.out;
        }
        self.began |= !piece.is_empty();
        let mut read = self.inner.write_all(piece);
        if read.is_ok() && then == Then::End && self.began {
            read = self.inner.try_finish();
        }
        if let Err(error) = read {
            self.problem = Some(format!("inflate() failed: {error}"));
        }
        std::mem::swap(&mut self.out, self.inner.get_mut());
        &self.out
    }

    fn step(&self) -> usize {
        STEP
    }

    fn problem(&self) -> Option<String> {
        self.problem.clone()
    }
}

/// Decides on unpacking; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(gzip) = filters.as_ref().and_then(|filters| filters.unpack.as_ref()) else { return size };
    let is_gzip = exchange
        .response
        .fields
        .first(HeaderId::ContentEncoding)
        .is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
    // A part of a packed body cannot be unpacked.
    if !is_gzip || exchange.response.status == 206 {
        return size;
    }
    if gzip.settings.vary {
        exchange.response.fields.push_id(HeaderId::Vary, b"Accept-Encoding");
    }
    if compress::wanted(exchange, gzip) {
        return size;
    }
    exchange.response.fields.remove(HeaderId::ContentEncoding);
    entity::drop_length(exchange);
    entity::weaken(&mut exchange.response.fields);
    if size == BodySize::Bodiless {
        return size;
    }
    exchange.filters.push(Box::new(Decoder::new()));
    BodySize::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_are_unpacked_one_behind_the_other_in_any_pieces() {
        let both = [packed(b"one, "), packed(&[b'x'; 50_000])].concat();
        for step in [1, 7, 1000, both.len()] {
            let (mut decoder, mut out) = (Decoder::new(), Vec::new());
            for piece in both.chunks(step) {
                out.extend_from_slice(decoder.pass(piece, Then::More));
            }
            out.extend_from_slice(decoder.pass(b"", Then::End));
            assert_eq!(decoder.problem(), None);
            assert_eq!(out.len(), 50_005);
            assert!(out.starts_with(b"one, xxx"));
        }
    }

    #[test]
    fn what_is_cut_or_no_gzip_is_a_problem_and_nothing_at_all_is_none() {
        for broken in [&packed(b"some text")[..12], b"no gzip at all, but long enough"] {
            let mut decoder = Decoder::new();
            let _ = decoder.pass(broken, Then::More);
            let _ = decoder.pass(b"", Then::End);
            assert!(decoder.problem().is_some());
        }
        let mut empty = Decoder::new();
        assert_eq!(empty.pass(b"", Then::End), b"");
        assert_eq!(empty.problem(), None);
    }
}
