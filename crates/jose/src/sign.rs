//! Signed tokens (RFC 7515, RFC 7518 §3, RFC 8037).
//!
//! Owns: the algorithms, and which kind of key each of them wants.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};

use crate::Refused;
use crate::compact::{decode, split, text, understood};
use crate::keys::{Curve, KeySet, Material, Purpose, first};

/// An algorithm with keys of two halves, by its name; not those of secrets.
pub fn algorithm(name: &str) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match name {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        "ES256" => &ECDSA_P256_SHA256_FIXED,
        "ES384" => &ECDSA_P384_SHA384_FIXED,
        "ES512" => &ECDSA_P521_SHA512_FIXED,
        "EdDSA" => &ED25519,
        _ => return None,
    })
}

/// Verifies a signed token, and gives its payload.
///
/// # Errors
/// It does not hold.
pub fn verify<'s>(token: &[u8], sets: impl IntoIterator<Item = &'s KeySet>) -> Result<Vec<u8>, Refused> {
    let [head, payload, signature] = split::<3>(token)?;
    let signed = &token[..head.len() + 1 + payload.len()];
    let header = understood(head)?;
    let name = text(&header, "alg").ok_or(Refused::Malformed)?;
    let (payload, signature) = (decode(payload)?, decode(signature)?);
    let secret = match name {
        "HS256" => Some(hmac::HMAC_SHA256),
        "HS384" => Some(hmac::HMAC_SHA384),
        "HS512" => Some(hmac::HMAC_SHA512),
        _ => None,
    };
    if let Some(digest) = secret {
        let is_secret = |key: &Material| matches!(key, Material::Secret(_));
        return first(sets, &header, Purpose::Verify, is_secret, |key| {
            let Material::Secret(secret) = key else { return None };
            // Compared in a time that tells nothing.
            hmac::verify(&hmac::Key::new(digest, secret), signed, &signature).ok()
        })
        .map(|()| payload);
    }
    let algorithm = algorithm(name).ok_or(Refused::Algorithm)?;
    let public = |key: &Material| -> bool { public_half(key, name).is_some() };
    first(sets, &header, Purpose::Verify, public, |key| {
        UnparsedPublicKey::new(algorithm, public_half(key, name)?).verify(signed, &signature).ok()
    })
    .map(|()| payload)
}

