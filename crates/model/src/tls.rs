//! TLS, terminated and originated.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_diag::Origin;
use weir_expr::Source;
use weir_expr::form::{Form, form};
use weir_expr::settings::{CertificateList, ClientVerify, TlsVersion};

use crate::{AcmeCertificate, NamePattern, Template};

/// TLS of a listener: identities chosen by SNI.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListenerTls {
    /// For names that none of `by_name` matches, and clients that send none.
    pub default: TlsIdentity,
    /// Identities by SNI, exact names before wildcards before patterns.
    pub by_name: Vec<(Vec<NamePattern>, TlsIdentity)>,
    /// Files that its certificates were listed in, for those who look at them (HAProxy `crt-list`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<CertificateList>,
    /// Refuse names that nothing matches (HAProxy `strict-sni`).
    pub strict_sni: bool,
    /// Session tickets are given (`ssl_session_tickets`).
    pub tickets: bool,
    /// Keys of tickets, 48 or 80 bytes each: the first makes tickets, all of them open tickets. Without any the process has its
    /// own (`ssl_session_ticket_key`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ticket_keys: Vec<Pem>,
    /// Sessions kept by the server for TLS 1.2 ids; 0: none.
    pub session_cache: usize,
    /// How long a session can be resumed, in seconds.
    pub session_timeout: u64,
    /// Clients whose certificate will not do are answered by HTTP (400). Otherwise the handshake is broken off.
    pub answer_bad_certificates: bool,
}

/// Certificates and rules for a set of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TlsIdentity {
    /// Certificate chains with keys, for different key types or (HAProxy) different names.
    pub certificates: Vec<Certificate>,
    /// Those that variables name, beside them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedCertificate>,
    /// Those that authorities issue while running, beside them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issued: Vec<AcmeCertificate>,
    /// Choose among `certificates` by the names inside them, not only by key type (HAProxy).
    pub select_by_certificate_names: bool,
    /// Versions offered; never empty.
    pub versions: Vec<TlsVersion>,
    /// TLS 1.2 suites in order, IANA or OpenSSL spelling, already resolved; empty: all that Weir has.
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
    /// The most issuers between a client's certificate and its authority, where limited (`ssl_verify_depth`).
    pub client_depth: Option<usize>,
    /// Refuse every handshake for these names (`ssl_reject_handshake`).
    pub reject: bool,
    /// Protocols for ALPN in order; empty: `http/1.1` on HTTP listeners, none on TCP.
    pub alpn: Vec<String>,
    /// Largest record in bytes where limited (`ssl_buffer_size`).
    pub record_size: Option<u64>,
    /// Requests may come before a resumed handshake is complete, which somebody else may send again (`ssl_early_data`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub early_data: bool,
    /// OCSP responders are asked for what the certificates are shown with (`ssl_stapling`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stapling: Option<Stapling>,
    /// Certificates are sent compressed to clients that can unpack them (`ssl_certificate_compression`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compress_certificates: bool,
    /// An OCSP response (DER) that clients are shown with the certificate (`ssl_stapling_file`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staple: Option<Pem>,
}

/// How OCSP responders are asked about own certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// Certificates, a key, a revocation list (PEM) or pass phrases.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pem {
    /// Where the bytes come from.
    pub source: Source,
    /// The bytes, if the source was read already. Those of a file are read once, as the model is lowered.
    pub bytes: Option<Arc<[u8]>>,
    /// Where a text names it.
    pub origin: Origin,
}

impl Pem {
    /// A file that is named there.
    pub fn file(path: PathBuf, origin: Origin) -> Self {
        Self { source: Source::File(path), bytes: None, origin }
    }

    /// A secret that the configuration itself holds, and that is no PEM.
    pub fn text(text: &str) -> Self {
        Self::field("configuration", "text", text.as_bytes().into())
    }

    /// The value of an object's field.
    pub fn field(object: &str, field: &str, bytes: Arc<[u8]>) -> Self {
        Self {
            source: Source::Field { object: object.into(), field: field.into() },
            bytes: Some(bytes),
            origin: None,
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it holds may be a key.
        write!(f, "{}", self.source)
    }
}

impl Serialize for Pem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (form(), &self.bytes) {
            // What a document is to bring along is the bytes.
            (Form::Document { secrets: true }, Some(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) if text.contains("-----BEGIN ") => serializer.serialize_str(text),
                Ok(text) => serializer.collect_str(&format_args!("data:{text}")),
                Err(_) => self.source.serialize(serializer),
            },
            _ => self.source.serialize(serializer),
        }
    }
}

/// A path with its place, the PEM text itself, or `data:` and another text.
#[derive(Deserialize)]
#[serde(rename = "Pem")]
struct WrittenPem {
    source: String,
    #[serde(default)]
    origin: Origin,
}

impl<'de> Deserialize<'de> for Pem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenPem::deserialize(deserializer)?;
        if let Some(text) = written.source.strip_prefix("data:") {
            return Ok(Self { origin: written.origin, ..Self::text(text) });
        }
        if !written.source.contains("-----BEGIN ") {
            return Ok(Self::file(written.source.into(), written.origin));
        }
        let bytes: Arc<[u8]> = written.source.into_bytes().into();
        let source = Source::Field { object: "configuration".into(), field: "PEM text".into() };
        Ok(Self { source, bytes: Some(bytes), origin: written.origin })
    }
}

/// A chain and its key; one source may hold both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Certificate {
    /// Chain, leaf first. With HAProxy a combined file.
    pub chain: Pem,
    /// Private key; PKCS#8, SEC1 or PKCS#1.
    pub key: Pem,
    /// Pass phrases to try, one a line, if the key is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<Pem>,
    /// An OCSP response (DER) that clients are shown with it, in place of the identity's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staple: Option<Pem>,
}

/// A certificate whose files are known at each handshake (`ssl_certificate $variable`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedCertificate {
    /// Where the chain is: a path, or `data:` and PEM.
    pub chain: Template,
    /// Where the private key is; as `chain`.
    pub key: Template,
    /// The folder of relative paths.
    pub folder: PathBuf,
    /// Pass phrases to try, one a line, if the key is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<Pem>,
}

/// TLS towards an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpstreamTls {
    /// Verify the endpoint's certificate against `ca` (or the system's CAs if `None`).
    pub verify: bool,
    /// The certificate may be for any name (HAProxy without `sni` and `verifyhost`).
    pub any_name: bool,
    /// Trusted CAs.
    pub ca: Option<Pem>,
    /// Revocation list.
    pub crl: Option<Pem>,
    /// The most issuers between the certificate and its authority, where limited (`proxy_ssl_verify_depth`).
    pub depth: Option<usize>,
    /// Send SNI.
    pub send_name: bool,
    /// Name for SNI and verification; `None`: the proxy action's host.
    pub name: Option<Template>,
    /// Certificate shown to the endpoint.
    pub certificate: Option<Certificate>,
    /// One that variables name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<NamedCertificate>,
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
