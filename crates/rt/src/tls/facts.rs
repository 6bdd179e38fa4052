//! What certificates and lists of revocations say, for people: in OpenSSL's words.
//!
//! Owns: reading PEM texts that hold several, and the forms of what is shown.
//! Never: judges; `trust` and `verify` do.
//! Driven by: whoever shows what is in use (HAProxy's `show ssl cert` and its kin).

use std::net::IpAddr;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::cert_view::{CertName, CertView, hex, named_algorithm, printed_time};

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertFacts {
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// When its validity begins: `Nov  6 08:49:37 1994 GMT`.
    pub not_before: String,
    /// When it ends.
    pub not_after: String,
    /// Alternative names: `DNS:a.test`.
    pub names: Vec<String>,
    /// Kind and bits of its key: `RSA2048`, `EC256`.
    pub key: String,
    /// SHA-1 of its DER form, in hexadecimal.
    pub sha1: String,
    /// Whom it is about: `/C=…/CN=…`.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
}

/// What a list of revocations says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFacts {
    /// Its version, from 1.
    pub version: u32,
    /// The algorithm of its signature.
    pub algorithm: String,
    /// Who made it.
    pub issuer: String,
    /// When it was made.
    pub made: String,
    /// When the next one comes, if that is said.
    pub next: Option<String>,
    /// Serial numbers in hexadecimal, and when each was revoked.
    pub revoked: Vec<(String, String)>,
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// The certificates of a PEM text, in order; `None`: it holds none, or one that cannot be read.
pub fn cert_facts(pem: &[u8]) -> Option<Vec<CertFacts>> {
    let all = CertificateDer::pem_slice_iter(pem).map(|der| facts_of(&der.ok()?));
    all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

fn facts_of(der: &[u8]) -> Option<CertFacts> {
    let view = CertView::from_der(der)?;
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let lossy = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
    Some(CertFacts {
        serial: hex(view.serial(), UPPER),
        not_before: view.not_before_text(),
        not_after: view.not_after_text(),
        names: names.filter_map(name_of).collect(),
        key: key_of(&certificate),
        sha1: hex(&view.sha1(), UPPER),
        subject: lossy(view.subject().one_line()),
        issuer: lossy(view.issuer().one_line()),
    })
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("DNS:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("email:{name}")),
        GeneralName::URI(name) => Some(format!("URI:{name}")),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok()?;
            Some(format!("IP Address:{ip}"))
        }
        _ => None,
    }
}

fn key_of(certificate: &X509Certificate<'_>) -> String {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA{}", key.key_size()),
        Ok(PublicKey::EC(point)) => format!("EC{}", point.key_size()),
        Ok(PublicKey::DSA(_)) => "DSA".to_owned(),
        _ => certificate.public_key().algorithm.algorithm.to_id_string(),
    }
}

/// The lists of a PEM text, in order; `None`: it holds none, or one that cannot be read.
pub fn list_facts(pem: &[u8]) -> Option<Vec<ListFacts>> {
    let all = CertificateRevocationListDer::pem_slice_iter(pem).map(|der| list_of(&der.ok()?));
    all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

fn list_of(der: &[u8]) -> Option<ListFacts> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    let algorithm = &list.signature_algorithm.algorithm;
    let algorithm = named_algorithm(algorithm).map_or_else(|| algorithm.to_id_string(), long_name);
    let serial = |bytes: &[u8]| match bytes {
        [0, rest @ ..] if !rest.is_empty() => hex(rest, UPPER),
        bytes => hex(bytes, UPPER),
    };
    Some(ListFacts {
        version: list.version().map_or(1, |version| version.0 + 1),
        algorithm,
        issuer: String::from_utf8_lossy(&CertName::of(list.issuer()).one_line()).into_owned(),
        made: printed_time(list.last_update()),
        next: list.next_update().map(printed_time),
        revoked: list
            .iter_revoked_certificates()
            .map(|one| (serial(one.raw_serial()), printed_time(one.revocation_date)))
            .collect(),
    })
}

/// OpenSSL's long name of an algorithm, by its short one.
fn long_name(short: &'static str) -> String {
    match short.strip_prefix("RSA-") {
        Some(digest) => format!("{}WithRSAEncryption", digest.to_ascii_lowercase()),
        None => short.to_owned(),
    }
}
