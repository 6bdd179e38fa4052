//! Names of cipher suites, groups and protocol versions.
//!
//! Owns: the OpenSSL and IANA names of what rustls offers, and OpenSSL's cipher list language over them.
//! Never: enables a suite that rustls refuses (static RSA, CBC, finite-field DHE); it reports them instead.
//! Driven by: front ends (which words of a list are refused) and `server`/`client` (which suites to offer).
//! Why: `ssl_ciphers` and `ciphers` are written in OpenSSL's language; see ciphers(1).

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
    /// Words of OpenSSL's language that mean it, besides `ALL`, `HIGH` and `DEFAULT`.
    words: &'static [&'static str],
}

macro_rules! suite12 {
    ($openssl:literal, $iana:literal, $suite:ident, $($word:literal),*) => {
        Suite { openssl: $openssl, iana: $iana, suite: cs::$suite, words: &[
            "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", $($word),*
        ] }
    };
}

/// The suites of TLS 1.2 that can be used, in the order of OpenSSL's default list.
static SUITES12: &[Suite] = &[
    suite12!(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDSA",
        "aECDSA",
        "AES",
        "AES256",
        "AESGCM",
        "SHA384"
    ),
    suite12!(
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "RSA",
        "aRSA",
        "AES",
        "AES256",
        "AESGCM",
        "SHA384"
    ),
    suite12!(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDSA",
        "aECDSA",
        "CHACHA20"
    ),
    suite12!(
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        "RSA",
        "aRSA",
        "CHACHA20"
    ),
    suite12!(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDSA",
        "aECDSA",
        "AES",
        "AES128",
        "AESGCM",
        "SHA256"
    ),
    suite12!(
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "RSA",
        "aRSA",
        "AES",
        "AES128",
        "AESGCM",
        "SHA256"
    ),
];

static SUITES13: &[Suite] = &[
    Suite {
        openssl: "TLS_AES_256_GCM_SHA384",
        iana: "TLS_AES_256_GCM_SHA384",
        suite: cs::TLS13_AES_256_GCM_SHA384,
        words: &[],
    },
    Suite {
        openssl: "TLS_AES_128_GCM_SHA256",
        iana: "TLS_AES_128_GCM_SHA256",
        suite: cs::TLS13_AES_128_GCM_SHA256,
        words: &[],
    },
    Suite {
        openssl: "TLS_CHACHA20_POLY1305_SHA256",
        iana: "TLS_CHACHA20_POLY1305_SHA256",
        suite: cs::TLS13_CHACHA20_POLY1305_SHA256,
        words: &[],
    },
];

/// What a list of names came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// OpenSSL names of what is usable, in the order of preference.
    pub usable: Vec<String>,
    /// Words of the list that name nothing usable here (each once).
    pub refused: Vec<String>,
}

/// OpenSSL names of every suite that can be used, TLS 1.3 first.
pub fn usable_suites() -> impl Iterator<Item = &'static str> {
    SUITES13.iter().chain(SUITES12).map(|suite| suite.openssl)
}

/// The OpenSSL name of an IANA suite name (both are accepted), if the suite can be used.
pub fn openssl_name(name: &str) -> Option<&'static str> {
    SUITES13
        .iter()
        .chain(SUITES12)
        .find(|suite| suite.openssl.eq_ignore_ascii_case(name) || suite.iana.eq_ignore_ascii_case(name))
        .map(|suite| suite.openssl)
}

fn matches_word(suite: &Suite, word: &str) -> bool {
    matches!(word, "ALL" | "HIGH" | "DEFAULT" | "COMPLEMENTOFDEFAULT" | "FIPS" | "SUITEB128")
        && word != "COMPLEMENTOFDEFAULT"
        || suite.openssl == word
        || suite.iana == word
        || suite.words.contains(&word)
}

