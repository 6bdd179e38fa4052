//! Bodies in Brotli: RFC 7932.

use std::io::Write as _;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;

use crate::exchange::{BodyFilter, Response, Then};

/// What the library hands over at once.
const PIECE: usize = 16 * 1024;

/// A stream that is being made.
pub(super) struct Encoder {
    /// `None` when it is whole.
    stream: Option<CompressorWriter<Vec<u8>>>,
    taken: u64,
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder of this level, 0 to 11, that looks back 2^`window` bytes.
    pub(super) fn new(level: u8, window: u8) -> Self {
        let params = BrotliEncoderParams {
            quality: i32::from(level),
            lgwin: i32::from(window),
            ..BrotliEncoderParams::default()
        };
        Self {
            stream: Some(CompressorWriter::with_params(Vec::new(), PIECE, &params)),
            taken: 0,
            out: Vec::new(),
        }
    }
}

impl BodyFilter for Encoder {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.taken += piece.len() as u64;
        self.out.clear();
        let Some(mut stream) = self.stream.take() else { return &[] };
        std::mem::swap(stream.get_mut(), &mut self.out);
        // Nothing fails that is written to memory.
        let _ = stream.write_all(piece);
        if then == Then::Flush {
            let _ = stream.flush();
        }
        if then == Then::End {
            self.out = stream.into_inner();
        } else {
            std::mem::swap(stream.get_mut(), &mut self.out);
            self.stream = Some(stream);
        }
        &self.out
    }

    fn note(&self, response: &mut Response) {
        response.uncompressed = Some(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_was_compressed_reads_back_and_a_flush_is_complete() {
        let mut encoder = Encoder::new(6, 19);
        let mut all = encoder.pass(b"hello ", Then::More).to_vec();
        all.extend_from_slice(encoder.pass(b"", Then::Flush));
        let mut early = Vec::new();
        let _ = brotli::Decompressor::new(&all[..], PIECE).read_to_end(&mut early);
        assert_eq!(early, b"hello ");
        let long = vec![b'x'; 300_000];
        all.extend_from_slice(encoder.pass(&long, Then::More));
        all.extend_from_slice(encoder.pass(b"", Then::End));
        let mut back = Vec::new();
        brotli::Decompressor::new(&all[..], PIECE).read_to_end(&mut back).unwrap();
        assert_eq!((back.len(), encoder.taken), (300_006, 300_006));
    }
}
