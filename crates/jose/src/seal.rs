//! Encrypted tokens (RFC 7516, RFC 7518 §4 and §5).
//!
//! Owns: finding the key of the content, opening the content.
//! Why one answer for all that fails: what a key or a padding came to is nobody's business.
//!
//! ```text
//!   header . wrapped key . nonce . content . tag         the header as written is what the tag covers, too
//! ```

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512,
    OaepAlgorithm, OaepPrivateDecryptingKey, PrivateDecryptingKey,
};
use serde_json::{Map, Value};

use crate::Refused;
use crate::compact::{decode, split, text, understood};
use crate::keys::{KeySet, Material, Purpose, first};

/// How the key of the content is found.
#[derive(Clone, Copy)]
enum Wrapping {
    /// It is the secret itself.
    Direct,
    /// It is wrapped (RFC 3394) by a secret of so many bytes.
    Wrapped(usize),
    /// It is sealed with GCM by a secret of so many bytes.
    Sealed(usize),
    /// It is encrypted for the private key.
    Rsa(&'static OaepAlgorithm),
}

/// How the content is encrypted.
#[derive(Clone, Copy)]
enum Content {
    /// With GCM.
    Gcm(&'static Algorithm),
    /// With CBC, and an HMAC of which half is the tag; the key has two halves of so many bytes.
    Cbc(hmac::Algorithm, usize),
}

impl Wrapping {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dir" => Self::Direct,
            "A128KW" => Self::Wrapped(16),
            "A192KW" => Self::Wrapped(24),
            "A256KW" => Self::Wrapped(32),
            "A128GCMKW" => Self::Sealed(16),
            "A192GCMKW" => Self::Sealed(24),
            "A256GCMKW" => Self::Sealed(32),
            "RSA-OAEP" => Self::Rsa(&OAEP_SHA1_MGF1SHA1),
            "RSA-OAEP-256" => Self::Rsa(&OAEP_SHA256_MGF1SHA256),
            "RSA-OAEP-384" => Self::Rsa(&OAEP_SHA384_MGF1SHA384),
            "RSA-OAEP-512" => Self::Rsa(&OAEP_SHA512_MGF1SHA512),
            _ => return None,
        })
    }

    fn fits(self, key: &Material, content: Content) -> bool {
        match (self, key) {
            (Self::Direct, Material::Secret(secret)) => secret.len() == content.key_length(),
            (Self::Wrapped(size) | Self::Sealed(size), Material::Secret(secret)) => secret.len() == size,
            (Self::Rsa(_), Material::Rsa { private, .. }) => private.is_some(),
            _ => false,
        }
    }
}

impl Content {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "A128GCM" => Self::Gcm(&AES_128_GCM),
            "A192GCM" => Self::Gcm(&AES_192_GCM),
            "A256GCM" => Self::Gcm(&AES_256_GCM),
            "A128CBC-HS256" => Self::Cbc(hmac::HMAC_SHA256, 16),
            "A192CBC-HS384" => Self::Cbc(hmac::HMAC_SHA384, 24),
            "A256CBC-HS512" => Self::Cbc(hmac::HMAC_SHA512, 32),
            _ => return None,
        })
    }

    fn key_length(self) -> usize {
        match self {
            Self::Gcm(algorithm) => algorithm.key_len(),
            Self::Cbc(_, half) => 2 * half,
        }
    }
}

/// Whether opening a token takes an operation with a private key, which costs what a TLS handshake does and more.
pub fn wants_private_key(token: &[u8]) -> bool {
    let head = token.split(|byte| *byte == b'.').next().unwrap_or_default();
    crate::header(head).is_ok_and(|header| text(&header, "alg").is_some_and(|name| name.starts_with("RSA")))
}

