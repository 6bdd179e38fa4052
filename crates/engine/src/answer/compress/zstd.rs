//! Bodies in Zstandard: RFC 8878.

use std::io::Write as _;

use zstd::stream::write;

use crate::exchange::{BodyFilter, Response, Then};

/// Clients need not decode what looks back further: RFC 9659 section 3.
const MOST_WINDOW: u32 = 23;

/// The last level that looks back no further by itself.
const LAST_NARROW: u8 = 19;

/// A stream that is being made.
pub(super) struct Encoder {
    /// `None` when it is whole, or the library had no memory.
    stream: Option<write::Encoder<'static, Vec<u8>>>,
    taken: u64,
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder of this level, 1 to 22; `None` if there is no memory for it.
    pub(super) fn new(level: u8) -> Option<Self> {
        let mut stream = write::Encoder::new(Vec::new(), i32::from(level)).ok()?;
        if level > LAST_NARROW {
            stream.window_log(MOST_WINDOW).ok()?;
        }
        Some(Self { stream: Some(stream), taken: 0, out: Vec::new() })
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
            self.out = stream.finish().unwrap_or_default();
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
    use super::*;

    #[test]
    fn what_was_compressed_reads_back_and_a_flush_is_complete() {
        for level in [1, 19, 22] {
            let mut encoder = Encoder::new(level).unwrap();
            let mut all = encoder.pass(b"hello ", Then::More).to_vec();
            all.extend_from_slice(encoder.pass(b"", Then::Flush));
            let mut early = Vec::new();
            let mut decoder = zstd::stream::write::Decoder::new(&mut early).unwrap();
            decoder.window_log_max(MOST_WINDOW).unwrap();
            decoder.write_all(&all).unwrap();
            decoder.flush().unwrap();
            drop(decoder);
            assert_eq!(early, b"hello ");
            let long = vec![b'x'; 300_000];
            all.extend_from_slice(encoder.pass(&long, Then::More));
            all.extend_from_slice(encoder.pass(b"", Then::End));
            let back = zstd::decode_all(&all[..]).unwrap();
            assert_eq!((back.len(), encoder.taken), (300_006, 300_006));
        }
    }
}
