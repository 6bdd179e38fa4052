//! The server's side: configuration and handshake.
//!
//! Owns: `ServerTls`, made once per configuration and shared by all workers.
//! Never: touches ticket keys or stored sessions beyond using them (they outlive it).
//! Driven by: `engine`, which accepts with it.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, UnbufferedServerConnection};

use super::cert::{CertKey, CertStore, read_pair};
use super::compress;
use super::digest::{Digest, Digesting};
use super::error::{AcceptError, CertFailure, TlsConfigError};
use super::hello::{ClientHello, Peek, peek};
use super::session::{RECORD, Session};
use super::stream::TlsStream;
use super::suites::{TlsVersion, groups_for, suites_for};
use super::tickets::{Scoped, SessionCache, Tickets};
use super::trust::Trust;
use super::verify::{LenientClient, TrustedClient};
use crate::buf::{Buf, LARGE, SMALL};
use crate::stream::Stream;

/// The least plaintext that records are limited to: with less, what records add would outweigh what they carry.
const LEAST_RECORD: usize = 512;
/// The most early data of a connection.
const EARLY_DATA: u32 = 16 * 1024;
/// Bytes of a record's header, which the library counts in.
const HEADER: usize = 5;

/// What is asked of clients about certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClientAuthMode {
    /// Nothing.
    #[default]
    Off,
    /// A certificate is asked for; a bad or missing one is reported ([`TlsStream::client_cert`]), never refused.
    Report,
    /// A certificate is asked for; a missing one is accepted, a bad one fails the handshake.
    Optional,
    /// The handshake fails without a good certificate.
    Required,
}

/// Verification of client certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ClientAuth {
    /// What is asked for.
    pub mode: ClientAuthMode,
    /// What they are verified by.
    pub trust: Trust,
}

/// Settings of a TLS server.
#[derive(Clone)]
pub struct ServerTlsConfig {
    /// Certificates. For one name, certificates of several key types may be given; ECDSA is preferred.
    pub certificates: Vec<CertKey>,
    /// Lowest version.
    pub min_version: TlsVersion,
    /// Highest version.
    pub max_version: TlsVersion,
    /// OpenSSL names of the TLS 1.2 suites, in order of preference; `None`: all.
    pub suites12: Option<Vec<String>>,
    /// Names of the TLS 1.3 suites; `None`: all.
    pub suites13: Option<Vec<String>>,
    /// Key exchange groups; `None`: X25519, P-256, P-384.
    pub groups: Option<Vec<String>>,
    /// The order of the server's suites decides, not the client's. Without `suites13`, the cheaper one of the AES suites
    /// of TLS 1.3 is taken in either case, for clients that want AES first.
    pub prefer_server_order: bool,
    /// Application protocols, in order of preference; empty: the extension is ignored.
    pub alpn: Vec<Vec<u8>>,
    /// Ticket keys; `None`: no tickets.
    pub tickets: Option<Tickets>,
    /// Stored sessions; `None`: none.
    pub session_cache: Option<SessionCache>,
    /// How long a session can be resumed, by ticket or from the cache. Tickets of keys that are replaced (see
    /// [`Tickets::new`]) may be refused before: a full handshake follows.
    pub session_lifetime: Duration,
    /// Clients that resume a session may send data before their handshake is complete ([`TlsStream::early`]). Such data
    /// may be a copy, so that each session is used once: they are kept in `session_cache`, which is needed for it, and
    /// tickets are none.
    pub early_data: bool,
    /// Certificates are sent compressed to clients that can unpack them (RFC 8879).
    pub compress_certificates: bool,
    /// The most plaintext in one record; `None`: what TLS allows (16 KB).
    pub record_size: Option<usize>,
    /// Client certificates.
    pub client_auth: ClientAuth,
    /// Refuse every handshake (`ssl_reject_handshake`); certificates are not needed then.
    pub reject_handshake: bool,
    /// Refuse clients that ask for a name of no certificate, instead of using a default.
    pub strict_names: bool,
}

