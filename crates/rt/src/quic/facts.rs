//! What a handshake has settled, as `session` tells it.

use crate::tls::{CertFailure, Digest, TlsVersion};

/// What a handshake has settled.
#[derive(Clone, Debug)]
pub struct QuicFacts {
    /// The version of TLS.
    pub version: TlsVersion,
    /// The suite, as OpenSSL names it.
    pub cipher: &'static str,
    /// The group, as the library names it.
    pub group: Option<String>,
    /// The suites that the client offers, two bytes each.
    pub suites: Vec<u8>,
    /// The groups that it offers, two bytes each.
    pub groups: Vec<u8>,
    /// The name that the client asked for.
    pub server_name: Option<String>,
    /// The protocol that was agreed on.
    pub alpn: Option<Vec<u8>>,
    /// An earlier session was resumed.
    pub resumed: bool,
    /// The client's certificate.
    pub certificate: Option<Vec<u8>>,
    /// What is wrong with it.
    pub failure: Option<CertFailure>,
    /// What it was verified by, where one was asked for.
    pub basis: Option<Digest>,
}
