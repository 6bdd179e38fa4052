//! TLS 1.2 and 1.3 for both roles, on rustls and aws-lc-rs.
//!
//! Owns: configuration (certificates, suites, tickets, verification) and encrypted streams.
//! Never: shows a type of rustls; reads a file (PEM comes as bytes); keeps time (handshake timeouts are the caller's).
//! Driven by: `engine`, which builds [`ServerTls`] and [`ClientTls`] once per configuration.
//! Why rustls' unbuffered API, in `session` alone: it encrypts into buffers of ours, and an idle connection holds none.
//! The API is gone from the main branch of rustls, so nothing outside `session` may depend on it.

mod cert;
mod cert_view;
mod client;
mod compress;
mod der;
mod digest;
mod early;
mod error;
mod facts;
pub mod fuzzing;
mod hello;
mod key;
mod ocsp;
pub(crate) mod quic;
mod server;
mod session;
mod stream;
mod suites;
mod tickets;
mod trust;
mod verify;
mod version1;

pub use cert::{CertInfo, CertKey, ClientCert, cert_names};
pub use cert_view::{CertName, CertView, first_certificate, public_key};
pub use client::{ClientTls, ClientTlsConfig, ServerVerify};
pub use digest::Digest;
pub use early::Early;
pub use error::{AcceptError, CertFailure, TlsConfigError, is_alert, is_truncated};
pub use facts::{CertFacts, ListFacts, cert_facts, list_facts};
pub use hello::ClientHello;
pub use ocsp::{OcspAnswer, OcspFault, OcspQuestion, OcspStatus};
pub use server::{ClientAuth, ClientAuthMode, ServerTls, ServerTlsConfig};
pub use stream::TlsStream;
pub use suites::TlsVersion;
pub(crate) use suites::name_of;
pub use tickets::{SessionCache, Tickets};
pub use trust::Trust;

/// The library that does the cryptography, in its own words: `OpenSSL 1.1.1 (compatible; AWS-LC 5.12.0)`.
pub fn tls_library() -> &'static str {
    let text = std::ffi::CStr::from_bytes_with_nul(aws_lc_sys::OPENSSL_VERSION_TEXT);
    text.ok().and_then(|text| text.to_str().ok()).unwrap_or("AWS-LC")
}