impl Default for ServerTlsConfig {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            min_version: TlsVersion::Tls12,
            max_version: TlsVersion::Tls13,
            suites12: None,
            suites13: None,
            groups: None,
            prefer_server_order: false,
            alpn: Vec::new(),
            tickets: None,
            session_cache: None,
            session_lifetime: Duration::from_secs(12 * 60 * 60),
            early_data: false,
            compress_certificates: false,
            record_size: None,
            client_auth: ClientAuth::default(),
            reject_handshake: false,
            strict_names: false,
        }
    }
}

/// A TLS server's configuration, ready for use. Clones share it; any thread may use it.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// The same with AES-128-GCM first, for clients that take any AES suite of TLS 1.3: SHA-256 instead of SHA-384
    /// saves a tenth of a handshake, and each record costs less.
    cheap: Option<Arc<ServerConfig>>,
    /// The same without early data, if there is any: for QUIC.
    quic: Option<Arc<ServerConfig>>,
    /// Verifies client certificates where the handshake does not: where they are reported, and in sessions that are
    /// resumed, whose certificates the library takes for granted.
    client_check: Option<Arc<TrustedClient>>,
    /// A certificate that does not verify is the end of the handshake.
    refuses: bool,
    /// What clients are verified by, if they are asked for certificates.
    client_auth: Option<Digest>,
    /// Every handshake is refused.
    rejects: bool,
    /// The newest version that is spoken.
    newest: TlsVersion,
    /// The most plaintext of a record.
    record: usize,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

/// The provider with the chosen suites and groups, and the versions that are left.
pub(crate) fn provider_for(
    suites12: Option<&[String]>,
    suites13: Option<&[String]>,
    groups: Option<&[String]>,
    versions: (TlsVersion, TlsVersion),
) -> Result<(Arc<CryptoProvider>, Vec<&'static rustls::SupportedProtocolVersion>), TlsConfigError> {
    let cipher_suites = suites_for(suites12, suites13);
    if cipher_suites.is_empty() {
        return Err(TlsConfigError::NoUsableSuite);
    }
    let kx_groups = groups_for(groups);
    if kx_groups.is_empty() {
        return Err(TlsConfigError::NoUsableGroup);
    }
    let offered =
        [(TlsVersion::Tls13, &rustls::version::TLS13), (TlsVersion::Tls12, &rustls::version::TLS12)];
    let usable: Vec<_> = offered
        .into_iter()
        .filter(|(version, _)| (versions.0..=versions.1).contains(version))
        .filter(|(_, version)| cipher_suites.iter().any(|suite| suite.version().version == version.version))
        .map(|(_, version)| version)
        .collect();
    if usable.is_empty() {
        return Err(TlsConfigError::NoUsableVersion);
    }
    let provider =
        CryptoProvider { cipher_suites, kx_groups, ..rustls::crypto::aws_lc_rs::default_provider() };
    Ok((Arc::new(provider), usable))
}

