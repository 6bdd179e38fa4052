//! Boxes: the form that everything in an MP4 file has (ISO/IEC 14496-12 §4.2).
//!
//! Owns: reading and writing their headers.
//! Driven by: the other files of this folder.

use super::asked::Fault;

/// Bytes of the longest header: size, kind, and a size of 64 bits.
pub(super) const LONGEST_HEADER: u64 = 16;

/// What a box is, by its four letters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(pub(super) [u8; 4]);

impl Kind {
    pub(super) const FILE_TYPE: Self = Self(*b"ftyp");
    pub(super) const TABLES: Self = Self(*b"moov");
    pub(super) const MEDIA: Self = Self(*b"mdat");
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The header of a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Bytes of the header.
    pub(super) header: u64,
    /// Bytes of all.
    pub(super) size: u64,
}

impl Header {
    /// Reads a header. `room`: bytes from its first on to the end of what it lies in.
    pub(super) fn read(bytes: &[u8], room: u64) -> Result<Self, Fault> {
        let short = number(bytes, 0).ok_or(Fault::Broken)?;
        let kind = Kind(array(bytes, 4).ok_or(Fault::Broken)?);
        let (header, size) = match short {
            // It goes on to the end.
            0 => (8, room),
            1 => (16, array(bytes, 8).map(u64::from_be_bytes).ok_or(Fault::Broken)?),
            size => (8, u64::from(size)),
        };
        if size < header || size > room {
            return Err(Fault::Broken);
        }
        Ok(Self { kind, header, size })
    }

    /// Bytes of what is in it.
    pub(super) fn body(&self) -> u64 {
        self.size - self.header
    }
}

/// The boxes that lie in another.
pub(super) struct Boxes<'b>(pub(super) &'b [u8]);

impl<'b> Iterator for Boxes<'b> {
    type Item = Result<(Kind, &'b [u8]), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let header = match Header::read(self.0, self.0.len() as u64) {
            Ok(header) => header,
            Err(fault) => {
                self.0 = &[];
                return Some(Err(fault));
            }
        };
        let (all, rest) = self.0.split_at(usize::try_from(header.size).unwrap_or(self.0.len()));
        self.0 = rest;
        let body = all.get(usize::try_from(header.header).unwrap_or(0)..).unwrap_or_default();
        Some(Ok((header.kind, body)))
    }
}

/// What is in the first box of a kind.
pub(super) fn find<'b>(within: &'b [u8], kind: &[u8; 4]) -> Result<Option<&'b [u8]>, Fault> {
    for one in Boxes(within) {
        let (found, body) = one?;
        if found.0 == *kind {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

/// A box with this in it.
pub(super) fn written(kind: Kind, body: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(body.len() + 8);
    let size = u32::try_from(body.len() + 8).map_err(|_| Fault::TooLarge)?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&kind.0);
    out.extend_from_slice(body);
    Ok(out)
}

/// Writes a box, whatever `fill` puts into it.
pub(super) fn put(
    kind: &[u8; 4],
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    fill(out)?;
    let size = u32::try_from(out.len() - at).map_err(|_| Fault::TooLarge)?;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

/// The header of a box with so many bytes in it.
pub(super) fn put_header(kind: Kind, body: u64, out: &mut Vec<u8>) {
    match u32::try_from(body + 8) {
        Ok(size) => {
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&kind.0);
        }
        Err(_) => {
            out.extend_from_slice(&1u32.to_be_bytes());
            out.extend_from_slice(&kind.0);
            out.extend_from_slice(&(body + 16).to_be_bytes());
        }
    }
}

/// So many bytes from a place on.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A number of 32 bits.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}
