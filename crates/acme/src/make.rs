//! What is made here of keys: requests for certificates, placeholders, and certificates that answer a challenge.
//!
//! Owns: those, and what a chain says of itself: its life, its names, who is at its top.
//! Never: keeps anything.

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, PublicKeyData as _, RsaKeySize};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use weir_control::changes::KeyPair;
use weir_expr::settings::KeyKind;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Error;
use crate::account::encode;

/// How many days a placeholder is good for.
const PLACEHOLDER: i64 = 90;

/// A private key of an order.
pub(crate) fn key(kind: KeyKind) -> Result<rcgen::KeyPair, Error> {
    let made = match kind {
        KeyKind::Ecdsa256 => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        KeyKind::Ecdsa384 => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
        KeyKind::Ecdsa521 => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512),
        KeyKind::Rsa2048 => rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyKind::Rsa3072 => rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
        KeyKind::Rsa4096 => rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
    };
    made.map_err(|error| Error::Setup(format!("a key cannot be made: {error}")))
}

fn parameters(names: &[String]) -> Result<CertificateParams, Error> {
    let mut parameters = CertificateParams::new(names).map_err(|error| {
        Error::Setup(format!("a certificate for {} cannot be asked for: {error}", names.join(", ")))
    })?;
    parameters.distinguished_name = DistinguishedName::new();
    Ok(parameters)
}

/// A request for a certificate (RFC 2986), in base64url.
pub(crate) fn request(names: &[String], key: &rcgen::KeyPair) -> Result<String, Error> {
    let made = parameters(names)?.serialize_request(key);
    let made = made.map_err(|error| Error::Setup(format!("a certificate cannot be asked for: {error}")))?;
    Ok(encode(made.der()))
}

/// What is shown until there is a certificate: signed by itself, so that no client takes it for one.
pub(crate) fn placeholder(names: &[String]) -> Result<KeyPair, Error> {
    let key = key(KeyKind::Ecdsa256)?;
    let mut parameters = parameters(names)?;
    parameters.distinguished_name.push(DnType::CommonName, "Weir, until there is a certificate");
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i64| {
        let day = today.saturating_add(jiff::Span::new().days(days));
        rcgen::date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    (parameters.not_before, parameters.not_after) = (day(-1), day(PLACEHOLDER));
    signed(&parameters, &key)
}

/// What answers a challenge TLS-ALPN-01 (RFC 8737, 3).
pub(crate) fn proof(name: &str, key_authorization: &str) -> Result<KeyPair, Error> {
    let key = key(KeyKind::Ecdsa256)?;
    let mut parameters = parameters(&[name.to_owned()])?;
    let hash = digest(&SHA256, key_authorization.as_bytes());
    parameters.custom_extensions.push(CustomExtension::new_acme_identifier(hash.as_ref()));
    signed(&parameters, &key)
}

fn signed(parameters: &CertificateParams, key: &rcgen::KeyPair) -> Result<KeyPair, Error> {
    let made = parameters.self_signed(key);
    let made = made.map_err(|error| Error::Setup(format!("a certificate cannot be made: {error}")))?;
    Ok(KeyPair { chain: made.pem(), key: key.serialize_pem() })
}

/// What a chain says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// From and to, in seconds since 1970.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The names that it is for, in lower case.
    pub(crate) names: Vec<String>,
    /// What the authority knows it by when it is asked about renewals (RFC 9773, 4.1).
    pub(crate) id: Option<String>,
    /// The names of those who issued a part of the chain, topmost last.
    pub(crate) issuers: Vec<String>,
    /// The public key, as it is signed.
    public: Vec<u8>,
}

impl Life {
    /// Reads a chain.
    pub(crate) fn of(chain: &str) -> Result<Self, Error> {
        let unreadable = |why: &str| Error::Unexpected(format!("a certificate that cannot be read: {why}"));
        let all: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable(&error.to_string()))?;
        let read = |der: &CertificateDer<'_>| {
            let (_, one) = X509Certificate::from_der(der).map_err(|error| unreadable(&error.to_string()))?;
            let names =
                one.issuer().iter_common_name().filter_map(|name| name.as_str().ok().map(str::to_owned));
            Ok::<_, Error>(names.collect::<Vec<_>>())
        };
        let issuers: Vec<Vec<String>> = all.iter().map(read).collect::<Result<_, _>>()?;
        let first = all.first().ok_or_else(|| unreadable("there is none"))?;
        let (_, leaf) = X509Certificate::from_der(first).map_err(|error| unreadable(&error.to_string()))?;
        let mut authority = None;
        let mut names = Vec::new();
        for extension in leaf.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    authority = id.key_identifier.as_ref().map(|id| encode(id.0));
                }
                ParsedExtension::SubjectAlternativeName(all) => {
                    let dns = all.general_names.iter().filter_map(|name| match name {
                        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                        _ => None,
                    });
                    names.extend(dns);
                }
                _ => {}
            }
        }
        let serial = encode(leaf.raw_serial());
        Ok(Self {
            from: leaf.validity().not_before.timestamp(),
            to: leaf.validity().not_after.timestamp(),
            names,
            id: authority.map(|authority| format!("{authority}.{serial}")),
            issuers: issuers.concat(),
            public: leaf.public_key().raw.to_vec(),
        })
    }

    /// Whether it is for all of these names.
    pub(crate) fn covers(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    /// Whether it belongs to a key.
    pub(crate) fn belongs_to(&self, key: &rcgen::KeyPair) -> bool {
        key.subject_public_key_info() == self.public
    }

    /// When it may be renewed at all: an order costs the authority something.
    pub(crate) fn earliest(&self) -> i64 {
        self.from + ((self.to - self.from).max(0) / 20).min(24 * 3600)
    }

    /// When it is to be renewed if nobody says otherwise: two thirds into its life.
    pub(crate) fn due(&self) -> i64 {
        self.from + (self.to - self.from).max(0) / 3 * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_for_its_names_and_its_key() {
        let names = ["a.example".to_owned(), "b.example".to_owned()];
        let pair = placeholder(&names).unwrap();
        let life = Life::of(&pair.chain).unwrap();
        assert!(life.covers(&names) && !life.covers(&["c.example".into()]));
        assert!(life.belongs_to(&rcgen::KeyPair::from_pem(&pair.key).unwrap()));
        assert!(!life.belongs_to(&key(KeyKind::Ecdsa256).unwrap()));
        assert_eq!(life.due() - life.from, (life.to - life.from) / 3 * 2);
    }

    #[test]
    fn a_proof_has_the_extension_that_is_looked_at() {
        let pair = proof("a.example", "token.thumbprint").unwrap();
        let der = CertificateDer::from_pem_slice(pair.chain.as_bytes()).unwrap();
        // 1.3.6.1.5.5.7.1.31, critical.
        let oid = [0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 1, 31, 0x01, 0x01, 0xff];
        assert!(der.windows(oid.len()).any(|part| part == oid));
    }

    #[test]
    fn what_is_no_chain_is_an_error() {
        assert!(Life::of("").is_err());
        assert!(Life::of("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_err());
    }
}
