//! crypt(3) as it was first: DES with a salt that swaps bits of its expansion, and BSD's extension of it (`_`).
//!
//! Why own code: ciphers of today have no place for the salt, and this is a page. Long broken as a cipher and weak as a
//! hash; old password files have it.

use crate::alphabet::{low_first, push_block};

/// Two digits of salt, 25 passes, eight bytes of password.
pub(crate) fn traditional(stored: &str, password: &[u8]) -> Option<String> {
    let salt = low_first(stored.as_bytes().get(..2)?)?;
    let mut out = stored[..2].to_owned();
    let block = Des::new(key(password)).passes(0, salt, 25);
    push_block(&mut out, block);
    Some(out)
}

/// `_`, four digits of passes, four of salt; the whole password counts.
pub(crate) fn extended(stored: &str, password: &[u8]) -> Option<String> {
    let passes = low_first(stored.as_bytes().get(1..5)?).filter(|&passes| passes > 0)?;
    let salt = low_first(stored.as_bytes().get(5..9)?)?;
    let mut parts = password.chunks(8);
    let first = key(parts.next().unwrap_or_default());
    let folded = parts.fold(first, |folded, part| Des::new(folded).passes(folded, 0, 1) ^ key(part));
    let mut out = stored[..9].to_owned();
    push_block(&mut out, Des::new(folded).passes(0, salt, passes));
    Some(out)
}

/// Seven bits of each of eight bytes, where DES has its parity bit last.
fn key(password: &[u8]) -> u64 {
    let bytes = password.iter().copied().chain(std::iter::repeat(0)).take(8);
    bytes.fold(0, |key, byte| key << 8 | u64::from(byte << 1))
}

/// The upper and the lower half of a word of twice so many bits, 32 at most.
#[expect(clippy::cast_possible_truncation, reason = "a half has 32 bits at most")]
fn halves(word: u64, bits: u32) -> (u32, u32) {
    ((word >> bits) as u32, (word & ((1 << bits) - 1)) as u32)
}

/// DES with the keys of its sixteen rounds, as two halves of 24 bits.
struct Des {
    rounds: [(u32, u32); 16],
}

impl Des {
    fn new(key: u64) -> Self {
        let (mut left, mut right) = halves(permuted(key, 64, &PC1), 28);
        let turn = |half: u32, by: u32| (half << by | half >> (28 - by)) & 0xfff_ffff;
        let rounds = SHIFTS.map(|by| {
            (left, right) = (turn(left, by), turn(right, by));
            halves(permuted(u64::from(left) << 28 | u64::from(right), 56, &PC2), 24)
        });
        Self { rounds }
    }

    /// Encrypts a block again and again.
    fn passes(&self, block: u64, salt: u32, passes: u32) -> u64 {
        // The first digit's lowest bit swaps the expansion's first bit, which is its half's highest.
        let salt = salt.reverse_bits() >> 8;
        let block = permuted(block, 64, &IP);
        let (mut left, mut right) = halves(block, 32);
        for _ in 0..passes {
            for key in self.rounds {
                (left, right) = (right, left ^ round(right, key, salt));
            }
            (left, right) = (right, left);
        }
        permuted(u64::from(left) << 32 | u64::from(right), 64, &FP)
    }
}

/// The round function: expansion with the salt, key, substitution with the permutation behind it.
fn round(half: u32, key: (u32, u32), salt: u32) -> u32 {
    // The expansion's groups of six bits overlap by two, and wrap around.
    let group = |at: u32| half.rotate_left(4 * at + 5) & 63;
    let four = |from: u32| (from..from + 4).fold(0, |bits, at| bits << 6 | group(at));
    let (high, low) = (four(0), four(4));
    let swapped = (high ^ low) & salt;
    let (high, low) = (high ^ swapped ^ key.0, low ^ swapped ^ key.1);
    let six = |bits: u32, at: u32| (bits >> (18 - 6 * at) & 63) as usize;
    (0..4).fold(0, |out, at| out | SP[at as usize][six(high, at)] | SP[at as usize + 4][six(low, at)])
}

/// The bits of a value of `width` bits that a table names, counted from 1 at the highest, in the table's order.
const fn permuted<const N: usize>(value: u64, width: u32, table: &[u8; N]) -> u64 {
    let (mut out, mut at) = (0, 0);
    while at < N {
        out = out << 1 | (value >> (width - table[at] as u32) & 1);
        at += 1;
    }
    out
}

/// Each box's output where the permutation puts it.
static SP: [[u32; 64]; 8] = boxes();

const fn boxes() -> [[u32; 64]; 8] {
    let mut out = [[0; 64]; 8];
    let mut number = 0;
    while number < 8 {
        let mut input = 0;
        while input < 64 {
            // The outer bits are the row, the inner ones the column.
            let row = (input >> 4 & 2) | (input & 1);
            let column = input >> 1 & 15;
            let nibble = S[number][row * 16 + column] as u64;
            #[expect(clippy::cast_possible_truncation, reason = "a permutation of 32 bits")]
            let turned = permuted(nibble << (28 - 4 * number), 32, &P) as u32;
            out[number][input] = turned;
            input += 1;
        }
        number += 1;
    }
    out
}

const SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];

#[rustfmt::skip]
const IP: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
    57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];
#[rustfmt::skip]
const FP: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21, 61, 29,
    36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27, 34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
];
#[rustfmt::skip]
const PC1: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];
#[rustfmt::skip]
const PC2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
#[rustfmt::skip]
const P: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];
#[rustfmt::skip]
const S: [[u8; 64]; 8] = [
    [14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8,
     4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13],
    [15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5,
     0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9],
    [10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1,
     13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12],
    [7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9,
     10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14],
    [2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6,
     4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3],
    [12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8,
     9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13],
    [4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6,
     1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12],
    [13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2,
     7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11],
];
