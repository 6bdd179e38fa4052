//! What must hold for any bytes of a TLS peer, and of the files that TLS is configured with.
//!
//! Owns: the properties. Never: makes inputs; `cargo xtask fuzz` does.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use super::cert::{CertInfo, CertKey, cert_names, read_certs, read_pair};
use super::cert_view::CertView;
use super::der::public_key_of;
use super::facts::{cert_facts, list_facts};
use super::hello::{Peek, peek};
use super::ocsp::{self, OcspQuestion};
use super::tickets::Tickets;
use super::trust::{Authorities, Trust};
use super::{key, version1};

/// A target: a function that panics where a property does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("tls_hello", hello),
    ("tls_certificate", certificate),
    ("tls_version1", version_1),
    ("tls_key", private_key),
    ("tls_revocation_list", revocation_list),
    ("tls_pem", pem),
    ("tls_ticket", ticket),
    ("tls_ocsp", ocsp_response),
];

const NOW: UnixTime = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));

/// A client's first bytes: the verdict on them stands once it is there, whatever comes later.
fn hello(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let whole = peek(bytes);
    let step = usize::from(first % 64) + 1;
    let early = (0..bytes.len()).step_by(step).map(|end| peek(&bytes[..end]));
    if let Some(verdict) = early.into_iter().find(|verdict| *verdict != Peek::Incomplete) {
        assert_eq!(verdict, whole, "what is seen depends on the pieces in which it came");
    }
}

/// A certificate that a peer sent.
fn certificate(data: &[u8]) {
    let _ = CertInfo::from_der(data);
    if let Some(view) = CertView::from_der(data) {
        let _ = (view.serial(), view.not_before(), view.not_after(), view.version());
        let _ = (view.key_algorithm(), view.signature_algorithm());
        for name in [view.subject(), view.issuer()] {
            let _ = (name.one_line(), name.rfc2253());
            for nth in [i64::MIN, -1, 0, 1, 2, i64::MAX] {
                let _ = (name.attribute("CN", nth), name.attribute("2.5.4.3", nth));
            }
        }
    }
    let text = armoured("CERTIFICATE", data);
    let _ = cert_facts(&text);
    let _ = cert_names(&text);
    let trust = Trust { ca_pem: text, crl_pem: None, depth: Some(1) };
    let Ok(authorities) = Authorities::read(&trust) else { return };
    let chain = [CertificateDer::from(data)];
    let _ = authorities.with_issuers(&chain);
    let _ = authorities.holds(&chain[0], NOW);
}

/// A certificate that is its own authority and its own list: it must not believe itself.
fn version_1(data: &[u8]) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let algorithms = &provider.signature_verification_algorithms;
    let (cert, list) = (CertificateDer::from(data), CertificateRevocationListDer::from(data));
    let _ = version1::is(data);
    let verified =
        version1::verify(&cert, std::slice::from_ref(&cert), std::slice::from_ref(&list), algorithms, NOW);
    assert!(verified.is_err(), "a certificate of version 1 is no authority");
    assert!(public_key_of(data).is_none_or(|key| key.len() < data.len()));
}

/// A private key, which may be encrypted.
fn private_key(data: &[u8]) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let _ = key::load(provider.key_provider, data, &[b"secret".to_vec()]);
}

/// A list of revoked certificates.
fn revocation_list(data: &[u8]) {
    let _ = list_facts(&armoured("X509 CRL", data));
    let Ok(list) = webpki::OwnedCertRevocationList::from_der(data) else { return };
    let list = webpki::CertRevocationList::from(list);
    let _ = list.issuer();
}

/// A file of certificates and keys.
fn pem(data: &[u8]) {
    let _ = (cert_facts(data), list_facts(data));
    let _ = read_certs(data);
    let _ = cert_names(data);
    let pair = CertKey {
        staple: None,
        chain_pem: data.to_vec(),
        key_pem: data.to_vec(),
        passwords: vec![b"secret".to_vec()],
        names: Vec::new(),
        default: true,
    };
    let _ = read_pair(&rustls::crypto::aws_lc_rs::default_provider(), &pair);
}

/// A ticket that a client shows: only what was sealed is opened.
fn ticket(data: &[u8]) {
    let key = [7; 48];
    let Ok(tickets) = Tickets::from_keys(&[key.to_vec()]) else { return };
    assert_eq!(tickets.0.decrypt(data), None, "a forged ticket was opened");
    let named = [&key[..16], data].concat();
    assert_eq!(tickets.0.decrypt(&named), None, "a forged ticket was opened");
    let sealed = tickets.0.encrypt(data).and_then(|sealed| tickets.0.decrypt(&sealed));
    assert_eq!(sealed.as_deref(), Some(data));
    let _ = Tickets::from_keys(&[data.to_vec()]);
}

/// A responder's answer, which is also a certificate that it is asked about.
fn ocsp_response(data: &[u8]) {
    let now = std::time::Duration::from_secs(NOW.as_secs());
    let _ = ocsp::take_apart(data);
    if let Ok(question) = OcspQuestion::of(data, &[data]) {
        let _ = (question.request(), question.responder(), question.comes_from(data, now));
        assert!(question.answer(data, now).is_err(), "a certificate is no response");
    }
}

/// DER as PEM.
fn armoured(label: &str, der: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = format!("-----BEGIN {label}-----\n").into_bytes();
    for piece in der.chunks(3) {
        let word =
            piece.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - piece.len()));
        let digits = [18, 12, 6, 0].map(|shift| ALPHABET[(word >> shift) as usize & 63]);
        let (coded, padding) = digits.split_at(piece.len() + 1);
        out.extend_from_slice(coded);
        out.extend(padding.iter().map(|_| b'='));
    }
    out.extend_from_slice(format!("\n-----END {label}-----\n").as_bytes());
    out
}
