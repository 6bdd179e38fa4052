//! TLS for the kit's own clients and origins.
//!
//! Owns: rustls configurations that pin versions, names, ALPN and resumption.
//! Never: is the TLS under test (that runs in another process; `programs::openssl` gives a second opinion).
//! Driven by: `Client::tls`, `Origin::tls`, the benchmark's handshake client.

use crate::cert::Certificate;
use crate::wire::Wire;
use rustls::client::Resumption;
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::{
    CertificateCompressionAlgorithm, ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion,
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use rustls_pki_types::ServerName;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// How a client speaks TLS.
#[derive(Clone)]
pub struct TlsOptions {
    root: Certificate,
    name: String,
    alpn: Vec<Vec<u8>>,
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
    resumption: Option<Resumption>,
    early: bool,
    unpacker: Option<&'static Unpacker>,
    identity: Option<Certificate>,
    /// Made once and shared by clones: rustls resumes a session only under the very configuration that it was stored by.
    built: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl TlsOptions {
    /// Trusts `certificate`'s root, asks for `localhost`, and never resumes.
    #[must_use]
    pub fn trusting(certificate: &Certificate) -> Self {
        Self {
            root: certificate.clone(),
            name: "localhost".into(),
            alpn: Vec::new(),
            versions: vec![&rustls::version::TLS13, &rustls::version::TLS12],
            resumption: None,
            early: false,
            unpacker: None,
            identity: None,
            built: Arc::default(),
        }
    }

    /// The name to ask for (SNI) and to find in the certificate.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Protocols to offer, the preferred one first.
    #[must_use]
    pub fn alpn(mut self, protocols: &[&str]) -> Self {
        self.built = Arc::default();
        self.alpn = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        self
    }

    /// Speaks TLS 1.2 only.
    #[must_use]
    pub fn only_tls12(mut self) -> Self {
        self.built = Arc::default();
        self.versions = vec![&rustls::version::TLS12];
        self
    }

    /// Speaks TLS 1.3 only.
    #[must_use]
    pub fn only_tls13(mut self) -> Self {
        self.built = Arc::default();
        self.versions = vec![&rustls::version::TLS13];
        self
    }

    /// Remembers sessions; clones of this value share the memory, so the next connection of any of them may resume.
    #[must_use]
    pub fn resuming(mut self) -> Self {
        self.built = Arc::default();
        self.resumption = Some(Resumption::in_memory_sessions(64));
        self
    }

    /// As [`TlsOptions::resuming`], over TLS 1.3 alone, for clients that send early data.
    #[must_use]
    pub fn early(self) -> Self {
        let mut options = self.only_tls13().resuming();
        options.early = true;
        options
    }

    /// Takes certificates that this algorithm (`zlib` or `brotli`) has packed, and counts them. `unpack` fills its second
    /// argument.
    #[must_use]
    pub fn unpacking(mut self, algorithm: &str, unpack: Unpack) -> (Self, &'static AtomicUsize) {
        self.built = Arc::default();
        let algorithm = match algorithm {
            "zlib" => CertificateCompressionAlgorithm::Zlib,
            _ => CertificateCompressionAlgorithm::Brotli,
        };
        // The library keeps such things for as long as the process lives.
        let unpacker = Box::leak(Box::new(Unpacker { algorithm, unpack, count: AtomicUsize::new(0) }));
        self.unpacker = Some(unpacker);
        (self, &unpacker.count)
    }

    /// Presents a client certificate when asked.
    #[must_use]
    pub fn identity(mut self, certificate: &Certificate) -> Self {
        self.built = Arc::default();
        self.identity = Some(certificate.clone());
        self
    }

    /// The rustls configuration that these options describe.
    ///
    /// # Panics
    /// When the certificates cannot be used.
    #[must_use]
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(self.built.get_or_init(|| Arc::new(self.build())))
    }

    fn build(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.root_der()).expect("the kit's certificates can be trusted");
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&self.versions)
            .expect("the versions exist")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(id) => {
                // Not `with_client_auth_cert`: whether the key fits is what a test may be about.
                let key =
                    provider().key_provider.load_private_key(id.key_der()).expect("the kit's keys are keys");
                let pair = rustls::sign::CertifiedKey::new(id.chain_der(), key);
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)))
            }
        };
        config.enable_early_data = self.early;
        config.cert_decompressors =
            self.unpacker.iter().map(|unpacker| *unpacker as &dyn CertDecompressor).collect();
        config.alpn_protocols.clone_from(&self.alpn);
        config.resumption = self.resumption.clone().unwrap_or_else(Resumption::disabled);
        config
    }

    /// The first message of a client with these options, as it goes over the wire.
    ///
    /// # Panics
    /// When no client can be made of them.
    #[must_use]
    pub fn hello(&self) -> Vec<u8> {
        let mut client = ClientConnection::new(self.client_config(), self.server_name())
            .expect("the options make a client");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("a vector takes everything");
        bytes
    }

    /// The server name these options ask for.
    ///
    /// # Panics
    /// When it is not a name.
    #[must_use]
    pub fn server_name(&self) -> ServerName<'static> {
        ServerName::try_from(self.name.clone()).expect("the name is a host name or an address")
    }
}

/// Unpacks its first argument into its second; false: it cannot.
pub type Unpack = fn(&[u8], &mut [u8]) -> bool;

#[derive(Debug)]
struct Unpacker {
    algorithm: CertificateCompressionAlgorithm,
    unpack: Unpack,
    count: AtomicUsize,
}

impl CertDecompressor for Unpacker {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        self.count.fetch_add(1, Ordering::SeqCst);
        if (self.unpack)(input, output) { Ok(()) } else { Err(DecompressionFailed) }
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.algorithm
    }
}

/// What a handshake agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// The protocol version.
    pub version: Option<ProtocolVersion>,
    /// Full, resumed, …
    pub kind: Option<HandshakeKind>,
    /// The protocol that ALPN chose.
    pub alpn: Option<String>,
    /// The suite's name.
    pub suite: String,
    /// The server's leaf certificate, DER.
    pub leaf: Vec<u8>,
}

/// Shakes hands as a client over `tcp`, whose time limits are the caller's.
///
/// # Errors
/// When the handshake fails; the error is rustls' own, inside [`io::Error`].
pub fn connect(
    tcp: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<(StreamOwned<ClientConnection, TcpStream>, Session)> {
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    let session = Session {
        version: stream.conn.protocol_version(),
        kind: stream.conn.handshake_kind(),
        alpn: stream.conn.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned()),
        suite: stream.conn.negotiated_cipher_suite().map(|s| format!("{:?}", s.suite())).unwrap_or_default(),
        leaf: stream.conn.peer_certificates().and_then(<[_]>::first).map(|c| c.to_vec()).unwrap_or_default(),
    };
    Ok((stream, session))
}

/// A server side for scripted origins: this certificate, both versions, no client certificates.
pub(crate) fn server_config(certificate: &Certificate) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .expect("the versions exist")
        .with_no_client_auth()
        .with_single_cert(certificate.chain_der(), certificate.key_der())
        .expect("the kit's keys fit");
    Arc::new(config)
}

pub(crate) fn accept(tcp: TcpStream, config: Arc<ServerConfig>) -> io::Result<Wire> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let limit = crate::deadline::patience();
    tcp.set_read_timeout(Some(limit))?;
    tcp.set_write_timeout(Some(limit))?;
    let mut stream = StreamOwned::new(connection, tcp.try_clone()?);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Wire::over(tcp, Box::new(stream))
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
