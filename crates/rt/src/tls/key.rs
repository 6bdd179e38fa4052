//! Private keys from PEM, plain and encrypted.
//!
//! Owns: PKCS#8's password-based encryption (RFC 8018, PBES2: AES and triple DES in CBC mode, keys by PBKDF2), and the older
//! one of PEM itself (RFC 1421's headers as OpenSSL writes them).
//! Never: asks for a pass phrase; keeps one.
//! Driven by: `cert`.
//! Why here: nginx and HAProxy have it from OpenSSL. The primitives are AWS-LC's; of DES, which it does not offer, RustCrypto's.

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::pbkdf2;
use des::TdesEde3;
use des::cipher::{BlockCipherDecrypt as _, KeyInit as _};
use md5::{Digest as _, Md5};
use rustls::crypto::KeyProvider;
use rustls::sign::SigningKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use std::sync::Arc;

use super::der::{Der, INTEGER, OBJECT, OCTETS};
use super::error::TlsConfigError;

/// The first private key of a PEM text, ready for use; `passwords` are tried in order where it is encrypted.
pub(crate) fn load(
    provider: &dyn KeyProvider,
    pem: &[u8],
    passwords: &[Vec<u8>],
) -> Result<Arc<dyn SigningKey>, TlsConfigError> {
    let usable =
        |der| provider.load_private_key(der).map_err(|error| TlsConfigError::BadKey(error.to_string()));
    let Some(encrypted) = Encrypted::find(pem)? else { return usable(plain(pem)?) };
    if passwords.is_empty() {
        return Err(TlsConfigError::EncryptedKey);
    }
    // A wrong pass phrase that leaves a sound padding by chance leaves no key.
    let mut wrong = TlsConfigError::WrongPassword;
    for password in passwords {
        match encrypted.open(password) {
            Ok(opened) => {
                if let Some(Ok(key)) = opened.map(usable) {
                    return Ok(key);
                }
            }
            Err(error) => wrong = error,
        }
    }
    Err(wrong)
}

fn plain(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    use rustls_pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => TlsConfigError::NoKey,
        error => TlsConfigError::BadPem(format!("{error:?}")),
    })
}

