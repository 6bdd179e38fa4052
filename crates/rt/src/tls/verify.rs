//! Verification of the other side's certificate.
//!
//! Owns: the verifiers given to rustls.
//! Never: skips the check that the peer holds the key of the certificate it shows.
//! Driven by: `server` (client certificates), `client` (server certificates).
//! Why two of our own: nginx answers a request with 400 when a client certificate fails, so the handshake must go on;
//! and operators trust self-signed server certificates directly, which webpki alone refuses.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};

use super::cert::read_certs;
use super::error::TlsConfigError;

pub(crate) fn read_roots(
    pem: &[u8],
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsConfigError> {
    let certs = read_certs(pem)?;
    let mut roots = RootCertStore::empty();
    for cert in &certs {
        roots.add(cert.clone()).map_err(|error| TlsConfigError::BadAuthority(error.to_string()))?;
    }
    Ok((roots, certs))
}

pub(crate) fn read_crls(
    pem: Option<&[u8]>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsConfigError> {
    let Some(pem) = pem else {
        return Ok(Vec::new());
    };
    CertificateRevocationListDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsConfigError::BadAuthority(format!("revocation list: {error:?}")))
}

macro_rules! signatures_by_provider {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

/// Lets any certificate through, so that the request can be answered; `check` says what is wrong with it.
pub(crate) struct LenientClient {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) strict: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for LenientClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LenientClient")
    }
}

impl ClientCertVerifier for LenientClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.strict.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    signatures_by_provider!();
}

/// Verifies against roots, or by being one of the trusted certificates itself: webpki alone refuses a self-signed
/// certificate that may sign others, which is what `openssl req -x509` makes.
pub(crate) struct TrustedClient {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
}

impl fmt::Debug for TrustedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedClient")
    }
}

impl ClientCertVerifier for TrustedClient {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.inner.verify_client_cert(cert, chain, now) {
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.trusted.iter().any(|trusted| trusted == cert) && in_time(cert, now) =>
            {
                Ok(ClientCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Why a client's chain does not verify.
pub(crate) fn check_client(
    verifier: &dyn ClientCertVerifier,
    chain: &[CertificateDer<'_>],
) -> Option<String> {
    let (first, rest) = chain.split_first()?;
    verifier.verify_client_cert(first, rest, UnixTime::now()).err().map(|error| error.to_string())
}

/// Takes any server certificate (verification off).
pub(crate) struct AnyServer {
    pub(crate) provider: Arc<CryptoProvider>,
}

impl fmt::Debug for AnyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyServer")
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures_by_provider!();
}

/// Verifies against roots, or by being one of the trusted certificates itself; the name is checked if wanted.
pub(crate) struct TrustedServer {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
    pub(crate) check_name: bool,
}

impl fmt::Debug for TrustedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedServer")
    }
}

impl TrustedServer {
    fn name_ok(&self, cert: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !self.check_name {
            return Ok(());
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(cert)?, name)
    }
}

impl ServerCertVerifier for TrustedServer {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        match self.inner.verify_server_cert(cert, chain, name, ocsp, now) {
            Ok(verified) => Ok(verified),
            // The chain is checked before the name, so this is all that is wrong.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !self.check_name =>
            {
                Ok(ServerCertVerified::assertion())
            }
            Err(_) if self.trusted.iter().any(|trusted| trusted == cert) && in_time(cert, now) => {
                self.name_ok(cert, name).map(|()| ServerCertVerified::assertion())
            }
            Err(error) => Err(error),
        }
    }

    signatures_by_provider!();
}

fn in_time(cert: &CertificateDer<'_>, now: UnixTime) -> bool {
    super::cert::CertInfo::from_der(cert).is_some_and(|info| {
        let now = now.as_secs() as i64;
        info.not_before <= now && now <= info.not_after
    })
}
