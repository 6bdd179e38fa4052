//! OpenSSL's words about TLS, resolved to what Weir speaks.
//!
//! Owns: cipher strings (openssl-ciphers(1)), protocol names, names of key-exchange groups.
//! Never: reports; the caller decides what is an error.
//! Driven by: nginx's `ssl_ciphers` and `ssl_protocols`, HAProxy's `ciphers` and `ciphersuites`, `weir load`.
//! Why: what a string leaves of the suites Weir has is computed by OpenSSL's own rules, so that `HIGH:!aNULL:!MD5`
//! keeps its meaning and `AES256-SHA` alone is refused instead of silently widened.

use crate::settings::TlsVersion;

/// One suite of TLS 1.2 and before, with the properties that cipher strings ask for.
struct Suite {
    name: &'static str,
    exchange: &'static str,
    auth: &'static str,
    cipher: &'static str,
    mac: &'static str,
    /// Weir speaks it.
    usable: bool,
}

const fn suite(
    name: &'static str,
    exchange: &'static str,
    auth: &'static str,
    cipher: &'static str,
    mac: &'static str,
) -> Suite {
    Suite { name, exchange, auth, cipher, mac, usable: false }
}

const fn ours(name: &'static str, auth: &'static str, cipher: &'static str) -> Suite {
    Suite { name, exchange: "ECDHE", auth, cipher, mac: "AEAD", usable: true }
}

/// In OpenSSL's default order. Suites beyond these match no word and are as good as unknown.
const SUITES: &[Suite] = &[
    ours("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDSA", "AESGCM256"),
    ours("ECDHE-RSA-AES256-GCM-SHA384", "RSA", "AESGCM256"),
    suite("DHE-DSS-AES256-GCM-SHA384", "DHE", "DSS", "AESGCM256", "AEAD"),
    suite("DHE-RSA-AES256-GCM-SHA384", "DHE", "RSA", "AESGCM256", "AEAD"),
    ours("ECDHE-ECDSA-CHACHA20-POLY1305", "ECDSA", "CHACHA20"),
    ours("ECDHE-RSA-CHACHA20-POLY1305", "RSA", "CHACHA20"),
    suite("DHE-RSA-CHACHA20-POLY1305", "DHE", "RSA", "CHACHA20", "AEAD"),
    suite("ECDHE-ECDSA-AES256-CCM", "ECDHE", "ECDSA", "AESCCM256", "AEAD"),
    suite("DHE-RSA-AES256-CCM", "DHE", "RSA", "AESCCM256", "AEAD"),
    ours("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA", "AESGCM128"),
    ours("ECDHE-RSA-AES128-GCM-SHA256", "RSA", "AESGCM128"),
    suite("DHE-DSS-AES128-GCM-SHA256", "DHE", "DSS", "AESGCM128", "AEAD"),
    suite("DHE-RSA-AES128-GCM-SHA256", "DHE", "RSA", "AESGCM128", "AEAD"),
    suite("ECDHE-ECDSA-AES256-SHA384", "ECDHE", "ECDSA", "AES256", "SHA384"),
    suite("ECDHE-RSA-AES256-SHA384", "ECDHE", "RSA", "AES256", "SHA384"),
    suite("DHE-RSA-AES256-SHA256", "DHE", "RSA", "AES256", "SHA256"),
    suite("ECDHE-ECDSA-AES128-SHA256", "ECDHE", "ECDSA", "AES128", "SHA256"),
    suite("ECDHE-RSA-AES128-SHA256", "ECDHE", "RSA", "AES128", "SHA256"),
    suite("DHE-RSA-AES128-SHA256", "DHE", "RSA", "AES128", "SHA256"),
    suite("ECDHE-ECDSA-AES256-SHA", "ECDHE", "ECDSA", "AES256", "SHA1"),
    suite("ECDHE-RSA-AES256-SHA", "ECDHE", "RSA", "AES256", "SHA1"),
    suite("DHE-RSA-AES256-SHA", "DHE", "RSA", "AES256", "SHA1"),
    suite("DHE-DSS-AES256-SHA", "DHE", "DSS", "AES256", "SHA1"),
    suite("ECDHE-ECDSA-AES128-SHA", "ECDHE", "ECDSA", "AES128", "SHA1"),
    suite("ECDHE-RSA-AES128-SHA", "ECDHE", "RSA", "AES128", "SHA1"),
    suite("DHE-RSA-AES128-SHA", "DHE", "RSA", "AES128", "SHA1"),
    suite("DHE-DSS-AES128-SHA", "DHE", "DSS", "AES128", "SHA1"),
    suite("DHE-RSA-CAMELLIA256-SHA", "DHE", "RSA", "CAMELLIA256", "SHA1"),
    suite("DHE-RSA-CAMELLIA128-SHA", "DHE", "RSA", "CAMELLIA128", "SHA1"),
    suite("ADH-AES256-GCM-SHA384", "DHE", "NULL", "AESGCM256", "AEAD"),
    suite("ADH-AES128-SHA", "DHE", "NULL", "AES128", "SHA1"),
    suite("AECDH-AES256-SHA", "ECDHE", "NULL", "AES256", "SHA1"),
    suite("AES256-GCM-SHA384", "RSA", "RSA", "AESGCM256", "AEAD"),
    suite("AES128-GCM-SHA256", "RSA", "RSA", "AESGCM128", "AEAD"),
    suite("AES256-SHA256", "RSA", "RSA", "AES256", "SHA256"),
    suite("AES128-SHA256", "RSA", "RSA", "AES128", "SHA256"),
    suite("AES256-SHA", "RSA", "RSA", "AES256", "SHA1"),
    suite("AES128-SHA", "RSA", "RSA", "AES128", "SHA1"),
    suite("CAMELLIA256-SHA", "RSA", "RSA", "CAMELLIA256", "SHA1"),
    suite("CAMELLIA128-SHA", "RSA", "RSA", "CAMELLIA128", "SHA1"),
    suite("PSK-AES128-CBC-SHA", "PSK", "PSK", "AES128", "SHA1"),
    suite("ECDHE-ECDSA-DES-CBC3-SHA", "ECDHE", "ECDSA", "3DES", "SHA1"),
    suite("ECDHE-RSA-DES-CBC3-SHA", "ECDHE", "RSA", "3DES", "SHA1"),
    suite("EDH-RSA-DES-CBC3-SHA", "DHE", "RSA", "3DES", "SHA1"),
    suite("DES-CBC3-SHA", "RSA", "RSA", "3DES", "SHA1"),
    suite("ECDHE-RSA-RC4-SHA", "ECDHE", "RSA", "RC4", "SHA1"),
    suite("RC4-SHA", "RSA", "RSA", "RC4", "SHA1"),
    suite("RC4-MD5", "RSA", "RSA", "RC4", "MD5"),
    suite("NULL-SHA", "RSA", "RSA", "NULL", "SHA1"),
];