/// Opens an encrypted token, and gives its content.
///
/// # Errors
/// It does not hold.
pub fn open<'s>(token: &[u8], sets: impl IntoIterator<Item = &'s KeySet>) -> Result<Vec<u8>, Refused> {
    let [head, wrapped, nonce, sealed, tag] = split::<5>(token)?;
    let header = understood(head)?;
    let wrapping = text(&header, "alg").and_then(Wrapping::named).ok_or(Refused::Algorithm)?;
    let content = text(&header, "enc").and_then(Content::named).ok_or(Refused::Algorithm)?;
    let (wrapped, nonce, sealed, tag) = (decode(wrapped)?, decode(nonce)?, decode(sealed)?, decode(tag)?);
    first(
        sets,
        &header,
        Purpose::Decrypt,
        |key| wrapping.fits(key, content),
        |key| {
            let key = unwrap(wrapping, &header, key, &wrapped)?;
            open_content(content, &key, &nonce, head, &sealed, &tag)
        },
    )
}

/// The key of the content.
fn unwrap(how: Wrapping, header: &Map<String, Value>, key: &Material, wrapped: &[u8]) -> Option<Vec<u8>> {
    match (how, key) {
        (Wrapping::Direct, Material::Secret(secret)) => wrapped.is_empty().then(|| secret.clone()),
        (Wrapping::Wrapped(_), Material::Secret(secret)) => unwrap_aes(secret, wrapped),
        (Wrapping::Sealed(size), Material::Secret(secret)) => {
            let part = |name| decode(text(header, name)?.as_bytes()).ok();
            let algorithm = match size {
                16 => &AES_128_GCM,
                24 => &AES_192_GCM,
                _ => &AES_256_GCM,
            };
            open_gcm(algorithm, secret, &part("iv")?, b"", wrapped, &part("tag")?)
        }
        (Wrapping::Rsa(algorithm), Material::Rsa { private: Some(private), .. }) => {
            let key = OaepPrivateDecryptingKey::new(PrivateDecryptingKey::from_pkcs8(private).ok()?).ok()?;
            let mut out = vec![0; key.min_output_size()];
            key.decrypt(algorithm, wrapped, &mut out, None).ok().map(|plain| plain.to_vec())
        }
        _ => None,
    }
}

/// AES key wrap (RFC 3394), all key sizes: that of the library lacks 192 bits.
fn unwrap_aes(secret: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    const FIRST: [u8; 8] = [0xa6; 8];
    let (blocks, rest) = wrapped.as_chunks::<8>();
    // A key of the content has at most 64 bytes.
    if !rest.is_empty() || !(3..=9).contains(&blocks.len()) {
        return None;
    }
    let key = DecryptingKey::ecb(cipher_key(secret)?).ok()?;
    let (mut check, mut blocks) = (blocks[0], blocks[1..].to_vec());
    let count = blocks.len();
    for round in (0..6).rev() {
        for (at, block) in blocks.iter_mut().enumerate().rev() {
            let step = (count * round + at + 1) as u64;
            let mixed = u64::from_be_bytes(check) ^ step;
            let mut both = [0; 16];
            both[..8].copy_from_slice(&mixed.to_be_bytes());
            both[8..].copy_from_slice(block);
            key.decrypt(&mut both, DecryptionContext::None).ok()?;
            check.copy_from_slice(&both[..8]);
            block.copy_from_slice(&both[8..]);
        }
    }
    aws_lc_rs::constant_time::verify_slices_are_equal(&check, &FIRST).ok()?;
    Some(blocks.concat())
}

fn cipher_key(secret: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match secret.len() {
        16 => &AES_128,
        24 => &AES_192,
        32 => &AES_256,
        _ => return None,
    };
    UnboundCipherKey::new(algorithm, secret).ok()
}

