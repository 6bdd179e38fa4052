//! Certificates and keys: reading PEM, choosing by name, naming a client.
//!
//! Owns: `CertStore` (certificate choice by server name and key type), certificate facts for logs and headers.
//! Never: reads a file. Driven by: `server`, `client`, front ends (`cert_names`).
//! Why ECDSA first where a client supports both: its signature costs a third of RSA's.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::cert_view::{CertView, hex};
use super::der::{Der, public_key_bits, public_key_of};
use super::error::{CertFailure, TlsConfigError};
use super::key;

/// A certificate chain with its key, and the names it serves.
#[derive(Clone)]
pub struct CertKey {
    /// The chain, PEM, own certificate first.
    pub chain_pem: Vec<u8>,
    /// The private key, PEM (PKCS#8, PKCS#1 or SEC1), plain or encrypted.
    pub key_pem: Vec<u8>,
    /// Pass phrases to try in order, if the key is encrypted.
    pub passwords: Vec<Vec<u8>>,
    /// An OCSP response, DER, that clients which ask for one are shown with it.
    pub staple: Option<Vec<u8>>,
    /// Server names: exact, `*.example.org`, or `.example.org` (the name and all below).
    pub names: Vec<String>,
    /// Serves clients that ask for no name, or for one that is nobody's. Several defaults of different key types may
    /// stand side by side.
    pub default: bool,
}

/// All certificates of a PEM text, in order. Other blocks are skipped.
pub(crate) fn read_certs(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let certs = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsConfigError::BadPem(format!("{error:?}")))?;
    if certs.is_empty() { Err(TlsConfigError::NoCertificate) } else { Ok(certs) }
}

/// Chain and key from PEM, checked to belong together. Own certificates are sent, not judged: they may be of version 1,
/// or carry extensions that the library does not know, and it is the other side that has to like them.
pub(crate) fn read_pair(provider: &CryptoProvider, pair: &CertKey) -> Result<CertifiedKey, TlsConfigError> {
    let certs = read_certs(&pair.chain_pem)?;
    let Some(certified) = public_key_of(&certs[0]) else {
        return Err(TlsConfigError::BadCertificate("its public key is not to be found".into()));
    };
    let key = key::load(provider.key_provider, &pair.key_pem, &pair.passwords)?;
    let own = key.public_key();
    let own = own.as_ref().and_then(|own| public_key_bits(Der::new(own)));
    if own.is_some_and(|own| own != certified) {
        return Err(TlsConfigError::KeyMismatch);
    }
    Ok(CertifiedKey { ocsp: pair.staple.clone(), ..CertifiedKey::new(certs, key) })
}

impl CertKey {
    /// Reads chain and key, and whether they belong together; keeps nothing.
    pub fn check(&self) -> Result<(), TlsConfigError> {
        read_pair(&rustls::crypto::aws_lc_rs::default_provider(), self).map(drop)
    }
}

/// The DNS names that the first certificate of a PEM text is for: subject alternative names, or the common name
/// where there are none. For configurations that name no host beside the certificate.
pub fn cert_names(pem: &[u8]) -> Result<Vec<String>, TlsConfigError> {
    let certs = read_certs(pem)?;
    let (_, cert) = X509Certificate::from_der(&certs[0])
        .map_err(|error| TlsConfigError::BadCertificate(error.to_string()))?;
    let alternative = cert.subject_alternative_name().ok().flatten();
    let mut names: Vec<String> = alternative
        .map(|extension| &extension.value.general_names)
        .into_iter()
        .flatten()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        let common = cert.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        names.extend(common.map(str::to_ascii_lowercase));
    }
    Ok(names)
}

/// Certificates by name: exact, then the longest wildcard, then the default (those added first).
#[derive(Default)]
pub(crate) struct CertStore {
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// Keyed by what follows the star, with its dot: `.example.org`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
    default: Vec<Arc<CertifiedKey>>,
    /// Refuse clients that ask for a name that is not here, instead of using the default.
    pub(crate) strict: bool,
}

impl CertStore {
    /// Adds a pair under its names; without names it joins the default.
    pub(crate) fn add(&mut self, pair: Arc<CertifiedKey>, names: &[String], is_default: bool) {
        for name in names {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let list = if let Some(suffix) = name.strip_prefix('*') {
                self.wildcard.entry(suffix.to_owned()).or_default()
            } else if let Some(bare) = name.strip_prefix('.') {
                // nginx's `.example.org`: the name itself and everything below.
                self.exact.entry(bare.to_owned()).or_default().push(pair.clone());
                self.wildcard.entry(name).or_default()
            } else {
                self.exact.entry(name).or_default()
            };
            list.push(pair.clone());
        }
        if is_default {
            self.default.push(pair);
        }
    }

    fn candidates(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name else {
            return &self.default;
        };
        let name = name.to_ascii_lowercase();
        if let Some(list) = self.exact.get(&name) {
            return list;
        }
        if !self.wildcard.is_empty() {
            let dots = name.match_indices('.').map(|(at, _)| &name[at..]);
            for suffix in dots {
                if let Some(list) = self.wildcard.get(suffix) {
                    return list;
                }
            }
        }
        if self.strict { &[] } else { &self.default }
    }
}

fn pick(list: &[Arc<CertifiedKey>], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
    let usable = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
    let ecdsa = list.iter().find(|pair| pair.key.algorithm() == SignatureAlgorithm::ECDSA && usable(pair));
    ecdsa.or_else(|| list.iter().find(usable)).or_else(|| list.first()).cloned()
}

impl ResolvesServerCert for CertStore {
    fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        pick(self.candidates(hello.server_name()), hello.signature_schemes())
    }
}

impl fmt::Debug for CertStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CertStore({} names)", self.exact.len() + self.wildcard.len())
    }
}

/// The certificate that a client showed, and what became of its verification.
#[derive(Debug, Clone)]
pub struct ClientCert {
    /// The certificate, DER.
    pub der: Vec<u8>,
    /// Why it does not verify, if it does not.
    pub failure: Option<CertFailure>,
}

impl ClientCert {
    /// Facts of the certificate; `None` if it cannot be parsed.
    pub fn info(&self) -> Option<CertInfo> {
        CertInfo::from_der(&self.der)
    }
}

/// Facts of a certificate, for logs, variables and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertInfo {
    /// The subject, as RFC 2253 writes it (`CN=a,O=b`, last element first).
    pub subject: String,
    /// The issuer, likewise.
    pub issuer: String,
    /// The serial number, upper-case hexadecimal.
    pub serial: String,
    /// Start of validity, seconds since 1970.
    pub not_before: i64,
    /// End of validity, seconds since 1970.
    pub not_after: i64,
    /// SHA-1 of the DER form, lower-case hexadecimal (as nginx's `$ssl_client_fingerprint`).
    pub sha1: String,
}

impl CertInfo {
    /// Reads a DER certificate.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let view = CertView::from_der(der)?;
        Some(Self {
            subject: view.subject().rfc2253(),
            issuer: view.issuer().rfc2253(),
            serial: hex(view.serial(), b"0123456789ABCDEF"),
            not_before: view.begins(),
            not_after: view.ends(),
            sha1: hex(&view.sha1(), b"0123456789abcdef"),
        })
    }
}
