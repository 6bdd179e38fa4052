//! The alphabets in which crypt(3) writes bytes: base64's idea in other orders.

const CRYPT: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BCRYPT: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Appends the lowest bits of a word, six a digit, lowest first.
pub(crate) fn push_low_first(out: &mut String, word: u32, digits: u32) {
    out.extend((0..digits).map(|at| digit(CRYPT, word >> (6 * at))));
}

/// Appends bytes, the lowest bits of each three first, without padding: yescrypt's order.
pub(crate) fn push_low_bytes(out: &mut String, bytes: &[u8]) {
    for (group, digits) in bytes.chunks(3).map(|group| (group, group.len() + 1)) {
        let byte = |at: usize| group.get(at).copied().unwrap_or(0);
        let word = word(byte(2), byte(1), byte(0));
        out.extend((0..digits).map(|at| digit(CRYPT, word >> (6 * at))));
    }
}

/// What [`push_low_bytes`] wrote; `None` if it cannot have.
pub(crate) fn low_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    for group in text.chunks(4) {
        let bytes = low_first(group)?.to_le_bytes();
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        // Bits beyond whole bytes have no place.
        if bytes[count..].iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(&bytes[..count]);
    }
    Some(out)
}

/// Three bytes as a word whose first byte is the highest, as the MD5 and SHA forms put them together.
pub(crate) fn word(high: u8, middle: u8, low: u8) -> u32 {
    u32::from_be_bytes([0, high, middle, low])
}

/// Appends bytes, highest bits first, without padding.
pub(crate) fn push_bcrypt(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).copied().unwrap_or(0);
        let word = word(byte(0), byte(1), byte(2));
        out.extend((0..=group.len()).map(|at| digit(BCRYPT, word >> (18 - 6 * at))));
    }
}

/// Appends a block of 64 bits, highest bits first, as eleven digits.
pub(crate) fn push_block(out: &mut String, block: u64) {
    let wide = u128::from(block) << 2;
    out.extend((0..11).rev().map(|at| digit(CRYPT, ((wide >> (6 * at)) & 63) as u32)));
}

/// The value of digits, lowest first; `None` if one is no digit.
pub(crate) fn low_first(text: &[u8]) -> Option<u32> {
    text.iter().rev().try_fold(0, |value, &digit| Some(value << 6 | position(CRYPT, digit)?))
}

/// The sixteen bytes of a bcrypt salt's 22 digits.
pub(crate) fn bcrypt_salt(text: &[u8]) -> Option<[u8; 16]> {
    let bits = text.iter().try_fold((0u128, 0), |(bits, count), &digit| {
        let value = u128::from(position(BCRYPT, digit)?);
        // The last digit brings two bits beyond the last of 128: they are left out.
        let used = if count == 126 { 2 } else { 6 };
        Some((bits << used | value >> (6 - used), count + used))
    });
    bits.filter(|(_, count)| *count == 128).map(|(bits, _)| bits.to_be_bytes())
}

fn digit(alphabet: &[u8; 64], value: u32) -> char {
    char::from(alphabet[(value & 63) as usize])
}

/// The value of a digit.
pub(crate) fn value(digit: u8) -> Option<u32> {
    position(CRYPT, digit)
}

fn position(alphabet: &[u8; 64], digit: u8) -> Option<u32> {
    alphabet.iter().zip(0..).find(|(own, _)| **own == digit).map(|(_, value)| value)
}