fn open_content(
    how: Content,
    key: &[u8],
    nonce: &[u8],
    covered: &[u8],
    sealed: &[u8],
    tag: &[u8],
) -> Option<Vec<u8>> {
    if key.len() != how.key_length() {
        return None;
    }
    match how {
        Content::Gcm(algorithm) => open_gcm(algorithm, key, nonce, covered, sealed, tag),
        Content::Cbc(digest, half) => {
            let (authentic, secret) = key.split_at(half);
            let bits = (covered.len() as u64 * 8).to_be_bytes();
            let wanted =
                hmac::sign(&hmac::Key::new(digest, authentic), &[covered, nonce, sealed, &bits].concat());
            aws_lc_rs::constant_time::verify_slices_are_equal(wanted.as_ref().get(..half)?, tag).ok()?;
            let nonce: [u8; 16] = nonce.try_into().ok()?;
            if sealed.is_empty() || !sealed.len().is_multiple_of(16) {
                return None;
            }
            let key = PaddedBlockDecryptingKey::cbc_pkcs7(cipher_key(secret)?).ok()?;
            let mut content = sealed.to_vec();
            let plain = key.decrypt(&mut content, DecryptionContext::Iv128(FixedLength::from(nonce))).ok()?;
            Some(plain.to_vec())
        }
    }
}

