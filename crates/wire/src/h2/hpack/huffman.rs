//! The Huffman code (RFC 7541 §5.2 and appendix B).
//!
//! Owns: the code's tables, made at compile time from the lengths of its codes: the code is canonical, so lengths say all.
//! Driven by: `decode`, `encode`.

use super::HpackError;

/// Bits of the code of each byte, and of the end of a string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

/// The longest code.
const LONGEST: usize = 30;
/// Codes up to this length are found with one look.
const QUICK: u32 = 10;

struct Tables {
    /// The code of each symbol.
    codes: [u32; 257],
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length: the first code behind those of that length, moved to the top of 32 bits.
    ends: [u64; LONGEST + 1],
    /// For each length: what to add to a code to get its place in `symbols`.
    offsets: [i64; LONGEST + 1],
    /// By the next [`QUICK`] bits: symbol and length; length 0 where the code is longer.
    quick: [(u8, u8); 1 << QUICK],
}

const TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut made = Tables {
        codes: [0; 257],
        symbols: [0; 257],
        ends: [0; LONGEST + 1],
        offsets: [0; LONGEST + 1],
        quick: [(0, 0); 1 << QUICK],
    };
    let (mut code, mut place, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        made.offsets[length] = place as i64 - code as i64;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                made.codes[symbol] = code;
                made.symbols[place] = symbol as u16;
                if length as u32 <= QUICK {
                    let spare = QUICK - length as u32;
                    let mut at = (code << spare) as usize;
                    let end = ((code + 1) << spare) as usize;
                    while at < end {
                        made.quick[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        made.ends[length] = (code as u64) << (32 - length);
        length += 1;
    }
    made
}

/// Decodes all of `bytes` to the end of `out`.
pub(crate) fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    static T: Tables = TABLES;
    let (mut bits, mut held) = (0_u64, 0_u32);
    let mut rest = bytes.iter();
    loop {
        while held <= 32 {
            let Some(&byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(byte);
            held += 8;
        }
        if held == 0 {
            return Ok(());
        }
        // The next 32 bits; behind the end, ones: those are what may stand there.
        let next = if held >= 32 {
            (bits >> (held - 32)) as u32
        } else {
            ((bits << (32 - held)) as u32) | (u32::MAX >> held)
        };
        let (symbol, length) = T.quick[(next >> (32 - QUICK)) as usize];
        let length = if length > 0 {
            if u32::from(length) > held {
                return padding(next, held);
            }
            out.push(symbol);
            u32::from(length)
        } else {
            let (symbol, length) = long(&T, next);
            if length > held {
                return padding(next, held);
            }
            // The end of a string may not stand in one.
            out.push(u8::try_from(symbol).map_err(|_| HpackError)?);
            length
        };
        held -= length;
        bits &= (1_u64 << held) - 1;
    }
}

/// The symbol of a long code, and its length.
fn long(tables: &Tables, next: u32) -> (u16, u32) {
    let mut length = QUICK as usize + 1;
    while length < LONGEST && u64::from(next) >= tables.ends[length] {
        length += 1;
    }
    let code = i64::from(next >> (32 - length));
    let place = (code + tables.offsets[length]) as usize;
    (tables.symbols.get(place).copied().unwrap_or(256), length as u32)
}

/// What is left is no code: fewer than eight ones.
fn padding(next: u32, held: u32) -> Result<(), HpackError> {
    if held < 8 && next == u32::MAX { Ok(()) } else { Err(HpackError) }
}

/// How many bytes `text` takes in this code.
pub(crate) fn length(text: &[u8]) -> usize {
    text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Encodes `text`.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    static CODES: [u32; 257] = TABLES.codes;
    let (mut bits, mut held) = (0_u64, 0_u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held)) as u8 | (0xff_u8 >> held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        for (text, code) in [
            (
                "www.example.com",
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
            ),
            ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            ("302", &[0x64, 0x02]),
            ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ] {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!(out, code, "{text}");
            assert_eq!(length(text.as_bytes()), code.len());
            assert_eq!(decoded(code), Ok(text.into()));
        }
    }

    #[test]
    fn wrong_ends_are_refused() {
        // A whole byte of padding, zeros as padding, the end of a string in a string.
        for bad in [&[0x64, 0x02, 0xff][..], &[0x64, 0x02, 0x00], &[0xff, 0xff, 0xff, 0xff], &[0xff], &[0x18]]
        {
            assert_eq!(decoded(bad), Err(HpackError), "{bad:x?}");
        }
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text: Vec<u8>) {
            let mut out = Vec::new();
            encode(&text, &mut out);
            prop_assert_eq!(out.len(), length(&text));
            prop_assert_eq!(decoded(&out), Ok(text));
        }

        #[test]
        fn what_is_accepted_is_the_only_way_to_write_it(bytes: Vec<u8>) {
            if let Ok(text) = decoded(&bytes) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
