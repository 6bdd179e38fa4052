//! The hash functions whose exact values users rely on.
//!
//! Owns: CRC-32, HAProxy's sdbm, djb2 and wt6, and its avalanche step.
//! Never: replaced by "a better hash": a session's endpoint must not move when Weir takes over from another server.
//! Driven by: `pool`.
//! Why: values must equal nginx's and HAProxy's to the bit, so that both can run side by side during a migration.

/// HAProxy's `hash-type` functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// `sdbm`, the default.
    #[default]
    Sdbm,
    /// `djb2`.
    Djb2,
    /// `wt6`.
    Wt6,
    /// `crc32`, the common reflected polynomial.
    Crc32,
}

impl HashFunction {
    /// The 32-bit hash of `key`.
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Self::Sdbm => sdbm(key),
            Self::Djb2 => djb2(key),
            Self::Wt6 => wt6(key),
            Self::Crc32 => crc32(key),
        }
    }
}

const CRC_TABLE: [u32; 256] = crc_table(0xedb8_8320);
const CRC_C_TABLE: [u32; 256] = crc_table(0x82f6_3b78);

const fn crc_table(polynomial: u32) -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it ends at 256")]
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Weir's own placement of keys, which has to equal nobody's: FNV-1a of 64 bits, mixed.
pub fn placement(key: &[u8]) -> u64 {
    let sum = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    mix(sum)
}

/// Spreads a number over all 64 bits (the last step of SplitMix64).
pub fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A CRC-32 (IEEE, reflected) in progress.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// An empty sum.
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The sum with `bytes` added.
    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Self {
        let step = |crc: u32, byte: &u8| CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
        Self(bytes.iter().fold(self.0, step))
    }

    /// The finished value.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().update(bytes).finish()
}

/// CRC-32 of Castagnoli.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| CRC_C_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

/// The sdbm hash: `hash × 65599 + byte`.
pub fn sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(65_599).wrapping_add(u32::from(*byte)))
}

/// The djb2 hash: `hash × 33 + byte`, from 5381.
pub fn djb2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// HAProxy's wt6: two words turned by amounts that the data chooses.
pub fn wt6(bytes: &[u8]) -> u32 {
    let (mut left, mut right) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut left_turn, mut right_turn) = (6, 18);
    for &byte in bytes {
        let byte = u32::from(byte);
        let (from_left, from_right) = (!(left ^ byte), !right.wrapping_add(byte));
        left = from_right.rotate_left(left_turn);
        right = from_left.rotate_left(right_turn);
        let mixed = ((left >> 16) ^ right) & 0xffff;
        (left_turn, right_turn) = (mixed & 0x1f, mixed >> 11);
    }
    left ^ right
}

/// HAProxy's avalanche: Bob Jenkins' integer mix, then a product that spreads values over the whole ring.
pub const fn avalanche(value: u32) -> u32 {
    let mut mixed = value.wrapping_add(0x7ed5_5d16).wrapping_add(value << 12);
    mixed = (mixed ^ 0xc761_c23c) ^ (mixed >> 19);
    mixed = mixed.wrapping_add(0x1656_67b1).wrapping_add(mixed << 5);
    mixed = mixed.wrapping_add(0xd3a2_646c) ^ (mixed << 9);
    mixed = mixed.wrapping_add(0xfd70_46c5).wrapping_add(mixed << 3);
    mixed = (mixed ^ 0xb55a_4f09) ^ (mixed >> 16);
    mixed.wrapping_mul(3_221_225_473)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(Crc32::new().update(b"1234").update(b"56789").finish(), 0xcbf4_3926);
        assert_eq!(djb2(b""), 5381);
        assert_eq!(djb2(b"a"), 177_670);
        assert_eq!(sdbm(b"a"), 97);
        assert_eq!(sdbm(b"ab"), 97 * 65_599 + 98);
    }
}
