//! Certificates made on the spot.
//!
//! Owns: key pairs, self-signed or privately signed certificates and revocation lists, as PEM and as files.
//! Never: is good for anything but tests, the demo and the benchmark.
//! Driven by: tests of TLS listeners and upstreams, `xtask`.
//! Why: checked-in certificates expire, and checked-in keys are found by scanners.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize,
    SerialNumber, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A certificate chain with its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    chain: String,
    key: String,
    /// What a client has to trust.
    root: String,
    serial: u64,
}

impl Certificate {
    /// Self-signed, ECDSA P-256, for `names` (host names or IP addresses).
    ///
    /// # Panics
    /// When a name is not one.
    #[must_use]
    pub fn p256(names: &[&str]) -> Self {
        Self::self_signed(names, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("P-256 is supported"))
    }

    /// Self-signed, RSA with 2,048 bits.
    ///
    /// # Panics
    /// When a name is not one.
    #[must_use]
    pub fn rsa2048(names: &[&str]) -> Self {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("RSA is supported");
        Self::self_signed(names, key)
    }

    fn self_signed(names: &[&str], key: KeyPair) -> Self {
        let params = params(names);
        let cert = params.self_signed(&key).expect("the parameters are complete");
        Self { chain: cert.pem(), key: key.serialize_pem(), root: cert.pem(), serial: serial_of(&params) }
    }

    /// P-256, signed by an authority of its own, whose certificate is [`Certificate::root_pem`]. With `in_chain` the chain
    /// carries the authority too.
    ///
    /// # Panics
    /// When a name is not one.
    #[must_use]
    pub fn signed_by_authority(names: &[&str], in_chain: bool) -> Self {
        let authority = Authority::root("Test authority");
        let signed = authority.certificate(names);
        let chain = if in_chain { format!("{}{}", signed.chain, authority.root) } else { signed.chain };
        Self { chain, ..signed }
    }

    /// The certificate chain, leaf first.
    #[must_use]
    pub fn chain_pem(&self) -> &str {
        &self.chain
    }

    /// The private key (PKCS#8).
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// This chain with the key of another certificate: what a thief who has no key can show.
    #[must_use]
    pub fn with_key_of(&self, other: &Self) -> Self {
        Self { key: other.key.clone(), ..self.clone() }
    }

    /// What a client has to trust to accept the chain.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root
    }

    /// The number of the certificate.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Chain and key in one text, as HAProxy's `crt` wants it.
    #[must_use]
    pub fn bundle_pem(&self) -> String {
        format!("{}{}", self.chain, self.key)
    }

    /// Writes `NAME.crt`, `NAME.key` and `NAME.pem` (both) into `dir`, and says where.
    ///
    /// # Panics
    /// When `dir` cannot be written.
    pub fn write(&self, dir: &Path, name: &str) -> CertificateFiles {
        let files = CertificateFiles {
            chain: dir.join(format!("{name}.crt")),
            key: dir.join(format!("{name}.key")),
            bundle: dir.join(format!("{name}.pem")),
        };
        std::fs::write(&files.chain, &self.chain).expect("the directory can be written");
        std::fs::write(&files.key, &self.key).expect("the directory can be written");
        std::fs::write(&files.bundle, self.bundle_pem()).expect("the directory can be written");
        files
    }

    pub(crate) fn chain_der(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes()).map(|c| c.expect("rcgen writes PEM")).collect()
    }

    pub(crate) fn root_der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.root.as_bytes()).expect("rcgen writes PEM")
    }

    pub(crate) fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("rcgen writes PEM")
    }
}

/// Where [`Certificate::write`] put its three files.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The chain.
    pub chain: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// Chain and key in one file.
    pub bundle: PathBuf,
}

/// Somebody who signs certificates: a root, or one that is signed itself.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    serial: u64,
    /// Its own certificate and those above it, without the root.
    chain: String,
    root: String,
}

impl Authority {
    /// A self-signed one.
    ///
    /// # Panics
    /// Never: the parameters are complete.
    #[must_use]
    pub fn root(name: &str) -> Self {
        let (params, key) = Self::params(name);
        let root = params.self_signed(&key).expect("the parameters are complete").pem();
        Self { issuer: Issuer::new(params, key), serial: 0, chain: String::new(), root }
    }

    /// One that this one signs.
    ///
    /// # Panics
    /// Never: the parameters are complete.
    #[must_use]
    pub fn intermediate(&self, name: &str) -> Self {
        let (params, key) = Self::params(name);
        let own = params.signed_by(&key, &self.issuer).expect("the parameters are complete").pem();
        let serial = serial_of(&params);
        let chain = format!("{own}{}", self.chain);
        Self { issuer: Issuer::new(params, key), serial, chain, root: self.root.clone() }
    }

    /// A certificate that this one signs; its chain carries the intermediates.
    ///
    /// # Panics
    /// When a name is not one.
    #[must_use]
    pub fn certificate(&self, names: &[&str]) -> Certificate {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("P-256 is supported");
        let params = params(names);
        let leaf = params.signed_by(&key, &self.issuer).expect("the parameters are complete").pem();
        Certificate {
            chain: format!("{leaf}{}", self.chain),
            key: key.serialize_pem(),
            root: self.root.clone(),
            serial: serial_of(&params),
        }
    }

    /// Its list of revoked certificates by serial number, as PEM; `in_time`: it has not expired.
    ///
    /// # Panics
    /// Never: the parameters are complete.
    #[must_use]
    pub fn revocations(&self, serials: &[u64], in_time: bool) -> String {
        let revoked_certs = serials
            .iter()
            .map(|serial| RevokedCertParams {
                serial_number: SerialNumber::from(*serial),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            })
            .collect();
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(if in_time { 4000 } else { 2021 }, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let signed = list.signed_by(&self.issuer).expect("the parameters are complete");
        signed.pem().expect("a list can be written as PEM")
    }

    /// The number of its certificate.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Its certificate and those above it, without the root.
    #[must_use]
    pub fn chain_pem(&self) -> &str {
        &self.chain
    }

    /// The root above it.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root
    }

    fn params(name: &str) -> (CertificateParams, KeyPair) {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("P-256 is supported");
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        (params, key)
    }
}

/// The first certificate or revocation list of a PEM text, DER.
#[must_use]
pub fn der_of(pem: &str) -> Option<Vec<u8>> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map(|der| der.to_vec());
    let list = || CertificateRevocationListDer::from_pem_slice(pem.as_bytes()).map(|der| der.to_vec());
    certificate.or_else(|_| list()).ok()
}

fn serial_of(params: &CertificateParams) -> u64 {
    let number = params.serial_number.as_ref().map(SerialNumber::to_bytes).unwrap_or_default();
    number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Numbers of this process's certificates.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let common = names.first().cloned().unwrap_or_else(|| "weir test".into());
    let mut params = CertificateParams::new(names).expect("names are host names or addresses");
    params.distinguished_name.push(DnType::CommonName, common);
    params.serial_number = Some(SerialNumber::from(NEXT_SERIAL.fetch_add(1, Ordering::Relaxed)));
    params
}