/// The suites of TLS 1.3, under both spellings.
const SUITES13: [(&str, &str); 3] = [
    ("TLS_AES_256_GCM_SHA384", "TLS13-AES-256-GCM-SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS13-CHACHA20-POLY1305-SHA256"),
    ("TLS_AES_128_GCM_SHA256", "TLS13-AES-128-GCM-SHA256"),
];

/// OpenSSL names of the suites of TLS 1.2 that Weir speaks, in OpenSSL's default order.
pub fn usable() -> impl Iterator<Item = &'static str> {
    SUITES.iter().filter(|suite| suite.usable).map(|suite| suite.name)
}

/// Names of the suites of TLS 1.3.
pub fn usable13() -> impl Iterator<Item = &'static str> {
    SUITES13.iter().map(|(name, _)| *name)
}

impl Suite {
    /// The name that IANA registered, of a suite that Weir speaks.
    fn iana(&self) -> String {
        let name = self.name.replace("AES", "AES_").replace("POLY1305", "POLY1305-SHA256").replace('-', "_");
        let name = name.replacen("ECDSA_", "ECDSA_WITH_", 1).replacen("RSA_", "RSA_WITH_", 1);
        format!("TLS_{name}")
    }

    /// True if a word of a cipher string selects it; `None` if the word is unknown.
    fn is(&self, word: &str) -> Option<bool> {
        if word == self.name || (self.usable && self.iana() == word) {
            return Some(true);
        }
        let bits = |n: &str| self.cipher.ends_with(n);
        let aes = self.cipher.starts_with("AES");
        let strong = !matches!(self.cipher, "3DES" | "RC4" | "NULL");
        Some(match word {
            "ALL" => self.cipher != "NULL",
            "COMPLEMENTOFALL" | "eNULL" | "NULL" => self.cipher == "NULL",
            "DEFAULT" => strong && self.auth != "NULL",
            "COMPLEMENTOFDEFAULT" => self.cipher != "NULL" && (!strong || self.auth == "NULL"),
            "HIGH" => strong,
            "MEDIUM" => matches!(self.cipher, "3DES" | "RC4"),
            "LOW" | "EXP" | "EXPORT" | "EXPORT40" | "EXPORT56" | "DES" | "IDEA" | "SEED" | "RC2" | "ARIA"
            | "ARIA128" | "ARIA256" | "ARIAGCM" | "kDHr" | "kDHd" | "kDH" | "kECDHr" | "kECDHe" | "kECDH"
            | "aDH" | "aECDH" | "kSRP" | "SRP" | "aSRP" | "kFZA" | "aFZA" | "eFZA" | "FZA" | "KRB5"
            | "aKRB5" | "kKRB5" | "GOST89MAC" | "GOST94" | "aGOST" | "aGOST01" | "kGOST" | "SSLv2"
            | "kRSAPSK" | "RSAPSK" | "kDHEPSK" | "DHEPSK" | "kECDHEPSK" | "ECDHEPSK" | "AESCCM8" | "CBC" => {
                false
            }
            "kRSA" | "RSA" => self.exchange == "RSA",
            "aRSA" => self.auth == "RSA",
            "kDHE" | "kEDH" | "DH" => self.exchange == "DHE",
            "DHE" | "EDH" => self.exchange == "DHE" && self.auth != "NULL",
            "kECDHE" | "kEECDH" | "ECDH" => self.exchange == "ECDHE",
            "ECDHE" | "EECDH" => self.exchange == "ECDHE" && self.auth != "NULL",
            "ADH" => self.exchange == "DHE" && self.auth == "NULL",
            "AECDH" => self.exchange == "ECDHE" && self.auth == "NULL",
            "aNULL" => self.auth == "NULL",
            "aECDSA" | "ECDSA" => self.auth == "ECDSA",
            "aDSS" | "DSS" => self.auth == "DSS",
            "PSK" | "kPSK" | "aPSK" => self.auth == "PSK",
            "AES" => aes,
            "AES128" => aes && bits("128"),
            "AES256" => aes && bits("256"),
            "AESGCM" => self.cipher.starts_with("AESGCM"),
            "AESCCM" => self.cipher.starts_with("AESCCM"),
            "CHACHA20" => self.cipher == "CHACHA20",
            "CAMELLIA" => self.cipher.starts_with("CAMELLIA"),
            "CAMELLIA128" => self.cipher == "CAMELLIA128",
            "CAMELLIA256" => self.cipher == "CAMELLIA256",
            "3DES" => self.cipher == "3DES",
            "RC4" => self.cipher == "RC4",
            "MD5" => self.mac == "MD5",
            "SHA1" | "SHA" => self.mac == "SHA1",
            "SHA256" => self.mac == "SHA256",
            "SHA384" => self.mac == "SHA384",
            "TLSv1.2" => matches!(self.mac, "AEAD" | "SHA256" | "SHA384"),
            "TLSv1" | "TLSv1.0" | "SSLv3" => matches!(self.mac, "SHA1" | "MD5"),
            "FIPS" => strong && aes,
            "SUITEB128" => self.auth == "ECDSA" && self.cipher.starts_with("AESGCM"),
            "SUITEB128ONLY" => self.auth == "ECDSA" && self.cipher == "AESGCM128",
            "SUITEB192" => self.auth == "ECDSA" && self.cipher == "AESGCM256",
            _ => return SUITES.iter().any(|s| s.name == word).then_some(false),
        })
    }
}

