//! Compressing certificates (RFC 8879).
//!
//! Owns: the two algorithms that clients know, the better one first.
//! Never: takes compressed certificates of others: what they would unpack to is theirs to choose.
//! Driven by: the TLS library, which keeps what came of it.
//! Why not the library's own: it brings a second copy of each algorithm.

use std::io::Write as _;

use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel};

/// All of them.
pub(crate) fn all() -> Vec<&'static dyn CertCompressor> {
    vec![&Brotli, &Zlib]
}

#[derive(Debug)]
struct Brotli;

impl CertCompressor for Brotli {
    fn compress(&self, input: Vec<u8>, level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let quality = if level == CompressionLevel::Interactive { 4 } else { 11 };
        let params =
            brotli::enc::BrotliEncoderParams { quality, size_hint: input.len(), ..Default::default() };
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut &input[..], &mut out, &params).map_err(|_| CompressionFailed)?;
        Ok(out)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Brotli
    }
}

#[derive(Debug)]
struct Zlib;

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let effort = if level == CompressionLevel::Interactive {
            flate2::Compression::default()
        } else {
            flate2::Compression::best()
        };
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), effort);
        out.write_all(&input).and_then(|()| out.finish()).map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_unpacks_to_what_it_was() {
        let input: Vec<u8> = (0..5000_u32).map(|n| (n % 251 / 3) as u8).collect();
        for level in [CompressionLevel::Interactive, CompressionLevel::Amortized] {
            let mut out = Vec::new();
            let packed = Brotli.compress(input.clone(), level).unwrap();
            brotli::BrotliDecompress(&mut &packed[..], &mut out).unwrap();
            assert!(out == input && packed.len() < input.len() / 2);
            let packed = Zlib.compress(input.clone(), level).unwrap();
            let mut out = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut out).unwrap();
            assert!(out == input && packed.len() < input.len() / 2);
        }
    }
}
