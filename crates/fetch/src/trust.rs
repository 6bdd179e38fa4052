//! Who vouches for a server, and what a client shows of itself.

use crate::Error;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::sync::Arc;
use weir_expr::authorities;

/// Who vouches for a server that is asked over TLS.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The authorities that the system trusts.
    #[default]
    System,
    /// Those of a PEM file's bytes, and no others. With a certificate of our own, where the server wants one.
    Authorities {
        /// One or several certificates in PEM; empty means the system's.
        pem: Vec<u8>,
        /// Chain and key in PEM, shown to servers that ask for a certificate.
        identity: Option<(Vec<u8>, Vec<u8>)>,
    },
    /// Nobody: any certificate is taken. Only where the configuration says so in as many words.
    Anybody,
}

impl Trust {
    pub(crate) fn config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Trust(error.to_string()))?;
        let (roots, identity) = match self {
            Self::System => (system()?, None),
            Self::Authorities { pem, identity } => {
                let roots = if pem.is_empty() { system()? } else { read(pem)? };
                (roots, identity.as_ref())
            }
            Self::Anybody => {
                let verifier = Arc::new(Unverified(provider));
                return Ok(builder
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
                    .with_no_client_auth());
            }
        };
        let builder = builder.with_root_certificates(roots);
        let Some((chain, key)) = identity else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| Error::Trust(format!("the client certificate's key cannot be read: {error}")))?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| Error::Trust(format!("the client certificate cannot be used: {error}")))
    }
}

/// The system's authorities; none where it has no file of them, so that only servers in clear can be asked.
fn system() -> Result<RootCertStore, Error> {
    let Some(pem) = authorities::SYSTEM.iter().find_map(|path| std::fs::read(path).ok()) else {
        return Ok(RootCertStore::empty());
    };
    read(&pem)
}

fn read(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let all = certificates(pem)?;
    // A bundle may have one that the library does not know: the others still count.
    let (taken, _) = roots.add_parsable_certificates(all);
    if taken == 0 {
        return Err(Error::Trust("none of the authorities' certificates can be read".to_owned()));
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Trust(format!("a certificate cannot be read: {error}")))?;
    if all.is_empty() {
        return Err(Error::Trust("there is no certificate in PEM".to_owned()));
    }
    Ok(all)
}

/// Takes any certificate; the handshake's signature is still verified.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
