//! Values that are encrypted by AES, or were.
//!
//! Owns: which library does it. Nothing comes of what does not decrypt.

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use base64::Engine as _;

use super::lenient::STANDARD_LENIENT;

/// By GCM: nonce, key and tag in Base64, further data that the tag covers.
pub(super) fn gcm(bits: u16, arguments: [&[u8]; 3], also: &[u8], mut value: Vec<u8>) -> Option<Vec<u8>> {
    let [nonce, key, tag] = arguments.map(|argument| STANDARD_LENIENT.decode(argument));
    let key = LessSafeKey::new(UnboundKey::new(gcm_algorithm(bits), &key.ok()?).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(&nonce.ok()?).ok()?;
    value.extend(tag.ok()?);
    let length = key.open_in_place(nonce, Aad::from(also), &mut value).ok()?.len();
    value.truncate(length);
    Some(value)
}

/// By GCM: nonce and key in Base64, further data that the tag covers. The tag stands behind what is encrypted.
pub(super) fn gcm_encrypt(
    bits: u16,
    arguments: [&[u8]; 2],
    also: &[u8],
    mut value: Vec<u8>,
) -> Option<Vec<u8>> {
    let [nonce, key] = arguments.map(|argument| STANDARD_LENIENT.decode(argument));
    let key = LessSafeKey::new(UnboundKey::new(gcm_algorithm(bits), &key.ok()?).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(&nonce.ok()?).ok()?;
    key.seal_in_place_append_tag(nonce, Aad::from(also), &mut value).ok()?;
    Some(value)
}

/// By CBC, padded: nonce and key in Base64.
pub(super) fn cbc_encrypt(bits: u16, arguments: [&[u8]; 2], mut value: Vec<u8>) -> Option<Vec<u8>> {
    let [nonce, key] = arguments.map(|argument| STANDARD_LENIENT.decode(argument));
    let key = UnboundCipherKey::new(cbc_algorithm(bits), &key.ok()?).ok()?;
    let nonce: [u8; 16] = nonce.ok()?.try_into().ok()?;
    let context = EncryptionContext::Iv128(FixedLength::from(nonce));
    PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?.less_safe_encrypt(&mut value, context).ok()?;
    Some(value)
}

fn gcm_algorithm(bits: u16) -> &'static aws_lc_rs::aead::Algorithm {
    match bits {
        128 => &AES_128_GCM,
        192 => &AES_192_GCM,
        _ => &AES_256_GCM,
    }
}

fn cbc_algorithm(bits: u16) -> &'static aws_lc_rs::cipher::Algorithm {
    match bits {
        128 => &AES_128,
        192 => &AES_192,
        _ => &AES_256,
    }
}

/// By CBC, padded: nonce and key in Base64.
pub(super) fn cbc(bits: u16, arguments: [&[u8]; 2], mut value: Vec<u8>) -> Option<Vec<u8>> {
    let [nonce, key] = arguments.map(|argument| STANDARD_LENIENT.decode(argument));
    let key = UnboundCipherKey::new(cbc_algorithm(bits), &key.ok()?).ok()?;
    let nonce: [u8; 16] = nonce.ok()?.try_into().ok()?;
    let context = DecryptionContext::Iv128(FixedLength::from(nonce));
    let plain = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?.decrypt(&mut value, context).ok()?.len();
    value.truncate(plain);
    Some(value)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::cipher::{EncryptionContext, PaddedBlockEncryptingKey};

    use super::*;

    fn coded(bytes: &[u8]) -> Vec<u8> {
        STANDARD_LENIENT.encode(bytes).into_bytes()
    }

    #[test]
    fn what_was_encrypted_is_read_and_nothing_else() {
        let (key, nonce) = ([7u8; 16], [9u8; 12]);
        let sealing = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
        let mut value = b"secret".to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        let tag = sealing.seal_in_place_separate_tag(unique, Aad::empty(), &mut value).unwrap();
        let (nonce, key, tag) = (coded(&nonce), coded(&key), coded(tag.as_ref()));
        assert_eq!(gcm(128, [&nonce, &key, &tag], b"", value.clone()).unwrap(), b"secret");
        assert_eq!(gcm(128, [&nonce, &key, &coded(&[0; 16])], b"", value.clone()), None);
        assert_eq!(gcm(256, [&nonce, &key, &tag], b"", value), None);

        let sealing =
            PaddedBlockEncryptingKey::cbc_pkcs7(UnboundCipherKey::new(&AES_256, &[3; 32]).unwrap()).unwrap();
        let mut value = b"a longer secret than a block".to_vec();
        let iv = EncryptionContext::Iv128(FixedLength::from([5; 16]));
        sealing.less_safe_encrypt(&mut value, iv).unwrap();
        let (nonce, key) = (coded(&[5; 16]), coded(&[3; 32]));
        assert_eq!(cbc(256, [&nonce, &key], value.clone()).unwrap(), b"a longer secret than a block");
        value.pop();
        assert_eq!(cbc(256, [&nonce, &key], value), None);
    }
}
