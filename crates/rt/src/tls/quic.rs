//! What QUIC needs of TLS: a look at a ClientHello without records, and a configuration for what comes before it.
//!
//! Driven by: `crate::quic`.

use std::sync::Arc;

use rustls::ServerConfig;

use super::cert::CertStore;
use super::hello::{ClientHello, MAX_HELLO, parse_hello};

/// What the bytes of a handshake so far are.
pub(crate) enum Hello {
    Incomplete,
    Whole(ClientHello),
    Wrong,
}

/// Looks at the first message of a handshake.
pub(crate) fn hello(bytes: &[u8]) -> Hello {
    let [kind, a, b, c, ..] = *bytes else { return Hello::Incomplete };
    let length = 4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
    if kind != 1 || length > MAX_HELLO {
        return Hello::Wrong;
    }
    match bytes.get(..length) {
        Some(message) => parse_hello(message).map_or(Hello::Wrong, Hello::Whole),
        None => Hello::Incomplete,
    }
}

/// TLS 1.3 without a certificate: nobody completes a handshake with it.
pub(crate) fn bare_config() -> Option<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(CertStore::default()));
    Some(Arc::new(config))
}
