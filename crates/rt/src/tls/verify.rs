//! Verification of the other side's certificate.
//!
//! Owns: the verifiers given to rustls.
//! Never: skips the check that the peer holds the key of the certificate it shows, whatever else is forgiven.
//! Driven by: `server` (client certificates), `client` (server certificates).
//! Why two of our own: nginx answers a request with 400 when a client certificate fails, so the handshake must go on;
//! and operators trust self-signed server certificates directly, which webpki alone refuses.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::error::{CertFailure, TlsConfigError};
use super::trust::{Authorities, Trust};
use super::version1;

macro_rules! signatures_by_provider {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            match version1::is(cert) {
                true => version1::verify_tls12(message, cert, dss, algorithms),
                false => rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms),
            }
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            match version1::is(cert) {
                true => version1::verify_tls13(message, cert, dss, algorithms),
                false => rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms),
            }
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

fn unbuilt(error: VerifierBuilderError) -> TlsConfigError {
    match error {
        VerifierBuilderError::InvalidCrl(error) => TlsConfigError::BadList(format!("{error:?}")),
        other => TlsConfigError::BadAuthority(other.to_string()),
    }
}

impl Trust {
    /// Reads it all, and keeps nothing.
    pub fn check(&self) -> Result<(), TlsConfigError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        TrustedClient::new(&provider, self, false).map(drop)
    }
}

/// Lets any certificate through, so that the request can be answered; `strict` says what is wrong with it.
pub(crate) struct LenientClient {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) strict: Arc<TrustedClient>,
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

/// Verifies as a [`Trust`] says.
pub(crate) struct TrustedClient {
    pub(crate) provider: Arc<CryptoProvider>,
    /// `None`: there is no authority.
    inner: Option<Arc<dyn ClientCertVerifier>>,
    pub(crate) authorities: Authorities,
}

impl TrustedClient {
    pub(crate) fn new(
        provider: &Arc<CryptoProvider>,
        trust: &Trust,
        required: bool,
    ) -> Result<Self, TlsConfigError> {
        let authorities = Authorities::read(trust)?;
        if authorities.anchors.is_empty() {
            return Ok(Self { provider: provider.clone(), inner: None, authorities });
        }
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(authorities.roots.clone(), provider.clone());
        if !authorities.crls.is_empty() {
            builder = builder.with_crls(authorities.crls.clone()).enforce_revocation_expiration();
        }
        if !required {
            builder = builder.allow_unauthenticated();
        }
        let inner = builder.build().map_err(unbuilt)?;
        Ok(Self { provider: provider.clone(), inner: Some(inner), authorities })
    }

    /// Why a client's chain (certificate first) does not verify.
    pub(crate) fn failure(&self, chain: &[CertificateDer<'_>]) -> Option<CertFailure> {
        let (first, rest) = chain.split_first()?;
        let now = UnixTime::now();
        let error = self.verify_client_cert(first, rest, now).err()?;
        Some(self.authorities.failure(chain, now, &error))
    }
}

impl fmt::Debug for TrustedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedClient")
    }
}

impl ClientCertVerifier for TrustedClient {
    fn offer_client_auth(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.offer_client_auth())
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.client_auth_mandatory())
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.as_ref().map_or(&[], |inner| inner.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if version1::is(cert) {
            let algorithms = &self.provider.signature_verification_algorithms;
            let Authorities { anchors, crls, .. } = &self.authorities;
            return version1::verify(cert, anchors, crls, algorithms, now)
                .map(|()| ClientCertVerified::assertion())
                .map_err(Error::from);
        }
        let Some(inner) = &self.inner else { return Err(CertificateError::UnknownIssuer.into()) };
        let issuers = self.authorities.with_issuers(chain);
        match inner.verify_client_cert(cert, &issuers, now) {
            Ok(verified) => {
                let usage = webpki::KeyUsage::client_auth();
                self.authorities.near_enough(&self.provider, cert, &issuers, now, usage).map(|()| verified)
            }
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.authorities.holds(cert, now) =>
            {
                Ok(ClientCertVerified::assertion())
            }
            Err(error) => Err(error),
        }
    }

    signatures_by_provider!();
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

/// Verifies as a [`Trust`] says; the name is checked if wanted.
pub(crate) struct TrustedServer {
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    pub(crate) authorities: Authorities,
    pub(crate) check_name: bool,
}

impl TrustedServer {
    pub(crate) fn new(
        provider: &Arc<CryptoProvider>,
        trust: &Trust,
        check_name: bool,
    ) -> Result<Self, TlsConfigError> {
        let authorities = Authorities::read(trust)?;
        let mut builder =
            WebPkiServerVerifier::builder_with_provider(authorities.roots.clone(), provider.clone());
        if !authorities.crls.is_empty() {
            builder = builder.with_crls(authorities.crls.clone()).enforce_revocation_expiration();
        }
        let inner = builder.build().map_err(unbuilt)?;
        Ok(Self { provider: provider.clone(), inner, authorities, check_name })
    }

    fn name_ok(&self, cert: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !self.check_name {
            return Ok(());
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(cert)?, name)
    }
}

impl fmt::Debug for TrustedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedServer")
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
        let issuers = self.authorities.with_issuers(chain);
        match self.inner.verify_server_cert(cert, &issuers, name, ocsp, now) {
            Ok(_) => {}
            // The chain is checked before the name, so this is all that is wrong.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !self.check_name => {}
            Err(_) if self.authorities.holds(cert, now) => {
                return self.name_ok(cert, name).map(|()| ServerCertVerified::assertion());
            }
            Err(error) => return Err(error),
        }
        let usage = webpki::KeyUsage::server_auth();
        self.authorities.near_enough(&self.provider, cert, &issuers, now, usage)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures_by_provider!();
}
