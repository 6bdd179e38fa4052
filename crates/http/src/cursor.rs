//! Reading binary messages, whose fields stand behind one another.
//!
//! Owns: a place in some bytes, every step of which is checked.
//! Driven by: the parsers of TLS hellos here and of other first bytes in `engine`.

/// What is left to be read; numbers are big-endian. `None`: there are not so many bytes, and nothing was taken.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// At the beginning of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of two bytes.
    pub fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A number of four bytes.
    pub fn long(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Bytes after a length of one byte.
    pub fn small(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// Bytes after a length of two bytes.
    pub fn large(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut cursor = Cursor::new(b"\x01\x02\x03\x04\x05\x06\x00\x02ab\x01cd");
        assert_eq!((cursor.short(), cursor.long()), (Some(0x0102), Some(0x0304_0506)));
        assert_eq!((cursor.large(), cursor.small()), (Some(&b"ab"[..]), Some(&b"c"[..])));
        assert_eq!((cursor.short(), cursor.rest(), cursor.byte()), (None, &b"d"[..], Some(b'd')));
        assert!(cursor.is_empty());
    }
}
