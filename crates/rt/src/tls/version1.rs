//! Certificates of X.509 version 1, which `openssl x509 -req` makes where no extension is asked for.
//!
//! Owns: their verification as the leaf of a client, and that of handshakes signed by them.
//! Never: takes one for an issuer; believes one that does not stand directly under an authority of version 3 that the
//! operator named.
//! Driven by: `verify`, for certificates that webpki does not read.
//! Why so narrow: nothing in such a certificate says what it is for. As an issuer it would let its holder make others;
//! as a leaf it can only be who its authority says.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbs SEQUENCE { serial, algorithm, issuer, validity, subject, key, … }, algorithm, BIT STRING }
//! ```

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{CertificateError, DigitallySignedStruct, Error};
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer,
    UnixTime,
};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate, X509Extension, X509Version};

use super::der::{BITS, Der, SEQUENCE};

/// issuingDistributionPoint: the list is not of all that its issuer made.
const PARTIAL_LIST: &str = "2.5.29.28";

/// Whether a certificate is of version 1: nothing that was added since is in it.
pub(crate) fn is(der: &[u8]) -> bool {
    let tbs = Der::new(der).sequence().and_then(|mut certificate| certificate.sequence());
    tbs.is_some_and(|mut tbs| tbs.take(0xa0).is_none()) && parsed(der).is_some()
}

fn parsed(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, cert) = X509Certificate::from_der(der).ok()?;
    (rest.is_empty() && cert.version() == X509Version::V1 && cert.extensions().is_empty()).then_some(cert)
}

/// Verifies a client's certificate directly under one of `authorities`, at a time, against all of the lists there are.
pub(crate) fn verify(
    der: &CertificateDer<'_>,
    authorities: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
    algorithms: &WebPkiSupportedAlgorithms,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let cert = parsed(der).ok_or(CertificateError::BadEncoding)?;
    in_time(&cert, now)?;
    let mut failure = CertificateError::UnknownIssuer;
    for authority in authorities {
        let Some(issuer) = issuer_of(&cert, authority) else { continue };
        let key = SubjectPublicKeyInfoDer::from(issuer.public_key().raw);
        if !is_signed(der, &key, algorithms.all) {
            failure = CertificateError::BadSignature;
            continue;
        }
        in_time(&issuer, now)?;
        return unrevoked(&cert, &issuer, &key, lists, algorithms.all, now);
    }
    Err(failure)
}

fn in_time(cert: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match cert.validity() {
        validity if now < validity.not_before.timestamp() => Err(CertificateError::NotValidYet),
        validity if now > validity.not_after.timestamp() => Err(CertificateError::Expired),
        _ => Ok(()),
    }
}

/// The authority, if it is the one that the certificate names, and may sign.
fn issuer_of<'a>(cert: &X509Certificate<'_>, der: &'a [u8]) -> Option<X509Certificate<'a>> {
    let (_, issuer) = X509Certificate::from_der(der).ok()?;
    let constraints = issuer.basic_constraints().ok().flatten()?;
    let usage = issuer.key_usage().ok()?;
    let may_sign = constraints.value.ca && usage.is_none_or(|usage| usage.value.key_cert_sign());
    // What narrows an authority down to some names is for a library to read, and this leaf is not for it.
    let narrowed = issuer.name_constraints().ok()?.is_some();
    let named = cert.issuer().as_raw() == issuer.subject().as_raw();
    (named && may_sign && !narrowed && issuer.version() == X509Version::V3).then_some(issuer)
}

/// Whether a certificate or list (a sequence of content, algorithm, signature) is signed by a key.
fn is_signed(
    der: &[u8],
    key: &SubjectPublicKeyInfoDer<'_>,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> bool {
    let read = || {
        let mut signed = Der::new(der).sequence()?;
        let content = signed.element(SEQUENCE)?;
        let algorithm = signed.take(SEQUENCE)?;
        let (unused, signature) = signed.take(BITS)?.split_first()?;
        (*unused == 0 && signed.is_empty()).then_some((content, algorithm, signature))
    };
    let Some((content, algorithm, signature)) = read() else { return false };
    // The algorithm stands within what is signed, too: a certificate's second or a list's first sequence in it.
    let mut within = Der::new(content).sequence().unwrap_or(Der::new(&[]));
    let inner = std::iter::from_fn(|| within.next()).find(|(tag, _)| *tag == SEQUENCE);
    let Ok(key) = RawPublicKeyEntity::try_from(key) else { return false };
    inner.is_some_and(|(_, inner)| inner == algorithm)
        && algorithms
            .iter()
            .filter(|one| one.signature_alg_id().as_ref() == algorithm)
            .any(|one| key.verify_signature(*one, content, signature).is_ok())
}

/// As webpki has it: where there are lists, the issuer needs one that is whole, its own, and in time.
fn unrevoked(
    cert: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    key: &SubjectPublicKeyInfoDer<'_>,
    lists: &[CertificateRevocationListDer<'_>],
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    now: UnixTime,
) -> Result<(), CertificateError> {
    if lists.is_empty() {
        return Ok(());
    }
    let usage = issuer.key_usage().ok().flatten();
    let may_list = usage.is_none_or(|usage| usage.value.crl_sign());
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let mut failure = CertificateError::UnknownRevocationStatus;
    for der in lists.iter().filter(|_| may_list) {
        let Ok((_, list)) = CertificateRevocationList::from_der(der) else { continue };
        let strange = |one: &X509Extension<'_>| one.critical || one.oid.to_id_string() == PARTIAL_LIST;
        if list.issuer().as_raw() != issuer.subject().as_raw()
            || list.extensions().iter().any(strange)
            || !is_signed(der, key, algorithms)
        {
            continue;
        }
        if list.next_update().is_none_or(|next| now > next.timestamp()) {
            failure = CertificateError::ExpiredRevocationList;
            continue;
        }
        let mut revoked = list.iter_revoked_certificates();
        return match revoked.any(|one| one.raw_serial() == cert.raw_serial()) {
            true => Err(CertificateError::Revoked),
            false => Ok(()),
        };
    }
    Err(failure)
}

/// The check that whoever shows the certificate holds its key, in TLS 1.2.
pub(crate) fn verify_tls12(
    message: &[u8],
    cert: &[u8],
    signed: &DigitallySignedStruct,
    supported: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let cert = parsed(cert).ok_or(CertificateError::BadEncoding)?;
    let key = SubjectPublicKeyInfoDer::from(cert.public_key().raw);
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let of_scheme = supported.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
    let mut algorithms = of_scheme.flat_map(|(_, algorithms)| algorithms.iter());
    match algorithms.any(|one| key.verify_signature(*one, message, signed.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// As [`verify_tls12`], in TLS 1.3, where fewer schemes are allowed.
pub(crate) fn verify_tls13(
    message: &[u8],
    cert: &[u8],
    signed: &DigitallySignedStruct,
    supported: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let cert = parsed(cert).ok_or(CertificateError::BadEncoding)?;
    let key = SubjectPublicKeyInfoDer::from(cert.public_key().raw);
    rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, supported)
}
