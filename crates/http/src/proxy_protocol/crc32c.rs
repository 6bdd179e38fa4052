//! CRC32c (Castagnoli), for the rare header that carries one: bit by bit, no table.

/// The checksum of the pieces in order.
pub(super) fn of<const N: usize>(pieces: [&[u8]; N]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut crc = u32::MAX;
    for byte in pieces.into_iter().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ REVERSED_POLYNOMIAL } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value() {
        assert_eq!(super::of([b"1234", b"56789"]), 0xe306_9283);
    }
}
