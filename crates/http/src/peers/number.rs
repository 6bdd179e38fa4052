//! Numbers of the peers protocol: one byte below 240; above, four bits in the first one and seven in each further one.

use super::Fault;

/// Reads a number; `None`: it has not all arrived.
///
/// # Errors
/// It has more than 64 bits.
pub fn read_number(bytes: &[u8]) -> Result<Option<(u64, &[u8])>, Fault> {
    let Some((&first, mut rest)) = bytes.split_first() else { return Ok(None) };
    let mut number = u64::from(first);
    if first < 240 {
        return Ok(Some((number, rest)));
    }
    let mut shift = 4;
    loop {
        let Some((&byte, after)) = rest.split_first() else { return Ok(None) };
        rest = after;
        let part = u64::from(byte);
        if shift > 63 || part > u64::MAX >> shift {
            return Err(Fault::Protocol);
        }
        number = number.checked_add(part << shift).ok_or(Fault::Protocol)?;
        if byte < 128 {
            return Ok(Some((number, rest)));
        }
        shift += 7;
    }
}

/// Writes a number.
pub fn write_number(number: u64, out: &mut Vec<u8>) {
    let low = |number: u64, from: u8| from | number.to_le_bytes()[0] & !from;
    if number < 240 {
        return out.push(low(number, 0));
    }
    out.push(low(number, 240));
    let mut left = (number - 240) >> 4;
    while left >= 128 {
        out.push(low(left, 128));
        left = (left - 128) >> 7;
    }
    out.push(low(left, 0));
}
