//! Doors for fuzz drivers: what is read of certificates, keys and lists.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use super::cert::CertInfo;
use super::der::public_key_of;
use super::hello::peek;
use super::key;
use super::version1;

/// Reads arbitrary bytes as a certificate, as its authority and as its list. Must never panic, nor believe itself.
pub fn certificate(bytes: &[u8]) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let algorithms = &provider.signature_verification_algorithms;
    let (cert, list) = (CertificateDer::from(bytes), CertificateRevocationListDer::from(bytes));
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
    let _ = version1::is(bytes);
    let verified =
        version1::verify(&cert, std::slice::from_ref(&cert), std::slice::from_ref(&list), algorithms, now);
    assert!(verified.is_err(), "a certificate of version 1 is no authority");
    assert!(public_key_of(bytes).is_none_or(|key| key.len() < bytes.len()));
    let _ = CertInfo::from_der(bytes);
}

/// Reads arbitrary bytes as a private key that may be encrypted. Must never panic.
pub fn key(bytes: &[u8]) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let _ = key::load(provider.key_provider, bytes, &[b"secret".to_vec()]);
}

/// Looks at arbitrary bytes as a client's first. Must never panic.
pub fn hello(bytes: &[u8]) {
    let _ = peek(bytes);
}
