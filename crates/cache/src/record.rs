//! The form of an object's file.
//!
//! Owns: what stands before the body, and what must hold for it to be believed.
//! Never: opens a file.
//! Driven by: the writer and the threads of the store.
//! Why: whatever decides what is served, and to whom, is under a checksum, and so is a body that is read into memory.
//! The first part has a fixed size and is written last, in one write: a file that was not finished has none.
//!
//! ```text
//!   0      magic, lengths, status, times, checksums            FIXED bytes
//!   FIXED  name · names of fields it varies by · head · body   as long as the first part says
//! ```

/// Bytes of the part with a fixed size.
pub(crate) const FIXED: usize = 128;

/// What the file begins with; the last byte is the version of the form.
const MAGIC: &[u8; 8] = b"WEIRobj\x01";

/// Most bytes of name, names of fields, and head, each: nothing that was read from a peer within its bounds is larger.
const MOST: usize = 4 << 20;

/// What is known of an object beside its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Status.
    pub status: u16,
    /// For the asker to use as it likes.
    pub flags: u16,
    /// Second since 1970 when it was stored, or last found to hold good.
    pub stored: u64,
    /// Second since 1970 up to which it is fresh.
    pub fresh_until: u64,
    /// Seconds after that in which it may be used while it is fetched anew.
    pub stale_updating: u32,
    /// Seconds after that in which it may be used in the place of an error.
    pub stale_error: u32,
    /// Its age in seconds when it was stored.
    pub age: u32,
    /// Names objects that were stored for one name and for different requests.
    pub family: u64,
    /// What it was stored for, of the fields that it varies by; zeros: it does not vary.
    pub variant: [u8; 16],
}

/// The first part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) meta: Meta,
    pub(crate) name: u32,
    pub(crate) vary: u32,
    pub(crate) head: u32,
    pub(crate) body: u64,
    pub(crate) texts_sum: u32,
    pub(crate) body_sum: u32,
}

impl Fixed {
    /// Where the body begins.
    pub(crate) fn body_at(&self) -> u64 {
        FIXED as u64 + u64::from(self.name) + u64::from(self.vary) + u64::from(self.head)
    }

    pub(crate) fn to_bytes(&self) -> [u8; FIXED] {
        let mut out = Vec::with_capacity(FIXED);
        let meta = &self.meta;
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&meta.status.to_le_bytes());
        out.extend_from_slice(&meta.flags.to_le_bytes());
        for number in [self.name, self.vary, self.head, meta.stale_updating, meta.stale_error, meta.age] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.body, meta.stored, meta.fresh_until, meta.family] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&meta.variant);
        out.extend_from_slice(&self.texts_sum.to_le_bytes());
        out.extend_from_slice(&self.body_sum.to_le_bytes());
        out.resize(FIXED - 4, 0);
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        let mut bytes = [0; FIXED];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// `None`: it is not ours, not finished, or broken.
    pub(crate) fn parse(bytes: &[u8; FIXED]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let sum = crc32fast::hash(&bytes[..FIXED - 4]);
        if rest.take::<8>()? != *MAGIC || bytes[FIXED - 4..] != sum.to_le_bytes() {
            return None;
        }
        let (status, flags) = (u16::from_le_bytes(rest.take()?), u16::from_le_bytes(rest.take()?));
        let [name, vary, head] = [rest.number()?, rest.number()?, rest.number()?];
        let [stale_updating, stale_error, age] = [rest.number()?, rest.number()?, rest.number()?];
        let [body, stored, fresh_until, family] = [rest.long()?, rest.long()?, rest.long()?, rest.long()?];
        let variant = rest.take()?;
        let (texts_sum, body_sum) = (rest.number()?, rest.number()?);
        if [name, vary, head].iter().any(|&length| length as usize > MOST) {
            return None;
        }
        let meta =
            Meta { status, flags, stored, fresh_until, stale_updating, stale_error, age, family, variant };
        Some(Self { meta, name, vary, head, body, texts_sum, body_sum })
    }
}

/// What stands between the first part and the body.
pub(crate) struct Texts<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) vary: &'t [u8],
    pub(crate) head: &'t [u8],
}

impl<'t> Texts<'t> {
    /// Whether all of them can stand in a file.
    pub(crate) fn fit(&self) -> bool {
        [self.name, self.vary, self.head].iter().all(|text| text.len() <= MOST)
    }

    pub(crate) fn concat(&self) -> Vec<u8> {
        [self.name, self.vary, self.head].concat()
    }

    /// The name in a file whose first part is `fixed`; `None`: it is broken.
    pub(crate) fn name_of(fixed: &Fixed, bytes: &'t [u8]) -> Option<&'t [u8]> {
        (crc32fast::hash(bytes) == fixed.texts_sum).then(|| bytes.get(..fixed.name as usize)).flatten()
    }

    /// Of a file whose first part is `fixed`, for a name; `None`: it is broken, or another's.
    pub(crate) fn parse(fixed: &Fixed, bytes: &'t [u8], name: &[u8]) -> Option<Self> {
        if crc32fast::hash(bytes) != fixed.texts_sum {
            return None;
        }
        let (of_name, rest) = bytes.split_at_checked(fixed.name as usize)?;
        let (vary, head) = rest.split_at_checked(fixed.vary as usize)?;
        // A key is a digest: two names may share one.
        if name != of_name || head.len() != fixed.head as usize {
            return None;
        }
        Some(Self { name: of_name, vary, head })
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_noticed() {
        let meta = Meta {
            status: 200,
            flags: 3,
            stored: 5,
            fresh_until: 7,
            stale_updating: 11,
            stale_error: 13,
            age: 17,
            family: 19,
            variant: [23; 16],
        };
        let fixed = Fixed { meta, name: 29, vary: 31, head: 37, body: 41, texts_sum: 43, body_sum: 47 };
        let bytes = fixed.to_bytes();
        assert_eq!(Fixed::parse(&bytes), Some(fixed.clone()));
        assert_eq!(fixed.body_at(), 128 + 29 + 31 + 37);
        for at in 0..FIXED {
            let mut broken = bytes;
            broken[at] ^= 0x10;
            assert_eq!(Fixed::parse(&broken), None, "byte {at}");
        }
        assert_eq!(Fixed::parse(&[0; FIXED]), None, "not finished");
        assert_eq!(Fixed::parse(&Fixed { name: u32::MAX, ..fixed }.to_bytes()), None, "larger than anything");
    }
}
