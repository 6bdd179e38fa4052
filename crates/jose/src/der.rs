//! RSA keys as DER, from the numbers that a JSON Web Key has.
//!
//! Owns: writing two structures (RFC 8017 A.1, RFC 5208). Never: reads any.

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// `rsaEncryption`, with its NULL.
const ALGORITHM: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// `RSAPublicKey`.
pub(crate) fn public_key(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    tagged(SEQUENCE, &[integer(modulus), integer(exponent)].concat())
}

/// `PrivateKeyInfo` of an RSA key: modulus, both exponents, both primes, their exponents, the coefficient.
pub(crate) fn private_key(numbers: &[&[u8]; 8]) -> Vec<u8> {
    let mut key = integer(&[0]);
    for number in numbers {
        key.extend(integer(number));
    }
    let key = tagged(OCTETS, &tagged(SEQUENCE, &key));
    tagged(SEQUENCE, &[&integer(&[0])[..], ALGORITHM, &key].concat())
}

/// A number without a sign, big-endian.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let mut digits = Vec::with_capacity(bytes.len() + 1);
    if bytes.get(first).is_none_or(|byte| byte & 0x80 != 0) {
        digits.push(0);
    }
    digits.extend_from_slice(&bytes[first..]);
    tagged(INTEGER, &digits)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    match digits {
        [short @ ..=0x7f] => out.push(*short),
        long => {
            // At most eight.
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_sign_and_zeros() {
        assert_eq!(integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(tagged(4, &[7; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tagged(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }
}