/// An encrypted key.
struct Encrypted {
    cipher: Cipher,
    /// How the cipher's key is made of a pass phrase.
    derive: Derive,
    iv: Vec<u8>,
    content: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Cipher {
    Aes(&'static Algorithm, usize),
    TripleDes,
}

enum Derive {
    /// PBKDF2 (RFC 8018, 5.2).
    Pbkdf2 { prf: pbkdf2::Algorithm, salt: Vec<u8>, rounds: std::num::NonZeroU32 },
    /// OpenSSL's `EVP_BytesToKey` with MD5 and one round.
    Md5 { salt: [u8; 8] },
}

/// What is encrypted.
#[derive(Clone, Copy)]
enum Kind {
    Pkcs8,
    Pkcs1,
    Sec1,
}

impl Encrypted {
    /// The first key of a PEM text, if it is encrypted.
    fn find(pem: &[u8]) -> Result<Option<Self>, TlsConfigError> {
        let text = String::from_utf8_lossy(pem);
        for (at, _) in text.match_indices("-----BEGIN ") {
            let block = &text[at + "-----BEGIN ".len()..];
            let Some((label, block)) = block.split_once("-----") else { break };
            let kind = match label {
                "ENCRYPTED PRIVATE KEY" => None,
                "RSA PRIVATE KEY" => Some(Kind::Pkcs1),
                "EC PRIVATE KEY" => Some(Kind::Sec1),
                "PRIVATE KEY" => return Ok(None),
                _ => continue,
            };
            let Some((body, _)) = block.split_once("-----END") else { break };
            let bad = || TlsConfigError::BadKey("its encryption is not one that is known here".into());
            return match kind {
                None => Self::pkcs8(&base64(body)?).ok_or_else(bad).map(Some),
                Some(_) if !body.contains("Proc-Type: 4,ENCRYPTED") => Ok(None),
                Some(kind) => Self::of_headers(body, kind)?.ok_or_else(bad).map(Some),
            };
        }
        Ok(None)
    }

    /// `EncryptedPrivateKeyInfo` (RFC 5958, 3).
    fn pkcs8(der: &[u8]) -> Option<Self> {
        let mut info = Der::new(der).sequence()?;
        let mut algorithm = info.sequence()?;
        let content = info.take(OCTETS)?.to_vec();
        if algorithm.take(OBJECT)? != oid::PBES2 {
            return None;
        }
        let mut parameters = algorithm.sequence()?;
        let (mut kdf, mut scheme) = (parameters.sequence()?, parameters.sequence()?);
        if kdf.take(OBJECT)? != oid::PBKDF2 {
            return None;
        }
        let mut kdf = kdf.sequence()?;
        let salt = kdf.take(OCTETS)?.to_vec();
        let rounds = kdf
            .take(INTEGER)?
            .iter()
            .try_fold(0_u32, |sum, &byte| Some(sum.checked_mul(256)? + u32::from(byte)))?;
        // The length of the key goes without saying.
        let _ = kdf.take(INTEGER);
        let prf = match kdf.sequence() {
            None => pbkdf2::PBKDF2_HMAC_SHA1,
            Some(mut prf) => match prf.take(OBJECT)? {
                oid::HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
                oid::HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
                oid::HMAC_SHA384 => pbkdf2::PBKDF2_HMAC_SHA384,
                oid::HMAC_SHA512 => pbkdf2::PBKDF2_HMAC_SHA512,
                _ => return None,
            },
        };
        let cipher = match scheme.take(OBJECT)? {
            oid::AES_128 => Cipher::Aes(&AES_128, 16),
            oid::AES_192 => Cipher::Aes(&AES_192, 24),
            oid::AES_256 => Cipher::Aes(&AES_256, 32),
            oid::TRIPLE_DES => Cipher::TripleDes,
            _ => return None,
        };
        let iv = scheme.take(OCTETS)?.to_vec();
        // Three times what is recommended today. A start that waits longer for a key looks like one that hangs.
        let rounds = std::num::NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= 2_000_000)?;
        Some(Self { cipher, derive: Derive::Pbkdf2 { prf, salt, rounds }, iv, content, kind: Kind::Pkcs8 })
    }

    /// `Proc-Type` and `DEK-Info: CIPHER,IV`, an empty line, and the content.
    fn of_headers(body: &str, kind: Kind) -> Result<Option<Self>, TlsConfigError> {
        let mut lines = body.lines().map(str::trim);
        let info = lines.by_ref().find_map(|line| line.strip_prefix("DEK-Info:"));
        let content = base64(&lines.collect::<Vec<_>>().join("\n"))?;
        let parts = info.and_then(|info| info.trim().split_once(','));
        Ok(parts.and_then(|(name, iv)| {
            let cipher = match name {
                "AES-128-CBC" => Cipher::Aes(&AES_128, 16),
                "AES-192-CBC" => Cipher::Aes(&AES_192, 24),
                "AES-256-CBC" => Cipher::Aes(&AES_256, 32),
                "DES-EDE3-CBC" => Cipher::TripleDes,
                _ => return None,
            };
            let iv = hex(iv)?;
            let derive = Derive::Md5 { salt: *iv.first_chunk()? };
            Some(Self { cipher, derive, iv, content, kind })
        }))
    }

    /// What is in it, if the pass phrase fits. An error: nobody's would.
    fn open(&self, password: &[u8]) -> Result<Option<PrivateKeyDer<'static>>, TlsConfigError> {
        let bad = || TlsConfigError::BadKey("its encryption has odd parameters".into());
        let opened = match self.cipher {
            Cipher::Aes(algorithm, len) => {
                let iv: [u8; 16] = self.iv.as_slice().try_into().map_err(|_| bad())?;
                let key = UnboundCipherKey::new(algorithm, &self.key(password, len)).map_err(|_| bad())?;
                let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| bad())?;
                let mut content = self.content.clone();
                let context = DecryptionContext::Iv128((&iv).into());
                key.decrypt(&mut content, context).ok().map(|plain| plain.to_vec())
            }
            Cipher::TripleDes => {
                let iv: [u8; 8] = self.iv.as_slice().try_into().map_err(|_| bad())?;
                triple_des(&self.key(password, 24), iv, &self.content).ok_or_else(bad)?
            }
        };
        Ok(opened.map(|der| match self.kind {
            Kind::Pkcs8 => PrivateKeyDer::Pkcs8(der.into()),
            Kind::Pkcs1 => PrivateKeyDer::Pkcs1(der.into()),
            Kind::Sec1 => PrivateKeyDer::Sec1(der.into()),
        }))
    }

    fn key(&self, password: &[u8], len: usize) -> Vec<u8> {
        match &self.derive {
            Derive::Pbkdf2 { prf, salt, rounds } => {
                let mut key = vec![0; len];
                pbkdf2::derive(*prf, *rounds, salt, password, &mut key);
                key
            }
            Derive::Md5 { salt } => {
                let (mut key, mut last) = (Vec::new(), Vec::new());
                while key.len() < len {
                    let round = Md5::new().chain_update(&last).chain_update(password).chain_update(salt);
                    last = round.finalize().to_vec();
                    key.extend_from_slice(&last);
                }
                key.truncate(len);
                key
            }
        }
    }
}

/// CBC with the padding of PKCS#7. `None`: no whole blocks; `Some(None)`: the padding is not sound.
fn triple_des(key: &[u8], iv: [u8; 8], content: &[u8]) -> Option<Option<Vec<u8>>> {
    let cipher = TdesEde3::new_from_slice(key).ok()?;
    let (blocks, []) = content.as_chunks::<8>() else { return None };
    let mut before = iv;
    let mut plain = Vec::with_capacity(content.len());
    for block in blocks {
        let mut clear = (*block).into();
        cipher.decrypt_block(&mut clear);
        plain.extend(clear.iter().zip(before).map(|(a, b)| a ^ b));
        before = *block;
    }
    let padding = usize::from(*plain.last()?);
    let sound = (1..=8).contains(&padding) && plain.ends_with(&vec![*plain.last()?; padding]);
    plain.truncate(plain.len() - padding.min(plain.len()));
    Some(sound.then_some(plain))
}

fn base64(body: &str) -> Result<Vec<u8>, TlsConfigError> {
    // The parser of PEM has the decoder, and knows this label.
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", body.trim());
    plain(pem.as_bytes()).map(|key| key.secret_der().to_vec())
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Names of algorithms, as DER has them.
mod oid {
    pub(super) const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
    pub(super) const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
    pub(super) const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7];
    pub(super) const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9];
    pub(super) const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10];
    pub(super) const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11];
    pub(super) const AES_128: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2];
    pub(super) const AES_192: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22];
    pub(super) const AES_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];
    pub(super) const TRIPLE_DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7];
}
