//! TLS, terminated and originated.
//!
//! Owns: identities and trust, with the PEM bytes loaded.
//! Never: parses a certificate; `rt` does. Never prints a key.
//! Why: files are read once, by whoever may read them, before a plan goes live; a worker needs no file.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use weir_expr::Source;
use weir_expr::settings::{CertificateList, ClientVerify, TlsVersion};

use crate::{NameIndex, Template, TlsIx, UpstreamTlsIx};

/// TLS of a listener: identities chosen by SNI.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerTls {
    /// Identities by name; the default is for names that nothing matches, and clients that send none.
    pub by_name: NameIndex<TlsIx>,
    /// Files that its certificates were listed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<CertificateList>,
    /// Refuse names that nothing matches.
    pub strict_sni: bool,
    /// Session tickets are given.
    pub tickets: bool,
    /// Keys of tickets: the first makes them, all of them open them. Without any the process has its own.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub ticket_keys: Box<[PrivateKey]>,
    /// Sessions kept by the server for TLS 1.2 ids; 0: none.
    pub session_cache: usize,
    /// How long a session can be resumed, in seconds.
    pub session_timeout: u64,
    /// Clients whose certificate will not do are answered by HTTP (400), not by a broken handshake.
    pub answer_bad_certificates: bool,
}

/// Certificates and rules for a set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TlsIdentity {
    /// Certificate chains with keys.
    pub certificates: Vec<Certificate>,
    /// Those that variables name, beside them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedCertificate>,
    /// Choose among `certificates` by the names inside them, not only by key type.
    pub select_by_certificate_names: bool,
    /// Versions offered; never empty.
    pub versions: Vec<TlsVersion>,
    /// TLS 1.2 suites in order; empty: all.
    pub suites: Vec<String>,
    /// TLS 1.3 suites in order; empty: all.
    pub suites13: Vec<String>,
    /// The order of `suites` decides, not the client's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prefer_server_order: bool,
    /// Key-exchange groups in order, OpenSSL spelling; empty: default.
    pub curves: Vec<String>,
    /// Client certificates.
    pub verify: ClientVerify,
    /// Trusted CAs for them.
    pub client_ca: Vec<Pem>,
    /// Revocation list.
    pub client_crl: Option<Pem>,
    /// The most issuers between a client's certificate and its authority, where limited.
    pub client_depth: Option<usize>,
    /// Refuse every handshake for these names.
    pub reject: bool,
    /// Protocols for ALPN in order; empty: none is negotiated.
    pub alpn: Vec<String>,
    /// Largest record in bytes where limited.
    pub record_size: Option<u64>,
    /// Requests may come before a resumed handshake is complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub early_data: bool,
    /// OCSP responders are asked for what the certificates are shown with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stapling: Option<Stapling>,
    /// Certificates are sent compressed to clients that can unpack them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compress_certificates: bool,
    /// An OCSP response (DER) that clients are shown with the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staple: Option<Pem>,
}

/// How OCSP responders are asked about own certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Stapling {
    /// Whom to ask, whatever the certificate says.
    pub responder: Option<String>,
    /// The certificate has to come from one of `trusted`, too. That a response is the issuer's is verified in any case.
    pub verify: bool,
    /// Trusted CAs; the issuer of a certificate may be among them, if its chain lacks it.
    pub trusted: Vec<Pem>,
    /// Shortest time between two questions about a certificate, in seconds, unless its response would be over by then.
    pub least: u64,
    /// Longest time between two questions, in seconds.
    pub most: u64,
}

/// A chain and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Certificate {
    /// Chain, leaf first.
    pub chain: Pem,
    /// Private key.
    pub key: PrivateKey,
    /// Pass phrases to try, one a line, if the key is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<PrivateKey>,
    /// An OCSP response (DER) that clients are shown with it, in place of the identity's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staple: Option<Pem>,
}

/// A chain and its key, whose files are known at each handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NamedCertificate {
    /// Where the chain is: a path, or `data:` and PEM.
    pub chain: Template,
    /// Where the private key is; as `chain`.
    pub key: Template,
    /// The folder of relative paths.
    pub folder: PathBuf,
    /// Pass phrases to try, one a line, if the key is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<PrivateKey>,
}

impl Certificate {
    /// What it is called by whoever replaces it while running: where its chain was read.
    pub fn name(&self) -> String {
        self.chain.source.to_string()
    }

    /// Whether an authority issues it while running: the plan has nothing of it but its name.
    pub fn is_issued(&self) -> bool {
        self.chain.bytes.is_empty()
    }
}

/// What is wrong with TLS settings, found by building what would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// Where.
    pub part: TlsPart,
    /// Where that came from, if it is not all of it.
    pub source: Option<Source>,
    /// What, in the words of whoever builds it.
    pub why: String,
}

/// A part of [`TlsIdentity`] or [`UpstreamTls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The chain of a certificate.
    Chain,
    /// A key.
    Key,
    /// A file of authorities.
    Authority,
    /// The revocation list.
    List,
    /// Suites, groups and versions, or how all of it fits together.
    Settings,
}

/// PEM that holds no secret, or whose secret is not printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pem {
    /// Where it was read, for messages.
    pub source: Source,
    /// Content. A combined file holds a key, too.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.source, self.bytes.len())
    }
}

impl Serialize for Pem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

/// A key, or pass phrases. Neither `Debug` nor a printed plan shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PrivateKey {
    /// Where it was read, for messages.
    pub source: Source,
    bytes: Arc<[u8]>,
}

impl PrivateKey {
    /// Wraps the content.
    pub fn new(source: Source, bytes: Arc<[u8]>) -> Self {
        Self { source, bytes }
    }

    /// The content, for `rt`.
    pub fn reveal(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (<redacted>)", self.source)
    }
}

impl Serialize for PrivateKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

/// How one action or endpoint speaks TLS: the configuration, of which there is one for many, and the name.
#[derive(Clone, Debug, Serialize)]
pub struct UpstreamTlsUse {
    /// What `rt` builds once a plan.
    pub config: UpstreamTlsIx,
    /// Name for SNI and verification; `None`: the proxy action's host.
    pub name: Option<Template>,
    /// The certificate that is shown, where variables name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<Arc<NamedCertificate>>,
}

/// TLS towards endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct UpstreamTls {
    /// Verify the endpoint's certificate against `ca` (or the system's CAs if `None`).
    pub verify: bool,
    /// Send the name to the endpoint (SNI).
    pub send_name: bool,
    /// The certificate may be for any name (HAProxy without `sni` and `verifyhost`).
    pub any_name: bool,
    /// Trusted CAs.
    pub ca: Option<Pem>,
    /// Revocation list.
    pub crl: Option<Pem>,
    /// The most issuers between the certificate and its authority, where limited.
    pub depth: Option<usize>,
    /// Certificate shown to the endpoint.
    pub certificate: Option<Certificate>,
    /// Versions offered; empty: all.
    pub versions: Vec<TlsVersion>,
    /// TLS 1.2 suites; empty: all.
    pub suites: Vec<String>,
    /// TLS 1.3 suites; empty: all.
    pub suites13: Vec<String>,
    /// Key-exchange groups, the preferred one first; empty: the usual ones.
    pub groups: Vec<String>,
    /// Resume sessions.
    pub session_reuse: bool,
    /// Protocols for ALPN; empty: none is sent.
    pub alpn: Vec<String>,
}
