//! The client connections of a process at one moment, one by one.
//!
//! Owns: what `show sess` is rendered from.
//! Driven by: `engine`, which fills it; `admin`, which renders it.

use std::net::SocketAddr;

/// A client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSession {
    /// Its number in the process: it is ended by it.
    pub number: u64,
    /// Who came; `None`: by a unix socket.
    pub source: Option<SocketAddr>,
    /// The address that it came to.
    pub destination: Option<SocketAddr>,
    /// The site or service that its listener leads to.
    pub site: String,
    /// `http` or `tcp`.
    pub mode: &'static str,
    /// TLS is spoken.
    pub tls: bool,
    /// When it was accepted, in milliseconds since 1970.
    pub accepted_unix_ms: u64,
    /// Milliseconds since then.
    pub age_ms: u64,
    /// Requests that it has brought so far.
    pub requests: u64,
    /// What goes on at endpoints for it at this moment.
    pub attempts: Vec<SessionAttempt>,
}

/// What goes on at an endpoint for a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionAttempt {
    /// The pool.
    pub pool: String,
    /// The endpoint, by name and address.
    pub endpoint: String,
    #[allow(missing_docs)]
    pub address: String,
    /// Milliseconds since it was connected.
    pub age_ms: u64,
}