fn open_gcm(
    algorithm: &'static Algorithm,
    key: &[u8],
    nonce: &[u8],
    covered: &[u8],
    sealed: &[u8],
    tag: &[u8],
) -> Option<Vec<u8>> {
    if tag.len() != 16 {
        return None;
    }
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut content = [sealed, tag].concat();
    key.open_in_place(nonce, Aad::from(covered), &mut content).ok().map(|plain| plain.to_vec())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    const CLAIMS: &[u8] = br#"{"sub":"me"}"#;

    fn base64url(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn set(keys: serde_json::Value) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    /// A token whose content is encrypted with this key; `wrapped` is how its reader finds it.
    fn sealed(mut header: serde_json::Value, enc: &str, key: &[u8], wrapped: &[u8]) -> String {
        header["enc"] = enc.into();
        let head = base64url(header.to_string());
        let (nonce, content, tag) = match Content::named(enc).unwrap() {
            Content::Gcm(algorithm) => {
                let nonce = [7; 12];
                let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
                let mut content = CLAIMS.to_vec();
                let nonce_of = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce_of, Aad::from(head.as_bytes()), &mut content);
                (nonce.to_vec(), content, tag.unwrap().as_ref().to_vec())
            }
            Content::Cbc(digest, half) => {
                use aws_lc_rs::cipher::{EncryptionContext, PaddedBlockEncryptingKey};
                let nonce = [9; 16];
                let mut content = CLAIMS.to_vec();
                let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(cipher_key(&key[half..]).unwrap()).unwrap();
                let context = EncryptionContext::Iv128(FixedLength::from(nonce));
                cipher.less_safe_encrypt(&mut content, context).unwrap();
                let bits = (head.len() as u64 * 8).to_be_bytes();
                let all = [head.as_bytes(), &nonce, &content, &bits].concat();
                let tag = hmac::sign(&hmac::Key::new(digest, &key[..half]), &all).as_ref()[..half].to_vec();
                (nonce.to_vec(), content, tag)
            }
        };
        [head, base64url(wrapped), base64url(nonce), base64url(content), base64url(tag)].join(".")
    }

    fn secret(length: usize) -> Vec<u8> {
        (0..length).map(|n| n as u8 ^ 0x5a).collect()
    }

    fn check(token: &str, keys: &KeySet) -> Result<(), Refused> {
        open(token.as_bytes(), [keys]).map(|content| assert_eq!(content, CLAIMS))
    }

    const CONTENTS: [&str; 6] =
        ["A128GCM", "A192GCM", "A256GCM", "A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512"];

    #[test]
    fn contents_open_by_a_shared_secret() {
        for enc in CONTENTS {
            let key = secret(Content::named(enc).unwrap().key_length());
            let keys = set(json!([{"kty": "oct", "k": base64url(&key)}]));
            let token = sealed(json!({"alg": "dir"}), enc, &key, b"");
            assert_eq!(check(&token, &keys), Ok(()), "{enc}");
            // Any part that is changed closes it.
            for at in 0..5 {
                let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
                let end = parts[at].pop().unwrap_or('A');
                parts[at].push(if end == 'Q' { 'w' } else { 'Q' });
                assert!(check(&parts.join("."), &keys).is_err(), "{enc} {at}");
            }
            let other = set(
                json!([{"kty": "oct", "k": base64url([1; 32])}, {"kty": "oct", "k": base64url([1; 48])}]),
            );
            assert!(check(&token, &other).is_err(), "{enc}");
        }
    }

    /// AES key wrap, the other way round.
    fn wrap(secret: &[u8], key: &[u8]) -> Vec<u8> {
        use aws_lc_rs::cipher::EncryptingKey;
        let cipher = EncryptingKey::ecb(cipher_key(secret).unwrap()).unwrap();
        let mut check = [0xa6; 8];
        let mut blocks: Vec<[u8; 8]> = key.as_chunks::<8>().0.to_vec();
        let count = blocks.len();
        for round in 0..6 {
            for (at, block) in blocks.iter_mut().enumerate() {
                let mut both = [check, *block].concat();
                cipher.less_safe_encrypt(&mut both, aws_lc_rs::cipher::EncryptionContext::None).unwrap();
                let mixed =
                    u64::from_be_bytes(both[..8].try_into().unwrap()) ^ (count * round + at + 1) as u64;
                check = mixed.to_be_bytes();
                block.copy_from_slice(&both[8..]);
            }
        }
        [&check[..], &blocks.concat()].concat()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn wrapped_keys_are_those_of_rfc_3394() {
        // Its sections 4.1, 4.2 and 4.6.
        for (secret, key, wrapped) in [
            (
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
                "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5",
            ),
            (
                "000102030405060708090a0b0c0d0e0f1011121314151617",
                "00112233445566778899aabbccddeeff",
                "96778b25ae6ca435f92b5b97c050aed2468ab8a17ad84e5d",
            ),
            (
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
                "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21",
            ),
        ] {
            let (secret, key, mut wrapped) = (bytes(secret), bytes(key), bytes(wrapped));
            assert_eq!(wrap(&secret, &key), wrapped);
            assert_eq!(unwrap_aes(&secret, &wrapped).unwrap(), key);
            wrapped[3] ^= 1;
            assert_eq!(unwrap_aes(&secret, &wrapped), None);
        }
        assert_eq!(unwrap_aes(&[0; 16], &[0; 16]), None);
        assert_eq!(unwrap_aes(&[0; 16], &[0; 80]), None);
    }

    #[test]
    fn keys_of_contents_are_unwrapped() {
        for (alg, length) in [("A128KW", 16), ("A192KW", 24), ("A256KW", 32)] {
            let own = secret(length);
            let keys = set(json!([{"kty": "oct", "k": base64url(&own), "use": "enc"}]));
            for enc in CONTENTS {
                let key =
                    secret(Content::named(enc).unwrap().key_length()).iter().map(|b| !b).collect::<Vec<_>>();
                let token = sealed(json!({"alg": alg}), enc, &key, &wrap(&own, &key));
                assert_eq!(check(&token, &keys), Ok(()), "{alg} {enc}");
            }
            // A key of another length than the content wants.
            let token = sealed(json!({"alg": alg}), "A128GCM", &secret(16), &wrap(&own, &secret(32)));
            assert_eq!(check(&token, &keys), Err(Refused::Mismatch));
        }
        for (alg, gcm) in
            [("A128GCMKW", &AES_128_GCM), ("A192GCMKW", &AES_192_GCM), ("A256GCMKW", &AES_256_GCM)]
        {
            let own = secret(gcm.key_len());
            let keys = set(json!([{"kty": "oct", "k": base64url(&own)}]));
            let key = secret(32);
            let cipher = LessSafeKey::new(UnboundKey::new(gcm, &own).unwrap());
            let mut wrapped = key.clone();
            let nonce = Nonce::assume_unique_for_key([3; 12]);
            let tag = cipher.seal_in_place_separate_tag(nonce, Aad::empty(), &mut wrapped).unwrap();
            let header = json!({"alg": alg, "iv": base64url([3; 12]), "tag": base64url(tag.as_ref())});
            assert_eq!(check(&sealed(header, "A256GCM", &key, &wrapped), &keys), Ok(()), "{alg}");
            let header = json!({"alg": alg, "iv": base64url([3; 12]), "tag": base64url([0; 16])});
            assert_eq!(
                check(&sealed(header, "A256GCM", &key, &wrapped), &keys),
                Err(Refused::Mismatch),
                "{alg}"
            );
        }
    }

    #[test]
    fn keys_of_contents_are_found_by_a_private_key() {
        // Made by another program: `openssl genrsa 2048`, its numbers in base64url.
        let jwk: serde_json::Value = serde_json::from_str(include_str!("../tests/rsa.json")).unwrap();
        let keys = set(json!([jwk]));
        let number = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
        let inner = crate::der::public_key(&number("n"), &number("e"));
        let public = PublicEncryptingKey::from_der(&spki(&inner)).unwrap();
        let public = OaepPublicEncryptingKey::new(public).unwrap();
        for (alg, oaep) in [
            ("RSA-OAEP", &OAEP_SHA1_MGF1SHA1),
            ("RSA-OAEP-256", &OAEP_SHA256_MGF1SHA256),
            ("RSA-OAEP-384", &OAEP_SHA384_MGF1SHA384),
            ("RSA-OAEP-512", &OAEP_SHA512_MGF1SHA512),
        ] {
            let key = secret(32);
            let mut wrapped = vec![0; public.ciphertext_size()];
            let wrapped = public.encrypt(oaep, &key, &mut wrapped, None).unwrap().to_vec();
            let token = sealed(json!({"alg": alg}), "A256GCM", &key, &wrapped);
            assert!(wants_private_key(token.as_bytes()));
            assert_eq!(check(&token, &keys), Ok(()), "{alg}");
            let other = if alg == "RSA-OAEP" { "RSA-OAEP-256" } else { "RSA-OAEP" };
            let token = sealed(json!({"alg": other}), "A256GCM", &key, &wrapped);
            assert_eq!(check(&token, &keys), Err(Refused::Mismatch), "{alg} read as {other}");
            let mut public_only = jwk.clone();
            public_only.as_object_mut().unwrap().retain(|name, _| ["kty", "n", "e"].contains(&name.as_str()));
            assert_eq!(check(&token, &set(json!([public_only]))), Err(Refused::NoKey));
        }
    }

    /// A public key as certificates have it.
    fn spki(inner: &[u8]) -> Vec<u8> {
        let algorithm = [0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
        let mut bits = vec![3, 0x82];
        bits.extend((inner.len() as u16 + 1).to_be_bytes());
        bits.push(0);
        bits.extend_from_slice(inner);
        let mut out = vec![0x30, 0x82];
        out.extend(((algorithm.len() + bits.len()) as u16).to_be_bytes());
        [&out[..], &algorithm, &bits].concat()
    }

    #[test]
    fn unknown_and_compressed_tokens_are_refused() {
        let keys = set(json!([{"kty": "oct", "k": base64url(secret(16))}]));
        let token = |header| sealed(header, "A128GCM", &secret(16), b"");
        assert_eq!(check(&token(json!({"alg": "dir"})), &keys), Ok(()));
        assert_eq!(check(&token(json!({"alg": "dir", "zip": "DEF"})), &keys), Err(Refused::Critical));
        for alg in ["RSA1_5", "none", "PBES2-HS256+A128KW", "ECDH-ES"] {
            assert_eq!(check(&token(json!({ "alg": alg })), &keys), Err(Refused::Algorithm), "{alg}");
        }
        assert_eq!(check("e30.e30.a", &keys), Err(Refused::Malformed));
    }
}