fn aes128_first(provider: &CryptoProvider) -> Arc<CryptoProvider> {
    let mut provider = provider.clone();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

impl ClientAuth {
    /// What differs between any two policies about client certificates.
    fn digest(&self) -> Digest {
        let Self { mode, trust } = self;
        let mut digest = Digesting::of("client certificates");
        digest.number(match mode {
            ClientAuthMode::Off => 0,
            ClientAuthMode::Report => 1,
            ClientAuthMode::Optional => 2,
            ClientAuthMode::Required => 3,
        });
        trust.write_into(&mut digest);
        digest.done()
    }
}

impl ServerTls {
    /// Checks and builds. Certificates and keys are parsed here, so that a mistake shows before it is used.
    pub fn new(config: ServerTlsConfig) -> Result<Self, TlsConfigError> {
        let (provider, versions) = provider_for(
            config.suites12.as_deref(),
            config.suites13.as_deref(),
            config.groups.as_deref(),
            (config.min_version, config.max_version),
        )?;
        let mut store = CertStore::default();
        store.strict = config.strict_names;
        if !config.reject_handshake {
            if config.certificates.is_empty() {
                return Err(TlsConfigError::NoCertificates);
            }
            let any_default = config.certificates.iter().any(|pair| pair.default);
            for (i, pair) in config.certificates.iter().enumerate() {
                let loaded = Arc::new(read_pair(&provider, pair)?);
                let is_default = pair.default || (!any_default && i == 0) || pair.names.is_empty();
                store.add(loaded, &pair.names, is_default);
            }
        }
        let required = config.client_auth.mode == ClientAuthMode::Required;
        let check = match config.client_auth.mode {
            ClientAuthMode::Off => None,
            _ => Some(Arc::new(TrustedClient::new(&provider, &config.client_auth.trust, required)?)),
        };
        let verifier: Arc<dyn ClientCertVerifier> = match (&check, config.client_auth.mode) {
            (None, _) => Arc::new(NoClientAuth),
            (Some(strict), ClientAuthMode::Report) => {
                Arc::new(LenientClient { provider: provider.clone(), strict: strict.clone() })
            }
            (Some(strict), _) => strict.clone(),
        };
        let client_auth = config.client_auth.digest();
        let mode = config.client_auth.mode;
        let speaks13 = versions.contains(&&rustls::version::TLS13);
        let cheap = config.suites13.is_none() && speaks13;
        let newest = if speaks13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let record = config.record_size.map_or(RECORD, |most| most.clamp(LEAST_RECORD, RECORD));
        let lifetime = u32::try_from(config.session_lifetime.as_secs()).unwrap_or(u32::MAX);
        let store = Arc::new(store);
        let early = config.early_data && speaks13 && config.session_cache.is_some();
        let build = |provider, ignore_client_order, early| -> Result<Arc<ServerConfig>, TlsConfigError> {
            let mut built = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&versions)
                .map_err(|error| TlsConfigError::Other(error.to_string()))?
                .with_client_cert_verifier(verifier.clone())
                .with_cert_resolver(store.clone());
            built.ignore_client_order = ignore_client_order;
            built.alpn_protocols.clone_from(&config.alpn);
            if config.compress_certificates {
                built.cert_compressors = compress::all();
            }
            built.max_fragment_size = Some(record + HEADER);
            if early {
                built.max_early_data_size = EARLY_DATA;
                // Who sent a request early is answered early.
                built.send_half_rtt_data = true;
            } else if let Some(tickets) = &config.tickets {
                built.ticketer = Arc::new(Scoped::new(&client_auth, lifetime, tickets.0.clone()));
            } else if config.session_cache.is_none() {
                built.send_tls13_tickets = 0;
            }
            built.session_storage = match &config.session_cache {
                Some(cache) => Arc::new(Scoped::new(&client_auth, lifetime, cache.0.clone())),
                None => Arc::new(NoServerSessionStorage {}),
            };
            Ok(Arc::new(built))
        };
        let config_rejects = config.reject_handshake;
        let cheap = if cheap { Some(build(aes128_first(&provider), true, early)?) } else { None };
        // QUIC's streams do not tell what came early.
        let quic =
            if early { Some(build(provider.clone(), config.prefer_server_order, false)?) } else { None };
        let config = build(provider.clone(), config.prefer_server_order, early)?;
        Ok(Self {
            config,
            cheap,
            quic,
            refuses: mode != ClientAuthMode::Report,
            client_auth: check.is_some().then_some(client_auth),
            client_check: check,
            rejects: config_rejects,
            newest,
            record,
        })
    }

    /// What clients are verified by, as content, if they are asked for certificates: one that was verified on a
    /// connection with an equal [`TlsStream::basis`] would verify here, and no other is known to.
    pub fn client_auth(&self) -> Option<&Digest> {
        self.client_auth.as_ref()
    }

    /// Every handshake is refused.
    pub(crate) fn rejects(&self) -> bool {
        self.rejects
    }

    /// The configuration for a client that asks this.
    pub(crate) fn config_for(&self, hello: &ClientHello) -> &Arc<ServerConfig> {
        self.cheap.as_ref().filter(|_| hello.aes_first).unwrap_or(&self.config)
    }

    /// As [`ServerTls::config_for`], over QUIC.
    pub(crate) fn quic_config_for(&self, hello: &ClientHello) -> &Arc<ServerConfig> {
        self.quic.as_ref().unwrap_or_else(|| self.config_for(hello))
    }

    /// Whether a certificate that does not verify is the end of the handshake.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses
    }

    /// What is wrong with a client's certificate.
    pub(crate) fn failure(&self, chain: &[rustls_pki_types::CertificateDer<'_>]) -> Option<CertFailure> {
        self.client_check.as_ref().and_then(|check| check.failure(chain))
    }

    /// Performs the handshake. Has no time limit of its own.
    pub async fn accept(&self, stream: Stream) -> Result<TlsStream, AcceptError> {
        Self::accept_with(stream, |_| Some(self.clone())).await
    }

    /// As [`ServerTls::accept`], with the configuration chosen by what the client asks for; `None` refuses.
    pub async fn accept_with(
        stream: Stream,
        select: impl FnOnce(&ClientHello) -> Option<ServerTls>,
    ) -> Result<TlsStream, AcceptError> {
        Self::accept_after(stream, Buf::new(), async |hello: &ClientHello| select(hello)).await
    }

    /// As [`ServerTls::accept_with`], on a connection from which `incoming` was read already (after a PROXY header), with a
    /// choice that may take time.
    pub async fn accept_after(
        stream: Stream,
        mut incoming: Buf,
        select: impl AsyncFnOnce(&ClientHello) -> Option<ServerTls>,
    ) -> Result<TlsStream, AcceptError> {
        let mut unread = incoming.is_empty();
        let hello = loop {
            if unread {
                let limit = if incoming.len() < SMALL { SMALL } else { LARGE };
                match stream.read_up_to(&mut incoming, limit).await {
                    Ok(0) => return Err(AcceptError::Closed { received: !incoming.is_empty() }),
                    Ok(_) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            unread = true;
            match peek(&incoming) {
                Peek::Hello(hello) => break hello,
                Peek::Incomplete => {}
                Peek::PlainHttp => return Err(AcceptError::PlainHttp(stream, incoming)),
                Peek::NotTls => return Err(AcceptError::NotTls),
            }
        };
        if hello.too_old && !hello.falls_back_from(TlsVersion::Tls12) {
            // Alert protocol_version, fatal, in a record of its own (RFC 5246, E.1): the library would first miss what
            // such a client cannot send, and say so.
            let _ = stream.try_write(&[21, 3, 1, 0, 2, 2, 70]);
            return Err(AcceptError::Handshake("the client offers nothing newer than TLS 1.1".into()));
        }
        let Some(tls) = select(&hello).await.filter(|tls| !tls.rejects) else {
            // Alert unrecognized_name, fatal, in a record of its own (RFC 6066, 3).
            let _ = stream.try_write(&[21, 3, 3, 0, 2, 2, 112]);
            return Err(AcceptError::Rejected);
        };
        if hello.falls_back_from(tls.newest) {
            // Alert inappropriate_fallback, fatal, in a record of its own (RFC 7507, 3).
            let _ = stream.try_write(&[21, 3, 3, 0, 2, 2, 86]);
            return Err(AcceptError::Handshake(
                "the client falls back to an older version than it has to".into(),
            ));
        }
        let config = tls.config_for(&hello);
        let connection = UnbufferedServerConnection::new(config.clone())
            .map_err(|error| AcceptError::Handshake(error.to_string()))?;
        let session = Session::server(connection, tls.record);
        let tls_stream = TlsStream::new(stream, session, incoming, hello.server_name, tls.client_auth);
        tls_stream.handshake().await?;
        let unchecked = |_: &&Arc<TrustedClient>| !tls.refuses || tls_stream.resumed();
        let Some(check) = tls.client_check.as_ref().filter(unchecked) else { return Ok(tls_stream) };
        match tls_stream.check_client(check) {
            // It verified when the session began, and has expired since.
            Some(failure) if tls.refuses => {
                tls_stream.abort();
                Err(AcceptError::Handshake(format!(
                    "the session's certificate no longer verifies: {}",
                    failure.text
                )))
            }
            _ => Ok(tls_stream),
        }
    }
}
