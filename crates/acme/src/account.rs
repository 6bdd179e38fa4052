//! The key of an account, and what it signs (RFC 7515, RFC 8555 section 6.2).
//!
//! Owns: making and reading account keys; signatures, thumbprints.
//! Never: sends anything.
//! Driven by: `client`.
//! Why our own and not a client library's: nginx and HAProxy have accounts with RSA keys and larger curves, and those who come
//! from them keep theirs.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256,
};
use aws_lc_rs::{encoding, hmac};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use weir_expr::settings::KeyKind;

use crate::Error;

/// The curves, with their names here and the bytes of a coordinate.
const CURVES: [(&EcdsaSigningAlgorithm, &str, &str, usize); 3] = [
    (&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256", "P-256", 32),
    (&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384", "P-384", 48),
    (&ECDSA_P521_SHA512_FIXED_SIGNING, "ES512", "P-521", 66),
];

/// The private key of an account.
pub(crate) enum AccountKey {
    /// On one of [`CURVES`].
    Ecdsa(EcdsaKeyPair, usize),
    Rsa(RsaKey),
}

/// Whom a request is from.
#[derive(Clone, Copy)]
pub(crate) enum Who<'w> {
    /// Somebody whose account is not known by its URL yet.
    Key,
    /// An account.
    Account(&'w str),
}

/// What binds an account to one that the authority has already (RFC 8555, 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct External {
    /// The identifier of the key.
    pub id: String,
    /// The key itself.
    pub key: Vec<u8>,
}

/// A key that is asked for by base64url, as authorities hand it out.
///
/// # Errors
/// It is something else.
pub fn external_key(text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim().trim_end_matches('=').replace('+', "-").replace('/', "_");
    match BASE64_URL_SAFE_NO_PAD.decode(text) {
        Ok(key) if !key.is_empty() => Ok(key),
        _ => Err("it is no key in base64url".into()),
    }
}

impl AccountKey {
    /// A new one, and the PEM text to keep it by.
    pub(crate) fn make(kind: KeyKind) -> Result<(Self, String), Error> {
        let failed = |_| Error::Setup("the account's key cannot be made".into());
        let curve = match kind {
            KeyKind::Ecdsa256 => 0,
            KeyKind::Ecdsa384 => 1,
            KeyKind::Ecdsa521 => 2,
            KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096 => {
                let size = match kind {
                    KeyKind::Rsa3072 => KeySize::Rsa3072,
                    KeyKind::Rsa4096 => KeySize::Rsa4096,
                    _ => KeySize::Rsa2048,
                };
                let key = RsaKey::generate(size).map_err(failed)?;
                let der: encoding::Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
                let text = pem(der.as_ref());
                return Ok((Self::Rsa(key), text));
            }
        };
        let key = EcdsaKeyPair::generate(CURVES[curve].0).map_err(failed)?;
        let text = pem(key.to_pkcs8v1().map_err(failed)?.as_ref());
        Ok((Self::Ecdsa(key, curve), text))
    }

    /// One from PEM: PKCS#8, SEC1 or PKCS#1.
    pub(crate) fn read(pem: &[u8]) -> Result<Self, Error> {
        let unusable = || {
            let why =
                "the account's key is no private key in PEM form, ECDSA on P-256, P-384 or P-521, or RSA";
            Error::Setup(why.into())
        };
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| unusable())?;
        let on_curve = |bytes: &[u8]| {
            (0..CURVES.len()).find_map(|at| {
                let key = EcdsaKeyPair::from_private_key_der(CURVES[at].0, bytes).ok()?;
                Some(Self::Ecdsa(key, at))
            })
        };
        let key = match &der {
            PrivateKeyDer::Pkcs1(der) => RsaKey::from_der(der.secret_pkcs1_der()).ok().map(Self::Rsa),
            PrivateKeyDer::Sec1(der) => on_curve(der.secret_sec1_der()),
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                RsaKey::from_pkcs8(der).ok().map(Self::Rsa).or_else(|| on_curve(der))
            }
            _ => None,
        };
        key.ok_or_else(unusable)
    }

    /// The public key (RFC 7517). Its fields are in the order that a thumbprint wants.
    fn jwk(&self) -> Value {
        match self {
            Self::Ecdsa(key, curve) => {
                let (_, _, name, size) = CURVES[*curve];
                // An uncompressed point: 4, x, y.
                let point = key.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at_checked(size).unwrap_or_default();
                json!({ "crv": name, "kty": "EC", "x": encode(x), "y": encode(y) })
            }
            Self::Rsa(key) => {
                let (n, e) = rsa_numbers(key.public_key().as_ref()).unwrap_or_default();
                json!({ "e": encode(e), "kty": "RSA", "n": encode(n) })
            }
        }
    }

    /// What names the key in answers to challenges (RFC 7638).
    pub(crate) fn thumbprint(&self) -> String {
        // `Value` keeps fields in the order of the alphabet, which is what is asked for.
        encode(digest(&SHA256, self.jwk().to_string().as_bytes()).as_ref())
    }

    /// A signed request.
    pub(crate) fn sign(&self, who: Who<'_>, nonce: &str, url: &str, payload: &str) -> Result<String, Error> {
        let algorithm = match self {
            Self::Ecdsa(_, curve) => CURVES[*curve].1,
            Self::Rsa(_) => "RS256",
        };
        let mut header = json!({ "alg": algorithm, "nonce": nonce, "url": url });
        match who {
            Who::Key => header["jwk"] = self.jwk(),
            Who::Account(account) => header["kid"] = json!(account),
        }
        let (protected, payload) = (encode(header.to_string().as_bytes()), encode(payload.as_bytes()));
        let signature = self.signature(format!("{protected}.{payload}").as_bytes())?;
        let signed = json!({ "protected": protected, "payload": payload, "signature": encode(&signature) });
        Ok(signed.to_string())
    }

    fn signature(&self, text: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Setup("the account's key does not sign".into());
        let random = SystemRandom::new();
        match self {
            Self::Ecdsa(key, _) => Ok(key.sign(&random, text).map_err(failed)?.as_ref().to_vec()),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }

    /// That an account which the authority knows agrees to this key.
    pub(crate) fn bound_to(&self, external: &External, url: &str) -> Value {
        let header = json!({ "alg": "HS256", "kid": external.id, "url": url });
        let (protected, payload) =
            (encode(header.to_string().as_bytes()), encode(self.jwk().to_string().as_bytes()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, &external.key);
        let tag = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        json!({ "protected": protected, "payload": payload, "signature": encode(tag.as_ref()) })
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut out = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + "-----END PRIVATE KEY-----\n"
}

/// Modulus and exponent of our own `RSAPublicKey` (RFC 8017, A.1.1): a sequence of two integers.
fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (modulus, rest) = element(sequence, 2)?;
    let (exponent, _) = element(rest, 2)?;
    let positive = |bytes: &'_ [u8]| bytes.iter().take_while(|byte| **byte == 0).count();
    Some((&modulus[positive(modulus)..], &exponent[positive(exponent)..]))
}

fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (
                bytes
                    .iter()
                    .try_fold(0_usize, |all, byte| all.checked_mul(256)?.checked_add(usize::from(*byte)))?,
                rest,
            )
        }
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_kept_is_the_same_key() {
        for kind in [KeyKind::Ecdsa256, KeyKind::Ecdsa384, KeyKind::Ecdsa521, KeyKind::Rsa2048] {
            let (key, text) = AccountKey::make(kind).unwrap();
            let again = AccountKey::read(text.as_bytes()).unwrap();
            assert_eq!(key.thumbprint(), again.thumbprint(), "{kind}");
            let signed = key.sign(Who::Key, "n", "https://a/", "{}").unwrap();
            assert!(serde_json::from_str::<Value>(&signed).unwrap()["signature"].is_string());
        }
        assert!(AccountKey::read(b"nothing").is_err());
    }

    /// The example of RFC 7638, section 3.1, by its numbers.
    #[test]
    fn a_thumbprint_is_of_fields_in_order() {
        let (key, _) = AccountKey::make(KeyKind::Rsa2048).unwrap();
        let text = key.jwk().to_string();
        assert!(text.starts_with(r#"{"e":"AQAB","kty":"RSA","n":""#), "{text}");
        let (key, _) = AccountKey::make(KeyKind::Ecdsa521).unwrap();
        let text = key.jwk().to_string();
        assert!(text.starts_with(r#"{"crv":"P-521","kty":"EC","x":""#), "{text}");
        assert_eq!(key.jwk()["x"].as_str().unwrap().len(), 88);
    }

    #[test]
    fn keys_of_foreign_accounts_are_base64url() {
        assert_eq!(external_key(" _-8= \n"), Ok(vec![0xff, 0xef]));
        assert_eq!(external_key("/+8"), Ok(vec![0xff, 0xef]));
        assert!(external_key("").is_err() && external_key("§").is_err());
    }
}
