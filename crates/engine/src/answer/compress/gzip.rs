//! Bodies in gzip.

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::exchange::{BodyFilter, Response, Then};

/// A gzip stream (RFC 1952) that is being made.
pub(super) struct Encoder {
    deflate: Compress,
    crc: crc32fast::Hasher,
    taken: u64,
    out: Vec<u8>,
    began: bool,
}

/// The head of a gzip member: deflate, no name, no time, Unix.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

impl Encoder {
    /// An encoder of this level, 1 to 9.
    pub(super) fn new(level: u8) -> Self {
        Self {
            deflate: Compress::new(Compression::new(u32::from(level.clamp(1, 9))), false),
            crc: crc32fast::Hasher::new(),
            taken: 0,
            out: Vec::new(),
            began: false,
        }
    }

    fn run(&mut self, mut input: &[u8], flush: FlushCompress) {
        if !std::mem::replace(&mut self.began, true) {
            self.out.extend_from_slice(&HEAD);
        }
        loop {
            self.out.reserve(input.len() / 2 + 256);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(input, &mut self.out, flush);
            input = &input[(self.deflate.total_in() - before) as usize..];
            let full = self.out.len() == self.out.capacity();
            match status {
                Ok(Status::Ok | Status::BufError) if full || !input.is_empty() => {}
                Ok(Status::Ok) if flush == FlushCompress::Finish => {}
                _ => return,
            }
        }
    }
}

impl BodyFilter for Encoder {
    fn pass<'a>(&'a mut self, piece: &'a [u8], then: Then) -> &'a [u8] {
        self.out.clear();
        self.crc.update(piece);
        self.taken += piece.len() as u64;
        match then {
            Then::More => self.run(piece, FlushCompress::None),
            Then::Flush => self.run(piece, FlushCompress::Sync),
            Then::End => {
                self.run(piece, FlushCompress::Finish);
                self.out.extend_from_slice(&self.crc.clone().finalize().to_le_bytes());
                self.out.extend_from_slice(&(self.taken as u32).to_le_bytes());
            }
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
        let mut encoder = Encoder::new(5);
        let mut all = encoder.pass(b"hello ", Then::More).to_vec();
        all.extend_from_slice(encoder.pass(b"", Then::Flush));
        let mut early = Vec::new();
        let _ = flate2::read::GzDecoder::new(&all[..]).read_to_end(&mut early);
        assert_eq!(early, b"hello ");
        let long = vec![b'x'; 300_000];
        all.extend_from_slice(encoder.pass(&long, Then::More));
        all.extend_from_slice(encoder.pass(b"", Then::End));
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&all[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), 300_006);
        assert_eq!(encoder.taken, 300_006);
    }
}
