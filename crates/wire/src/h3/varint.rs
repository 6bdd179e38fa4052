//! Integers of QUIC (RFC 9000 §16).

/// Reads one; how many bytes it takes, and its value. `None`: it is not whole.
pub(super) fn read(bytes: &[u8]) -> Option<(usize, u64)> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |all, &byte| all << 8 | u64::from(byte));
    Some((length, value))
}

/// Writes one in as few bytes as it takes. Values are below 2⁶².
pub(super) fn write(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(read(&out), Some((out.len(), value)));
            assert!((0..out.len()).all(|len| read(&out[..len]).is_none()));
        }
        assert_eq!(read(&[0x7b, 0xbd]), Some((2, 15_293)));
    }
}