/// The public half of a key, if it is of the kind that the algorithm wants.
fn public_half<'k>(key: &'k Material, algorithm: &str) -> Option<&'k [u8]> {
    match (key, algorithm) {
        (Material::Rsa { public, .. }, "RS256" | "RS384" | "RS512" | "PS256" | "PS384" | "PS512") => {
            Some(public)
        }
        (Material::Curve(Curve::P256, point), "ES256")
        | (Material::Curve(Curve::P384, point), "ES384")
        | (Material::Curve(Curve::P521, point), "ES512") => Some(point),
        (Material::Ed25519(key), "EdDSA") => Some(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
        EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
        RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
        RsaKeyPair,
    };
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn base64url(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn unsigned(header: &serde_json::Value) -> String {
        format!("{}.{}", base64url(header.to_string()), base64url(r#"{"sub":"me"}"#))
    }

    fn set(keys: serde_json::Value) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn check(token: &str, set: &KeySet) -> Result<(), Refused> {
        verify(token.as_bytes(), [set]).map(|payload| assert_eq!(payload, br#"{"sub":"me"}"#))
    }

    fn keyed(header: serde_json::Value, secret: &[u8]) -> String {
        let digest = match header["alg"].as_str().unwrap() {
            "HS256" => hmac::HMAC_SHA256,
            "HS384" => hmac::HMAC_SHA384,
            _ => hmac::HMAC_SHA512,
        };
        let text = unsigned(&header);
        let tag = hmac::sign(&hmac::Key::new(digest, secret), text.as_bytes());
        format!("{text}.{}", base64url(tag.as_ref()))
    }

    #[test]
    fn secrets_hold_by_their_name_and_purpose() {
        let secret = json!({"kty": "oct", "k": base64url("secret"), "kid": "1"});
        let keys = set(json!([{"kty": "oct", "k": base64url("other"), "kid": "0"}, secret]));
        for algorithm in ["HS256", "HS384", "HS512"] {
            assert_eq!(check(&keyed(json!({"alg": algorithm, "kid": "1"}), b"secret"), &keys), Ok(()));
            assert_eq!(check(&keyed(json!({"alg": algorithm}), b"secret"), &keys), Ok(()));
            let wrong = keyed(json!({"alg": algorithm, "kid": "0"}), b"secret");
            assert_eq!(check(&wrong, &keys), Err(Refused::Mismatch));
            let unknown = keyed(json!({"alg": algorithm, "kid": "2"}), b"secret");
            assert_eq!(check(&unknown, &keys), Err(Refused::NoKey));
        }
        let token = keyed(json!({"alg": "HS256"}), b"secret");
        for (field, value, holds) in [
            ("use", json!("sig"), true),
            ("use", json!("enc"), false),
            ("key_ops", json!(["verify"]), true),
            ("key_ops", json!(["sign"]), false),
            ("alg", json!("HS256"), true),
            ("alg", json!("HS512"), false),
        ] {
            let mut one = secret.clone();
            one[field] = value.clone();
            assert_eq!(check(&token, &set(json!([one]))).is_ok(), holds, "{field} {value}");
        }
    }

    #[test]
    fn nothing_holds_without_a_signature_or_with_parts_that_must_be_understood() {
        let keys = set(json!([{"kty": "oct", "k": base64url("secret")}]));
        for name in ["none", "None", "nOnE", "", "HS1", "RSA-OAEP"] {
            let bare = format!("{}.", unsigned(&json!({"alg": name})));
            assert_eq!(check(&bare, &keys), Err(Refused::Algorithm), "{name}");
        }
        assert_eq!(check(&format!("{}.", unsigned(&json!({}))), &keys), Err(Refused::Malformed));
        let crit = keyed(json!({"alg": "HS256", "crit": ["b64"], "b64": false}), b"secret");
        assert_eq!(check(&crit, &keys), Err(Refused::Critical));
        let mut token = keyed(json!({"alg": "HS256"}), b"secret");
        token.push('A');
        assert!(check(&token, &keys).is_err());
    }

    fn rsa_key(pair: &RsaKeyPair) -> serde_json::Value {
        // SEQUENCE { INTEGER of 257 bytes, the first of them 0, INTEGER 65537 }.
        json!({"kty": "RSA", "n": base64url(&pair.public_key().as_ref()[9..265]), "e": "AQAB"})
    }

    #[test]
    fn signatures_of_rsa_hold_and_its_public_key_is_no_secret() {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let keys = set(json!([rsa_key(&pair)]));
        let all: [(&str, &'static dyn RsaEncoding); 6] = [
            ("RS256", &RSA_PKCS1_SHA256),
            ("RS384", &RSA_PKCS1_SHA384),
            ("RS512", &RSA_PKCS1_SHA512),
            ("PS256", &RSA_PSS_SHA256),
            ("PS384", &RSA_PSS_SHA384),
            ("PS512", &RSA_PSS_SHA512),
        ];
        for (name, encoding) in all {
            let text = unsigned(&json!({"alg": name}));
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(encoding, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
            assert_eq!(check(&format!("{text}.{}", base64url(&signature)), &keys), Ok(()), "{name}");
            signature[9] ^= 1;
            let broken = format!("{text}.{}", base64url(&signature));
            assert_eq!(check(&broken, &keys), Err(Refused::Mismatch), "{name}");
        }
        // The public key, in any form that somebody may take it in, as the secret of an HMAC.
        let public = pair.public_key().as_ref();
        for secret in [public, &public[9..265]] {
            assert_eq!(check(&keyed(json!({"alg": "HS256"}), secret), &keys), Err(Refused::NoKey));
        }
    }

    #[test]
    fn signatures_of_curves_hold_each_by_its_own() {
        let random = SystemRandom::new();
        let all: [(&str, &str, &'static EcdsaSigningAlgorithm); 3] = [
            ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
            ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
            ("ES512", "P-521", &ECDSA_P521_SHA512_FIXED_SIGNING),
        ];
        for (name, curve, algorithm) in all {
            let pair = EcdsaKeyPair::generate(algorithm).unwrap();
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let keys = set(json!([{"kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y)}]));
            let text = unsigned(&json!({"alg": name}));
            let signature = pair.sign(&random, text.as_bytes()).unwrap();
            assert_eq!(check(&format!("{text}.{}", base64url(signature)), &keys), Ok(()), "{name}");
            for other in all.map(|one| one.0).into_iter().filter(|other| *other != name) {
                let text = unsigned(&json!({"alg": other}));
                let signature = pair.sign(&random, text.as_bytes()).unwrap();
                let token = format!("{text}.{}", base64url(signature));
                assert_eq!(check(&token, &keys), Err(Refused::NoKey), "{other}");
            }
        }
        let pair = Ed25519KeyPair::generate().unwrap();
        let keys = set(json!([{"kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key())}]));
        let text = unsigned(&json!({"alg": "EdDSA"}));
        let token = format!("{text}.{}", base64url(pair.sign(text.as_bytes())));
        assert_eq!(check(&token, &keys), Ok(()));
    }

    #[test]
    fn a_token_without_a_name_tries_only_so_many_keys() {
        let key = |secret: String| json!({"kty": "oct", "k": base64url(secret)});
        let token = keyed(json!({"alg": "HS256"}), b"secret");
        let mut keys: Vec<_> = (0..15).map(|n| key(format!("other {n}"))).collect();
        keys.push(key("secret".into()));
        assert_eq!(check(&token, &set(json!(keys))), Ok(()));
        keys.insert(0, key("one more".into()));
        assert_eq!(check(&token, &set(json!(keys))), Err(Refused::Mismatch));
    }
}
