//! The client's side: TLS to upstreams.
//!
//! Owns: `ClientTls`, with the sessions it may resume.
//! Never: decides whether to verify; the configuration says so.
//! Driven by: `engine`'s upstream pools.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls_pki_types::ServerName;

use super::cert::{CertKey, read_pair};
use super::digest::{Digest, Digesting};
use super::error::{AcceptError, TlsConfigError, alerted};
use super::server::provider_for;
use super::session::Session;
use super::stream::TlsStream;
use super::suites::TlsVersion;
use super::trust::Trust;
use super::verify::{AnyServer, TrustedServer};
use crate::buf::Buf;
use crate::stream::Stream;

/// How a server's certificate is verified.
#[derive(Debug, Clone, Default)]
pub enum ServerVerify {
    /// Not at all (nginx's and HAProxy's default).
    #[default]
    Off,
    /// Against these authorities.
    Ca {
        /// What it is verified by.
        trust: Trust,
        /// Whether the certificate must be for the server's name.
        check_name: bool,
    },
}

/// Settings of a TLS client.
#[derive(Clone)]
pub struct ClientTlsConfig {
    /// Verification of the server.
    pub verify: ServerVerify,
    /// Send the server's name (RFC 6066, 3).
    pub send_name: bool,
    /// Own certificate, if the server asks for one (its names are not used).
    pub certificate: Option<CertKey>,
    /// Application protocols to offer.
    pub alpn: Vec<Vec<u8>>,
    /// Sessions kept for resumption; 0 for none.
    pub sessions: usize,
    /// Lowest version.
    pub min_version: TlsVersion,
    /// Highest version.
    pub max_version: TlsVersion,
    /// OpenSSL names of the TLS 1.2 suites; `None`: all.
    pub suites12: Option<Vec<String>>,
    /// Names of the TLS 1.3 suites; `None`: all.
    pub suites13: Option<Vec<String>>,
    /// Key exchange groups, the preferred one first; `None`: X25519, P-256, P-384.
    pub groups: Option<Vec<String>>,
}

impl Default for ClientTlsConfig {
    fn default() -> Self {
        Self {
            verify: ServerVerify::Off,
            send_name: true,
            certificate: None,
            alpn: Vec::new(),
            sessions: 256,
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            suites12: None,
            suites13: None,
            groups: None,
        }
    }
}

impl ClientTlsConfig {
    /// All that decides whom a connection trusts, what it shows of itself and what it speaks.
    fn digest(&self) -> Digest {
        // Taken apart, so that a setting that is added is not forgotten here.
        let Self {
            verify,
            send_name,
            certificate,
            alpn,
            sessions: _,
            min_version,
            max_version,
            suites12,
            suites13,
            groups,
        } = self;
        let mut digest = Digesting::of("client");
        match verify {
            ServerVerify::Off => digest.number(0),
            ServerVerify::Ca { trust, check_name } => {
                digest.number(1 + u64::from(*check_name));
                trust.write_into(&mut digest);
            }
        }
        digest.number(u64::from(*send_name));
        digest.optional(certificate.as_ref().map(|pair| &*pair.chain_pem));
        digest.optional(certificate.as_ref().map(|pair| &*pair.key_pem));
        digest.list(certificate.as_ref().map_or(&[][..], |pair| &pair.passwords));
        digest.list(alpn);
        digest.bytes(min_version.name().as_bytes());
        digest.bytes(max_version.name().as_bytes());
        for names in [suites12, suites13, groups] {
            digest.optional_list(names.as_deref());
        }
        digest.done()
    }
}

/// A TLS client's configuration, ready for use. Clones share it and its sessions.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    digest: Digest,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    /// Checks and builds.
    pub fn new(config: ClientTlsConfig) -> Result<Self, TlsConfigError> {
        let digest = config.digest();
        let (provider, versions) = provider_for(
            config.suites12.as_deref(),
            config.suites13.as_deref(),
            config.groups.as_deref(),
            (config.min_version, config.max_version),
        )?;
        let verifier: Arc<dyn ServerCertVerifier> = match &config.verify {
            ServerVerify::Off => Arc::new(AnyServer { provider: provider.clone() }),
            ServerVerify::Ca { trust, check_name } => {
                Arc::new(TrustedServer::new(&provider, trust, *check_name)?)
            }
        };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| TlsConfigError::Other(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut built = match &config.certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let loaded = read_pair(&provider, pair)?;
                let only = rustls::sign::SingleCertAndKey::from(loaded);
                builder.with_client_cert_resolver(Arc::new(only))
            }
        };
        built.alpn_protocols = config.alpn;
        built.enable_sni = config.send_name;
        built.resumption = match config.sessions {
            0 => Resumption::disabled(),
            sessions => Resumption::in_memory_sessions(sessions),
        };
        Ok(Self { config: Arc::new(built), digest })
    }

    /// The content of the settings: a connection that was opened with an equal one is as good as one opened now.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Performs the handshake with the server called `name` (a host name, or an IP address). A name that cannot be
    /// one is only an error when the certificate must match it. Has no time limit of its own.
    pub async fn connect(&self, stream: Stream, name: &str) -> io::Result<TlsStream> {
        let name = name.trim_start_matches('[').trim_end_matches([']', '.']);
        let name = ServerName::try_from(name.to_owned())
            .or_else(|_| ServerName::try_from(placeholder(name)))
            .map_err(io::Error::other)?;
        let connection =
            UnbufferedClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        let tls = TlsStream::new(stream, Session::client(connection), Buf::new(), None, Some(self.digest));
        match tls.handshake().await {
            Ok(()) => Ok(tls),
            Err(AcceptError::Io(error)) => Err(error),
            Err(AcceptError::Closed { .. }) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection in the TLS handshake",
            )),
            Err(alert @ AcceptError::Alert(_)) => Err(alerted(alert.to_string())),
            Err(other) => Err(io::Error::new(io::ErrorKind::InvalidData, other.to_string())),
        }
    }
}

/// A name that stands for one that is no host name (`my_pool`, a unix path): it matches no certificate, and keeps
/// the sessions of different pools apart.
fn placeholder(name: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("x{:016x}.invalid", hasher.finish())
}
