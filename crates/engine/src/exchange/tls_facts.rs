//! What a TLS handshake settled, as rules and logs ask for it.
//!
//! Owns: the facts of one handshake, with a client or with an endpoint.
//! Never: shakes hands.
//! Driven by: whoever did, once; read by variables.

use std::fmt;

use weir_rt::{CertFailure, Early};

/// What a handshake settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFacts {
    /// `TLSv1.2`, `TLSv1.3`.
    pub(crate) protocol: &'static str,
    /// OpenSSL's spelling.
    pub(crate) cipher: &'static str,
    /// Key-exchange group.
    pub(crate) curve: Box<str>,
    /// Suites and groups that the client offers, where somebody asks for them.
    pub(crate) offered: Option<Box<(Vec<u8>, Vec<u8>)>>,
    /// Name sent by the client.
    pub(crate) server_name: Option<Box<str>>,
    /// Protocol agreed on.
    pub(crate) alpn: Option<Box<[u8]>>,
    /// The session was resumed.
    pub(crate) resumed: bool,
    /// What became of the client's certificate.
    pub(crate) verified: Verified,
    /// What it was verified by, as content: a certificate is asked for. Plans change under a connection; what the
    /// handshake went by does not.
    pub(crate) verified_by: Option<weir_rt::Digest>,
    /// The client's certificate, DER.
    pub(crate) certificate: Option<Box<[u8]>>,
    /// The handshake that the client has sent data before the end of.
    pub(crate) early: Option<Early>,
}

impl TlsFacts {
    /// Before the handshake: what the client asks for.
    pub(crate) fn asking(server_name: Option<&str>) -> Self {
        Self {
            protocol: "",
            cipher: "",
            curve: Box::default(),
            offered: None,
            server_name: server_name.map(Into::into),
            alpn: None,
            resumed: false,
            verified: Verified::None,
            verified_by: None,
            certificate: None,
            early: None,
        }
    }

    /// Whether what the client has sent may be a copy: its handshake is not complete.
    pub(crate) fn is_early(&self) -> bool {
        self.early.as_ref().is_some_and(Early::is_open)
    }
}

/// What became of a client's certificate; shown as nginx's `$ssl_client_verify`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Verified {
    /// None was shown.
    #[default]
    None,
    /// It verifies.
    Success,
    /// It does not.
    Failed(CertFailure),
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("NONE"),
            Self::Success => f.write_str("SUCCESS"),
            Self::Failed(failure) => write!(f, "FAILED:{}", failure.text),
        }
    }
}
