//! Errors of TLS, by operation.
//!
//! Owns: what can be wrong with a configuration, how a handshake can fail, and what is wrong with a certificate.
//! Never: wraps a type of rustls; its messages are kept as text.
//! Driven by: the rest of `tls`.

use std::fmt;
use std::io;

use crate::buf::Buf;
use crate::stream::Stream;

/// What is wrong with a TLS configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsConfigError {
    /// The PEM text holds no certificate.
    NoCertificate,
    /// The PEM text holds no private key.
    NoKey,
    /// The private key is encrypted, and there is no pass phrase.
    EncryptedKey,
    /// The text is not valid PEM.
    BadPem(String),
    /// A certificate cannot be read.
    BadCertificate(String),
    /// The private key cannot be read, or is of an unsupported kind.
    BadKey(String),
    /// The private key does not belong to the first certificate of the chain.
    KeyMismatch,
    /// The pass phrases that were given do not open the private key.
    WrongPassword,
    /// A certificate authority's certificate cannot be used.
    BadAuthority(String),
    /// A revocation list cannot be used.
    BadList(String),
    /// No cipher suite is left that is supported here.
    NoUsableSuite,
    /// No key exchange group is left that is supported here.
    NoUsableGroup,
    /// The protocol versions and cipher suites exclude each other.
    NoUsableVersion,
    /// A server without any certificate, which does not refuse all handshakes either.
    NoCertificates,
    /// Ticket keys must be of 48 or 80 bytes.
    BadTicketKey(usize),
    /// Anything else the TLS library refuses.
    Other(String),
}

impl fmt::Display for TlsConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("no certificate in the PEM text"),
            Self::NoKey => f.write_str("no private key in the PEM text"),
            Self::EncryptedKey => f.write_str("the private key is encrypted"),
            Self::BadPem(why) => write!(f, "not valid PEM: {why}"),
            Self::BadCertificate(why) => write!(f, "unreadable certificate: {why}"),
            Self::BadKey(why) => write!(f, "unusable private key: {why}"),
            // OpenSSL's words, which scripts look for.
            Self::KeyMismatch => f.write_str("it does not belong to the certificate (key values mismatch)"),
            Self::WrongPassword => f.write_str("no pass phrase opens it"),
            Self::BadAuthority(why) => write!(f, "unusable certificate authority: {why}"),
            Self::BadList(why) => write!(f, "unusable revocation list: {why}"),
            Self::NoUsableSuite => f.write_str("none of the cipher suites is supported"),
            Self::NoUsableGroup => f.write_str("none of the key exchange groups is supported"),
            Self::NoUsableVersion => f.write_str("no protocol version is left with these cipher suites"),
            Self::NoCertificates => f.write_str("a TLS server needs a certificate"),
            Self::BadTicketKey(len) => write!(f, "a ticket key of {len} bytes (48 or 80 are needed)"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl TlsConfigError {
    /// Whether the fault is the private key's, not the certificate's.
    pub fn is_of_key(&self) -> bool {
        matches!(
            self,
            Self::NoKey | Self::EncryptedKey | Self::BadKey(_) | Self::KeyMismatch | Self::WrongPassword
        )
    }
}

impl std::error::Error for TlsConfigError {}

/// How a server's handshake failed.
#[derive(Debug)]
pub enum AcceptError {
    /// The connection failed.
    Io(io::Error),
    /// The peer closed before the handshake ended; `received` tells whether it had sent anything.
    Closed {
        /// Whether any byte had arrived.
        received: bool,
    },
    /// The peer speaks plain HTTP. Stream and first bytes come back, so that it can be told.
    PlainHttp(Stream, Buf),
    /// The peer's bytes are neither TLS nor HTTP.
    NotTls,
    /// No configuration for the name that the client asked for.
    Rejected,
    /// The handshake failed; an alert was sent. The text is for logs.
    Handshake(String),
    /// The peer ended the handshake with an alert. The text is for logs.
    Alert(String),
}

impl fmt::Display for AcceptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Closed { .. } => f.write_str("peer closed connection in SSL handshake"),
            Self::PlainHttp(..) => f.write_str("client sent plain HTTP request to HTTPS port"),
            Self::NotTls => f.write_str("the client does not speak TLS"),
            Self::Rejected => f.write_str("handshake rejected"),
            Self::Handshake(why) | Self::Alert(why) => write!(f, "SSL handshake failed: {why}"),
        }
    }
}

impl std::error::Error for AcceptError {}

impl From<io::Error> for AcceptError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a client's certificate does not verify, as OpenSSL numbers and says it (`X509_V_ERR_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertFailure {
    /// OpenSSL's number.
    pub code: u16,
    /// OpenSSL's words.
    pub text: &'static str,
}

impl CertFailure {
    /// Whether all that is wrong is that nobody knows the authority (what nginx's `optional_no_ca` lets pass).
    pub fn is_of_authority(&self) -> bool {
        matches!(self.code, 18..=21)
    }
}

/// The peer closed the connection without close_notify: what was read may be cut (RFC 8446, 6.1).
#[derive(Debug)]
struct Truncated;

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the TLS stream ended without close_notify")
    }
}

impl std::error::Error for Truncated {}

pub(crate) fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, Truncated)
}

/// The peer ended the TLS connection with an alert (RFC 8446, 6.2).
#[derive(Debug)]
struct Alerted(String);

impl fmt::Display for Alerted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Alerted {}

/// The error of an operation that an alert of the peer ended; `why` says which.
pub(crate) fn alerted(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Alerted(why))
}

/// Whether an operation failed because the peer sent a fatal TLS alert.
pub fn is_alert(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Alerted>())
}

/// Whether a read failed because the peer closed a TLS connection without saying that its data was complete.
pub fn is_truncated(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Truncated>())
}