/// What a cipher string comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Suites of TLS 1.2 that Weir speaks, in the order asked for.
    pub suites: Vec<String>,
    /// Suites of TLS 1.3 named in the string; OpenSSL itself would ignore them there.
    pub suites13: Vec<String>,
    /// Suites that the string also selects, and Weir has not.
    pub dropped: Vec<&'static str>,
    /// Words that mean nothing.
    pub unknown: Vec<String>,
    /// Words that ask for suites, of which Weir has none.
    pub lost: Vec<String>,
}

/// Resolves a cipher string.
pub fn select(text: &str) -> Selection {
    let mut out = Selection::default();
    let mut active: Vec<usize> = Vec::new();
    let mut killed = vec![false; SUITES.len()];
    for token in text.split([':', ',', ' ', ';']).filter(|t| !t.is_empty() && !t.starts_with('@')) {
        let (operator, word) = match token.as_bytes()[0] {
            operator @ (b'!' | b'-' | b'+') => (operator, &token[1..]),
            _ => (b' ', token),
        };
        if let Some((name, _)) = SUITES13.iter().find(|(a, b)| *a == word || *b == word) {
            out.suites13.push((*name).to_owned());
            continue;
        }
        let matching = matching(word, &mut out.unknown);
        match operator {
            b'!' => {
                matching.iter().for_each(|&at| killed[at] = true);
                active.retain(|at| !matching.contains(at));
            }
            b'-' => active.retain(|at| !matching.contains(at)),
            b'+' => active.sort_by_key(|at| matching.contains(at)),
            _ => {
                if !matching.iter().any(|&at| SUITES[at].usable) && !out.lost.iter().any(|lost| lost == word)
                {
                    out.lost.push(word.to_owned());
                }
                let new: Vec<usize> =
                    matching.into_iter().filter(|at| !killed[*at] && !active.contains(at)).collect();
                active.extend(new);
            }
        }
    }
    for suite in active.into_iter().map(|at| &SUITES[at]) {
        if suite.usable {
            out.suites.push(suite.name.to_owned());
        } else {
            out.dropped.push(suite.name);
        }
    }
    out
}

