//! Digests of messages, with and without a key.

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::digest::Digest as _;
use weir_expr::Digest;

/// The digest of a value.
pub(super) fn digest(digest: Digest, value: &[u8]) -> Vec<u8> {
    match digest {
        Digest::Md5 => md5::Md5::digest(value).to_vec(),
        Digest::Sha1 => sha1::Sha1::digest(value).to_vec(),
        Digest::Sha224 => sha2::Sha224::digest(value).to_vec(),
        Digest::Sha256 => sha2::Sha256::digest(value).to_vec(),
        Digest::Sha384 => sha2::Sha384::digest(value).to_vec(),
        Digest::Sha512 => sha2::Sha512::digest(value).to_vec(),
        Digest::Sha512Cut256 => sha2::Sha512_256::digest(value).to_vec(),
    }
}

/// The digest of a value under a key that is written in a coding; `None`: it is malformed.
pub(super) fn hmac(digest: Digest, coding: &GeneralPurpose, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    keyed(digest, &coding.decode(key).ok()?, value)
}

/// The digest of a value under a key.
pub(super) fn keyed(digest: Digest, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    macro_rules! keyed {
        ($kind:ty) => {
            Some(
                Hmac::<$kind>::new_from_slice(key).ok()?.chain_update(value).finalize().into_bytes().to_vec(),
            )
        };
    }
    match digest {
        Digest::Md5 => keyed!(md5::Md5),
        Digest::Sha1 => keyed!(sha1::Sha1),
        Digest::Sha224 => keyed!(sha2::Sha224),
        Digest::Sha256 => keyed!(sha2::Sha256),
        Digest::Sha384 => keyed!(sha2::Sha384),
        Digest::Sha512 => keyed!(sha2::Sha512),
        Digest::Sha512Cut256 => keyed!(sha2::Sha512_256),
    }
}

/// The digest of a name that is known since the configuration was read.
pub(super) fn digest_of(bits: u16) -> Digest {
    match bits {
        384 => Digest::Sha384,
        512 => Digest::Sha512,
        _ => Digest::Sha256,
    }
}
