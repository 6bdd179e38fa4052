//! Names of cipher suites, groups and protocol versions.
//!
//! Owns: the OpenSSL and IANA names of what rustls offers.
//! Never: reads OpenSSL's cipher lists (whoever has a text does, `weir_expr::ciphers`); enables a suite that rustls refuses
//! (static RSA, CBC, finite-field DHE).
//! Driven by: `server`/`client` (which suites to offer), `stream` (which was chosen).

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite as cs, kx_group};
use rustls::{CipherSuite, SupportedCipherSuite};

/// A protocol version. Older ones than 1.2 do not exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl TlsVersion {
    /// As OpenSSL and nginx write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

struct Suite {
    openssl: &'static str,
    iana: &'static str,
    suite: SupportedCipherSuite,
}

macro_rules! suites {
    ($($openssl:literal, $iana:literal, $suite:ident;)*) => {
        &[$(Suite { openssl: $openssl, iana: $iana, suite: cs::$suite }),*]
    };
}

/// The suites of TLS 1.2 that can be used, in the order of OpenSSL's default list.
static SUITES12: &[Suite] = suites! {
    "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    "ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384;
    "ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
    "ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256;
    "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    "ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
};

static SUITES13: &[Suite] = suites! {
    "TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", TLS13_AES_256_GCM_SHA384;
    "TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", TLS13_AES_128_GCM_SHA256;
    "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", TLS13_CHACHA20_POLY1305_SHA256;
};

fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    Some(match name.to_ascii_lowercase().as_str() {
        "x25519" => kx_group::X25519,
        "prime256v1" | "secp256r1" | "p-256" => kx_group::SECP256R1,
        "secp384r1" | "p-384" => kx_group::SECP384R1,
        "x25519mlkem768" => kx_group::X25519MLKEM768,
        "secp256r1mlkem768" => kx_group::SECP256R1MLKEM768,
        "mlkem768" => kx_group::MLKEM768,
        "mlkem1024" => kx_group::MLKEM1024,
        _ => return None,
    })
}

/// The library's suites for these names; `None` means its defaults.
pub(crate) fn suites_for(
    names12: Option<&[String]>,
    names13: Option<&[String]>,
) -> Vec<SupportedCipherSuite> {
    let pick = |table: &'static [Suite], names: Option<&[String]>| -> Vec<SupportedCipherSuite> {
        match names {
            None => table.iter().map(|suite| suite.suite).collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| table.iter().find(|suite| suite.openssl == name || suite.iana == name))
                .map(|suite| suite.suite)
                .collect(),
        }
    };
    let mut all = pick(SUITES13, names13);
    all.extend(pick(SUITES12, names12));
    all
}

/// The library's groups for these names; `None` means the common curves.
pub(crate) fn groups_for(names: Option<&[String]>) -> Vec<&'static dyn SupportedKxGroup> {
    match names {
        // The hybrid comes last: it is there for who insists, and costs those who do not nothing.
        None => vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1, kx_group::X25519MLKEM768],
        Some(names) => names.iter().filter_map(|name| group(name)).collect(),
    }
}

/// The OpenSSL name of a negotiated suite.
pub(crate) fn name_of(suite: CipherSuite) -> &'static str {
    SUITES13
        .iter()
        .chain(SUITES12)
        .find(|entry| entry.suite.suite() == suite)
        .map_or("(unknown)", |entry| entry.openssl)
}
