//! Certificates made on the spot.
//!
//! Owns: key pairs and self-signed or privately signed certificates, as PEM and as files.
//! Never: is good for anything but tests, the demo and the benchmark.
//! Driven by: tests of TLS listeners and upstreams, `xtask`.
//! Why: checked-in certificates expire, and checked-in keys are found by scanners.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, RsaKeySize,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::path::{Path, PathBuf};

/// A certificate chain with its private key.
#[derive(Clone, Debug)]
pub struct Certificate {
    chain: String,
    key: String,
    /// What a client has to trust.
    root: String,
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
        let cert = params(names).self_signed(&key).expect("the parameters are complete");
        Self { chain: cert.pem(), key: key.serialize_pem(), root: cert.pem() }
    }

    /// P-256, signed by an authority of its own, whose certificate is [`Certificate::root_pem`]. With `in_chain` the chain
    /// carries the authority too.
    ///
    /// # Panics
    /// When a name is not one.
    #[must_use]
    pub fn signed_by_authority(names: &[&str], in_chain: bool) -> Self {
        let authority_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("P-256 is supported");
        let mut authority = params(&[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "Test authority");
        let root = authority.self_signed(&authority_key).expect("the parameters are complete").pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("P-256 is supported");
        let leaf = params(names).signed_by(&key, &issuer).expect("the parameters are complete").pem();
        let chain = if in_chain { format!("{leaf}{root}") } else { leaf };
        Self { chain, key: key.serialize_pem(), root }
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

    /// What a client has to trust to accept the chain.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root
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

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let common = names.first().cloned().unwrap_or_else(|| "weir test".into());
    let mut params = CertificateParams::new(names).expect("names are host names or addresses");
    params.distinguished_name.push(DnType::CommonName, common);
    params
}
