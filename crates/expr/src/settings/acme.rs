//! Certificates that an authority issues over ACME (RFC 8555).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A kind of private key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    #[serde(rename = "ecdsa:256")]
    Ecdsa256,
    /// ECDSA on P-384.
    #[serde(rename = "ecdsa:384")]
    Ecdsa384,
    /// ECDSA on P-521.
    #[serde(rename = "ecdsa:521")]
    Ecdsa521,
    /// RSA with 2048 bits.
    #[serde(rename = "rsa:2048")]
    Rsa2048,
    /// RSA with 3072 bits.
    #[serde(rename = "rsa:3072")]
    Rsa3072,
    /// RSA with 4096 bits.
    #[serde(rename = "rsa:4096")]
    Rsa4096,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ecdsa256, Self::Ecdsa384, Self::Ecdsa521, Self::Rsa2048, Self::Rsa3072, Self::Rsa4096];

    /// As nginx writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ecdsa256 => "ecdsa:256",
            Self::Ecdsa384 => "ecdsa:384",
            Self::Ecdsa521 => "ecdsa:521",
            Self::Rsa2048 => "rsa:2048",
            Self::Rsa3072 => "rsa:3072",
            Self::Rsa4096 => "rsa:4096",
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyKind {
    type Err = ();

    /// `ecdsa`, `rsa`, or either with a size.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ecdsa" => Ok(Self::Ecdsa256),
            "rsa" => Ok(Self::Rsa2048),
            _ => Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(()),
        }
    }
}

/// How an authority is shown that a name is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AcmeChallenge {
    /// It asks for a file over HTTP on port 80 (RFC 8555, 8.3).
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// It looks at a certificate on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl AcmeChallenge {
    /// As RFC 8555 names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// What a certificate is asked to be like, by a name that the authority has for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AcmeProfile {
    /// The name.
    pub name: String,
    /// An authority that does not know the name is asked for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// Whether a certificate can be had for a name by [`AcmeChallenge`]: a name of the DNS, no address and no wildcard.
///
/// # Errors
/// What is wrong with it, to be said after the name.
pub fn certifiable(name: &str) -> Result<(), &'static str> {
    if name.contains('*') || name.starts_with('.') {
        return Err("is a wildcard, which takes the challenge DNS-01");
    }
    if name.parse::<std::net::IpAddr>().is_ok() || name.starts_with('[') {
        return Err("is an address, and certificates are ordered for names of the DNS");
    }
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            && bytes.first() != Some(&b'-')
            && bytes.last() != Some(&b'-')
    };
    match name.len() <= 253 && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err("is no name of the DNS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_dns_are_told_from_others() {
        for good in ["example.com", "a.b-c.example", "localhost", "xn--bcher-kva.example", "1.example"] {
            assert_eq!(certifiable(good), Ok(()), "{good}");
        }
        for bad in
            ["*.example.com", ".example.com", "www.*", "127.0.0.1", "::1", "[::1]", "", "a..b", "-a", "a_b"]
        {
            assert!(certifiable(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_of_keys_are_read_as_they_are_written() {
        for kind in KeyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("rsa".parse(), Ok(KeyKind::Rsa2048));
        assert!("rsa:1024".parse::<KeyKind>().is_err());
    }
}