/// Resolves an OpenSSL cipher list for TLS 1.2, as in `ssl_ciphers` (see ciphers(1)): names, class words, `A+B`, and
/// the operators `!`, `-`, `+`, `@STRENGTH`, `@SECLEVEL=n`.
///
/// ```
/// let list = weir_rt::resolve_suites("EECDH+AESGCM:AES256-SHA:!aNULL");
/// assert_eq!(list.usable.len(), 4);
/// assert_eq!(list.refused, ["AES256-SHA"]);
/// ```
pub fn resolve_suites(list: &str) -> Resolved {
    let mut chosen: Vec<usize> = Vec::new();
    let mut killed: Vec<usize> = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    for item in list.split([':', ',', ' ', ';', '\n', '\t']).filter(|item| !item.is_empty()) {
        let (operator, body) = match item.as_bytes()[0] {
            operator @ (b'!' | b'-' | b'+') => (operator, &item[1..]),
            b'@' => continue,
            _ => (0, item),
        };
        // TLS 1.3 suites may stand in such a list, and are ignored there as OpenSSL does.
        if SUITES13.iter().any(|suite| suite.openssl == body) {
            continue;
        }
        let hits: Vec<usize> = (0..SUITES12.len())
            .filter(|&i| body.split('+').all(|word| matches_word(&SUITES12[i], word)))
            .collect();
        if operator == 0 && hits.is_empty() && !refused.iter().any(|word| word == item) {
            refused.push(item.to_owned());
        }
        match operator {
            0 => {
                for hit in hits {
                    if !chosen.contains(&hit) && !killed.contains(&hit) {
                        chosen.push(hit);
                    }
                }
            }
            b'+' => {
                let (moved, kept): (Vec<usize>, Vec<usize>) = chosen.iter().partition(|i| hits.contains(i));
                chosen = kept.into_iter().chain(moved).collect();
            }
            operator => {
                chosen.retain(|i| !hits.contains(i));
                if operator == b'!' {
                    killed.extend(hits);
                }
            }
        }
    }
    Resolved { usable: chosen.iter().map(|&i| SUITES12[i].openssl.to_owned()).collect(), refused }
}

/// Resolves a list of TLS 1.3 suites, as in HAProxy's `ciphersuites` (names only).
pub fn resolve_suites13(list: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        match SUITES13.iter().find(|suite| suite.openssl == name) {
            Some(suite) => push_new(&mut resolved.usable, suite.openssl),
            None => push_new(&mut resolved.refused, name),
        }
    }
    resolved
}

fn push_new(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|have| have == name) {
        list.push(name.to_owned());
    }
}

fn group(name: &str) -> Option<(&'static str, &'static dyn SupportedKxGroup)> {
    Some(match name.to_ascii_lowercase().as_str() {
        "x25519" => ("X25519", kx_group::X25519),
        "prime256v1" | "secp256r1" | "p-256" => ("prime256v1", kx_group::SECP256R1),
        "secp384r1" | "p-384" => ("secp384r1", kx_group::SECP384R1),
        "x25519mlkem768" => ("X25519MLKEM768", kx_group::X25519MLKEM768),
        "secp256r1mlkem768" => ("SecP256r1MLKEM768", kx_group::SECP256R1MLKEM768),
        "mlkem768" => ("MLKEM768", kx_group::MLKEM768),
        "mlkem1024" => ("MLKEM1024", kx_group::MLKEM1024),
        _ => return None,
    })
}

/// Resolves a list of curves or groups, as in `ssl_ecdh_curve`; `auto` is the library's own list.
pub fn resolve_groups(list: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        if name == "auto" {
            for name in ["X25519", "prime256v1", "secp384r1"] {
                push_new(&mut resolved.usable, name);
            }
            continue;
        }
        match group(name.trim_start_matches('?')) {
            Some((name, _)) => push_new(&mut resolved.usable, name),
            None => push_new(&mut resolved.refused, name),
        }
    }
    resolved
}

/// The library's suites for these OpenSSL names; `None` means its defaults.
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
        Some(names) => names.iter().filter_map(|name| group(name)).map(|(_, group)| group).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_words_and_operators() {
        let all = resolve_suites("HIGH:!aNULL:!MD5");
        assert_eq!(all.usable.len(), SUITES12.len());
        assert!(all.refused.is_empty());
        let list = resolve_suites("ECDHE+AESGCM:!ECDSA:ECDHE-ECDSA-AES128-GCM-SHA256:+AES256");
        assert_eq!(list.usable, ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(
            resolve_suites("DHE-RSA-AES128-SHA RC4,EDH").refused,
            ["DHE-RSA-AES128-SHA", "RC4", "EDH"]
        );
    }

    #[test]
    fn order_is_kept() {
        let list = resolve_suites("ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256:ALL");
        assert_eq!(list.usable[0], "ECDHE-RSA-CHACHA20-POLY1305");
        assert_eq!(list.usable.len(), SUITES12.len());
    }

    #[test]
    fn groups_and_new_suites() {
        assert_eq!(resolve_groups("X448:P-256:secp384r1").usable, ["prime256v1", "secp384r1"]);
        assert_eq!(resolve_groups("secp521r1").refused, ["secp521r1"]);
        assert_eq!(resolve_suites13("TLS_AES_128_CCM_SHA256").refused, ["TLS_AES_128_CCM_SHA256"]);
        assert_eq!(
            openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            Some("ECDHE-RSA-AES128-GCM-SHA256")
        );
    }
}
