//! JSON Web Tokens in their compact form: RFC 7515, RFC 7518.
//!
//! Owns: the parts of a token, and whether its signature holds.
//! Never: judges what a token claims; rules do.
//! Why: who made a token chose its algorithm. So a public key, which everybody knows, is never a secret of HMAC, and a token
//! without a signature (`none`) holds only where the rule itself names that algorithm, not where a variable does.

use aws_lc_rs::signature::{UnparsedPublicKey, VerificationAlgorithm};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weir_expr::Digest;

use super::{digests, json};

/// The signature holds.
const GOOD: i64 = 1;
/// It does not.
const BAD: i64 = 0;
const UNKNOWN_ALGORITHM: i64 = -1;
const MALFORMED: i64 = -3;
const UNKNOWN_KEY: i64 = -5;

/// A part of a token, decoded: 0 is the header, 1 the payload. With a path, what stands there.
pub(super) fn part(token: &[u8], index: usize, path: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
    let text = token.split(|byte| *byte == b'.').nth(index)?;
    let plain = URL_SAFE_NO_PAD.decode(text).ok()?;
    if path.is_empty() { Some(plain) } else { json::query(&plain, path, kind) }
}

/// What verifying a token came to, as HAProxy numbers it. `form`: `pem` where the key is a public key or certificate, `none`
/// where the rule asks for no signature; else the key is a secret.
pub(super) fn verify(token: &[u8], algorithm: &[u8], key: &[u8], form: &[u8]) -> i64 {
    let mut parts = token.splitn(3, |byte| *byte == b'.');
    let (Some(header), Some(payload), Some(signature)) = (parts.next(), parts.next(), parts.next()) else {
        return MALFORMED;
    };
    let signed = &token[..header.len() + 1 + payload.len()];
    if header.is_empty() || signature.contains(&b'.') {
        return MALFORMED;
    }
    if algorithm == b"none" {
        return if form == b"none" && signature.is_empty() { GOOD } else { BAD };
    }
    let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return MALFORMED };
    let Some(scheme) = scheme(algorithm) else { return UNKNOWN_ALGORITHM };
    let holds = match scheme {
        Scheme::Keyed(_) if form == b"pem" => false,
        Scheme::Keyed(digest) => digests::keyed(digest, key, signed)
            .is_some_and(|wanted| weir_password::equal(&wanted, &signature)),
        Scheme::Signed(_) if form != b"pem" => return UNKNOWN_KEY,
        Scheme::Signed(algorithm) => {
            let Some(key) = weir_rt::public_key(key) else { return UNKNOWN_KEY };
            UnparsedPublicKey::new(algorithm, key).verify(signed, &signature).is_ok()
        }
    };
    if holds { GOOD } else { BAD }
}

enum Scheme {
    Keyed(Digest),
    Signed(&'static dyn VerificationAlgorithm),
}

fn scheme(name: &[u8]) -> Option<Scheme> {
    Some(match name {
        b"HS256" => Scheme::Keyed(digests::digest_of(256)),
        b"HS384" => Scheme::Keyed(digests::digest_of(384)),
        b"HS512" => Scheme::Keyed(digests::digest_of(512)),
        b"EdDSA" => return None,
        other => Scheme::Signed(weir_jose::algorithm(std::str::from_utf8(other).ok()?)?),
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

    use super::*;

    fn unsigned(header: &str) -> String {
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(r#"{"sub":"me","n":7}"#))
    }

    #[test]
    fn secrets_verify_and_public_keys_are_no_secrets() {
        let text = unsigned(r#"{"alg":"HS256"}"#);
        let tag = digests::keyed(Digest::Sha256, b"secret", text.as_bytes()).unwrap();
        let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag));
        let check = |algorithm: &str, key: &str, form: &str| {
            verify(token.as_bytes(), algorithm.as_bytes(), key.as_bytes(), form.as_bytes())
        };
        assert_eq!(check("HS256", "secret", ""), GOOD);
        assert_eq!(check("HS256", "secret", "pem"), BAD);
        assert_eq!(check("HS256", "other", ""), BAD);
        assert_eq!(check("HS384", "secret", ""), BAD);
        assert_eq!(check("RS256", "secret", ""), UNKNOWN_KEY);
        assert_eq!(check("XX", "secret", ""), UNKNOWN_ALGORITHM);
        assert_eq!(verify(b"a.b", b"HS256", b"", b""), MALFORMED);
        let bare = format!("{text}.");
        assert_eq!(verify(bare.as_bytes(), b"none", b"", b"none"), GOOD);
        assert_eq!(verify(bare.as_bytes(), b"none", b"secret", b""), BAD);
        assert_eq!(part(token.as_bytes(), 1, b"$.n", b"int").unwrap(), b"7");
        assert_eq!(part(token.as_bytes(), 0, b"", b"").unwrap(), br#"{"alg":"HS256"}"#);
    }

    #[test]
    fn signatures_verify_by_public_keys() {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let text = unsigned(r#"{"alg":"ES256"}"#);
        let signature = pair.sign(&random, text.as_bytes()).unwrap();
        let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
        let der = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(
            pair.public_key(),
        );
        let coded = base64::engine::general_purpose::STANDARD.encode(der.unwrap().as_ref());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{coded}\n-----END PUBLIC KEY-----\n");
        assert_eq!(verify(token.as_bytes(), b"ES256", pem.as_bytes(), b"pem"), GOOD);
        let mut other = token.into_bytes();
        other[25] ^= 1;
        assert_eq!(verify(&other, b"ES256", pem.as_bytes(), b"pem"), BAD);
        assert_eq!(verify(&other, b"ES256", b"none", b"pem"), UNKNOWN_KEY);
    }
}
