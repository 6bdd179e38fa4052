//! What a server does at a point.
//!
//! Owns: the modes, their names, who has something to do in each.
//! Never: knows a configuration (`configs` does).
//! Driven by: `scenario`.

use crate::contender::Contender;
use crate::scenario::Key;
use serde::{Deserialize, Serialize};

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Serves a file over HTTP.
    FilesHttp,
    /// Serves a file over HTTPS.
    FilesHttps,
    /// Passes HTTP requests on.
    Http,
    /// Ends TLS, and passes HTTP requests on.
    Https,
    /// Passes the bytes of HTTP on.
    TcpHttp,
    /// Passes the bytes of HTTPS on.
    TcpHttps,
    /// Shakes hands in full, with an RSA key of 2,048 bits; nothing is requested.
    HandshakeRsa2048,
    /// The same with an ECDSA key on P-256.
    HandshakeP256,
    /// Keeps connections that were used once over HTTP: what each costs in memory.
    IdleHttp,
    /// The same over HTTPS.
    IdleHttps,
    /// Serves files of many sites over HTTP, each by its name.
    Sites,
    /// Serves a file over HTTP/2 without TLS, which the client knows beforehand.
    FilesH2c,
    /// Serves a file over HTTP/2 and TLS.
    FilesH2,
    /// Serves what it got from another server before, over HTTP.
    Cached,
    /// Serves a text over HTTP, compressed as it is sent.
    Gzip,
}

impl Mode {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FilesHttp => "files-http",
            Self::FilesHttps => "files-https",
            Self::Http => "http",
            Self::Https => "https",
            Self::TcpHttp => "tcp-http",
            Self::TcpHttps => "tcp-https",
            Self::HandshakeRsa2048 => "handshake-rsa2048",
            Self::HandshakeP256 => "handshake-p256",
            Self::IdleHttp => "idle-http",
            Self::IdleHttps => "idle-https",
            Self::Sites => "sites",
            Self::FilesH2c => "files-h2c",
            Self::FilesH2 => "files-h2",
            Self::Cached => "cached",
            Self::Gzip => "gzip",
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::FilesHttp => "web server, HTTP",
            Self::FilesHttps => "web server, HTTPS",
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::TcpHttp => "TCP pass-through of HTTP",
            Self::TcpHttps => "TCP pass-through of HTTPS",
            Self::HandshakeRsa2048 => "full TLS handshakes, RSA-2048",
            Self::HandshakeP256 => "full TLS handshakes, ECDSA P-256",
            Self::IdleHttp => "idle connections, HTTP",
            Self::IdleHttps => "idle connections, HTTPS",
            Self::Sites => "web server of many sites",
            Self::FilesH2c => "web server, HTTP/2 without TLS",
            Self::FilesH2 => "web server, HTTP/2",
            Self::Cached => "cache",
            Self::Gzip => "web server, gzip",
        }
    }

    /// Whether the client speaks HTTPS.
    #[must_use]
    pub fn encrypted(self) -> bool {
        matches!(self, Self::FilesHttps | Self::Https | Self::TcpHttps | Self::IdleHttps | Self::FilesH2)
            || self.handshakes().is_some()
    }

    /// Whether the client speaks HTTP/2.
    #[must_use]
    pub fn is_http2(self) -> bool {
        matches!(self, Self::FilesH2c | Self::FilesH2)
    }

    /// Whether connections wait: memory is measured then, and no CPU time.
    #[must_use]
    pub fn is_idle(self) -> bool {
        matches!(self, Self::IdleHttp | Self::IdleHttps)
    }

    /// The key of what only shakes hands.
    #[must_use]
    pub fn handshakes(self) -> Option<Key> {
        match self {
            Self::HandshakeRsa2048 => Some(Key::Rsa2048),
            Self::HandshakeP256 => Some(Key::P256),
            _ => None,
        }
    }
}

/// Whether a contender has something to do in a mode.
#[must_use]
pub fn takes_part(who: Contender, mode: Mode) -> bool {
    // Nobody between is the same whatever is passed through.
    who != Contender::Direct || matches!(mode, Mode::Http | Mode::Https)
}