/// Suites that all words of a conjunction such as `ECDHE+AESGCM` select.
fn matching(conjunction: &str, unknown: &mut Vec<String>) -> Vec<usize> {
    let mut all: Vec<usize> = (0..SUITES.len()).collect();
    for word in conjunction.split('+').filter(|w| !w.is_empty()) {
        if SUITES[0].is(word).is_none() {
            unknown.push(word.to_owned());
        }
        all.retain(|&at| SUITES[at].is(word) == Some(true));
    }
    all
}

/// A protocol name of `ssl_protocols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Spoken.
    Usable(TlsVersion),
    /// Known, and not spoken for its weakness.
    Refused,
    /// No protocol.
    Unknown,
}

/// Looks a protocol name up.
pub fn protocol(name: &str) -> Protocol {
    match name {
        _ if name.eq_ignore_ascii_case("TLSv1.2") => Protocol::Usable(TlsVersion::V1_2),
        _ if name.eq_ignore_ascii_case("TLSv1.3") => Protocol::Usable(TlsVersion::V1_3),
        _ if ["TLSv1", "TLSv1.0", "TLSv1.1", "SSLv3", "SSLv2"]
            .iter()
            .any(|p| name.eq_ignore_ascii_case(p)) =>
        {
            Protocol::Refused
        }
        _ => Protocol::Unknown,
    }
}

/// A key-exchange group under its usual name, if Weir has it.
pub fn group(name: &str) -> Option<&'static str> {
    Some(match name {
        "X25519" | "x25519" => "X25519",
        "prime256v1" | "secp256r1" | "P-256" => "prime256v1",
        "secp384r1" | "P-384" => "secp384r1",
        "X25519MLKEM768" => "X25519MLKEM768",
        "SecP256r1MLKEM768" => "SecP256r1MLKEM768",
        "MLKEM768" => "MLKEM768",
        "MLKEM1024" => "MLKEM1024",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> (Vec<String>, bool) {
        let found = select(text);
        (
            found.suites.iter().map(|s| s.replace("ECDHE-", "").replace("-POLY1305", "")).collect(),
            found.dropped.is_empty(),
        )
    }

    #[test]
    fn strings_mean_what_openssl_says() {
        let all = [
            "ECDSA-AES256-GCM-SHA384",
            "RSA-AES256-GCM-SHA384",
            "ECDSA-CHACHA20",
            "RSA-CHACHA20",
            "ECDSA-AES128-GCM-SHA256",
            "RSA-AES128-GCM-SHA256",
        ];
        let all: Vec<String> = all.map(String::from).to_vec();
        assert_eq!(short("HIGH:!aNULL:!MD5"), (all.clone(), false));
        assert!(short("EECDH+AESGCM:EECDH+CHACHA20").1);
        assert_eq!(short("ECDHE+AESGCM:!ECDSA").0, ["RSA-AES256-GCM-SHA384", "RSA-AES128-GCM-SHA256"]);
        assert_eq!(
            short("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384").0,
            ["RSA-AES128-GCM-SHA256", "RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(short("AES256-SHA"), (vec![], false));
        assert_eq!(short("ALL:!ADH:!EXPORT56:RC4+RSA:+HIGH:+MEDIUM:+LOW:+SSLv2:+EXP"), (all, false));
        assert_eq!(
            short("EECDH+AES256:+EECDH+ECDSA:!SHA384:!SHA1").0,
            ["RSA-AES256-GCM-SHA384", "ECDSA-AES256-GCM-SHA384"]
        );
        assert_eq!(select("HIHG").unknown, ["HIHG"]);
        assert_eq!(short("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256").0, ["RSA-CHACHA20"]);
        assert_eq!(short("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256").0, ["ECDSA-AES128-GCM-SHA256"]);
        assert_eq!(select("DHE-RSA-AES128-SHA RC4,EDH:HIGH:!RC4").lost, ["DHE-RSA-AES128-SHA", "RC4", "EDH"]);
        assert_eq!(select("TLS13-AES-128-GCM-SHA256:HIGH").suites13, ["TLS_AES_128_GCM_SHA256"]);
    }

    #[test]
    fn protocols() {
        assert_eq!(protocol("TLSv1.3"), Protocol::Usable(TlsVersion::V1_3));
        assert_eq!(protocol("SSLv3"), Protocol::Refused);
        assert_eq!(protocol("TLS1.2"), Protocol::Unknown);
    }
}
