//! Integers with a prefix (RFC 7541 §5.1).
//!
//! Owns: reading and writing them. Never: reads more than 32 bits.
//! Driven by: `decode`, `encode`.

use super::HpackError;

/// Reads an integer whose first `prefix` bits stand at the end of `bytes[*at]`.
pub(crate) fn read(bytes: &[u8], at: &mut usize, prefix: u32) -> Result<usize, HpackError> {
    let first = *bytes.get(*at).ok_or(HpackError)?;
    *at += 1;
    let most = (1_u32 << prefix) - 1;
    let mut value = u32::from(first) & most;
    if value < most {
        return Ok(value as usize);
    }
    // Five more bytes hold 32 bits and more; longer forms of small numbers are no use but to waste time.
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*at).ok_or(HpackError)?;
        *at += 1;
        let part = u32::from(byte & 0x7f).checked_mul(1 << shift).ok_or(HpackError)?;
        value = value.checked_add(part).ok_or(HpackError)?;
        if byte & 0x80 == 0 {
            return Ok(value as usize);
        }
    }
    Err(HpackError)
}

/// Writes `value` behind the bits of `pattern`, in as few bytes as it takes.
pub(crate) fn write(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: usize) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (value, prefix, bytes) in [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[0x2a])]
        {
            let mut out = Vec::new();
            write(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, &mut 0, prefix), Ok(value));
        }
    }

    #[test]
    fn every_number_comes_back() {
        for prefix in 4..=7 {
            for value in (0..70_000).chain([u32::MAX as usize]) {
                let (mut out, mut at) = (Vec::new(), 0);
                write(&mut out, 0, prefix, value);
                assert_eq!((read(&out, &mut at, prefix), at), (Ok(value), out.len()));
            }
        }
    }

    #[test]
    fn numbers_beyond_the_bound_are_refused() {
        for bad in [
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00][..],
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x1f, 0x80],
            &[],
        ] {
            assert_eq!(read(bad, &mut 0, 5), Err(HpackError), "{bad:x?}");
        }
    }
}
