//! What is spoken with application servers.
//!
//! Owns: the list. Driven by: front ends, which choose; `engine`, which speaks.

use serde::{Deserialize, Serialize};

/// What is spoken with an application server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spoken {
    /// FastCGI 1.0.
    #[default]
    FastCgi,
    /// uwsgi, with its two modifiers.
    Uwsgi(u8, u8),
    /// SCGI.
    Scgi,
    /// Memcached's text protocol: the body of the answer is the value of a key.
    Memcached {
        /// A value with any of these flags is compressed by gzip; 0: none is.
        gzip_flag: u32,
    },
}

impl Spoken {
    /// What error logs call it.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::FastCgi => "fastcgi://",
            Self::Uwsgi(..) => "uwsgi://",
            Self::Scgi => "scgi://",
            Self::Memcached { .. } => "memcached://",
        }
    }
}
