//! `acme`: who issues certificates that `load … acme NAME` wants.
//!
//! Owns: the words of the section.
//! Never: knows which certificates are wanted; `stores` does. Looks for the account's key; `build::stored` does.

use weir_diag::Diagnostic;
use weir_expr::settings::{AcmeChallenge, AcmeProfile, KeyKind};

use super::named::{known, name};
use crate::draft::{Draft, Issuer};
use crate::findings::Findings;
use crate::read::{Line, Section, Word};

/// Where what there is of an issuer is kept, before its name.
const STATE: &str = "/var/lib/weir/acme-";

/// What the words about keys say.
#[derive(Default)]
struct Keys {
    ecdsa: bool,
    bits: Option<Word>,
    curve: Option<Word>,
}

/// `acme NAME`.
pub(super) fn acme(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let span = section.header.keyword().span;
    let mut issuer = Issuer {
        state: Some(format!("{STATE}{name}").into()),
        name,
        span,
        directory: String::new(),
        contact: Vec::new(),
        challenge: AcmeChallenge::Http01,
        profile: None,
        key: KeyKind::Rsa2048,
        account_key: None,
    };
    let mut keys = Keys::default();
    for line in section.lines.iter().filter(|line| line.prefix == crate::read::Prefix::Plain) {
        if !known(line, "acme", findings) {
            continue;
        }
        let Some(value) = line.word(1) else {
            findings.missing(line, "a value");
            continue;
        };
        match line.keyword().as_str() {
            "account-key" => issuer.account_key = Some(value.clone()),
            word => set(word, value, line, &mut issuer, &mut keys, findings),
        }
    }
    if issuer.directory.is_empty() {
        return findings
            .missing(&section.header, "its `directory`, the URL at which the authority says what it offers");
    }
    issuer.key = kind(&keys, findings);
    if let Some(first) = draft.issuers.iter().find(|other| other.name == issuer.name) {
        let title = format!("there are two acme sections `{}`", issuer.name);
        let found = Diagnostic::error("haproxy::same-name", title).at(span);
        return findings.push(found.also(first.span, "first here"));
    }
    draft.issuers.push(issuer);
}

fn set(word: &str, value: &Word, line: &Line, issuer: &mut Issuer, keys: &mut Keys, findings: &mut Findings) {
    match word {
        "directory" => issuer.directory.clone_from(&value.text),
        "contact" => {
            let url =
                if value.text.contains(':') { value.text.clone() } else { format!("mailto:{}", value.text) };
            issuer.contact.push(url);
        }
        "challenge" => match value.text.to_ascii_lowercase().as_str() {
            "http-01" => issuer.challenge = AcmeChallenge::Http01,
            "tls-alpn-01" => issuer.challenge = AcmeChallenge::TlsAlpn01,
            "dns-01" | "dns-persist-01" => {
                findings.not_built(
                    value.span,
                    &value.text,
                    "names are proven by HTTP-01 or TLS-ALPN-01 only",
                );
            }
            _ => findings.bad_choice(value, "challenge", &["HTTP-01", "TLS-ALPN-01"]),
        },
        "keytype" => match value.text.to_ascii_uppercase().as_str() {
            "RSA" => keys.ecdsa = false,
            "ECDSA" => keys.ecdsa = true,
            _ => findings.bad_choice(value, "keytype", &["RSA", "ECDSA"]),
        },
        "curves" => keys.curve = Some(value.clone()),
        "bits" => keys.bits = Some(value.clone()),
        "profile" => {
            issuer.profile = Some(AcmeProfile { name: value.text.clone(), required: true });
        }
        "state-path" => issuer.state = (value.as_str() != "off").then(|| value.text.clone().into()),
        "map" => findings.tuning(
            line.keyword().span,
            "map",
            "requests of the authority are answered before rules, which therefore need no map",
        ),
        "reuse-key" => findings.tuning(line.keyword().span, "reuse-key", "each certificate has a new key"),
        _ => findings.tuning(line.keyword().span, word, "it is about the challenge DNS-01"),
    }
}

fn kind(keys: &Keys, findings: &mut Findings) -> KeyKind {
    if keys.ecdsa {
        return match keys.curve.as_ref().map_or("P-384", |word| word.as_str()) {
            "P-256" | "prime256v1" | "secp256r1" => KeyKind::Ecdsa256,
            "P-384" | "secp384r1" => KeyKind::Ecdsa384,
            "P-521" | "secp521r1" => KeyKind::Ecdsa521,
            _ => {
                if let Some(word) = &keys.curve {
                    findings.bad_choice(word, "curves", &["P-256", "P-384", "P-521"]);
                }
                KeyKind::Ecdsa384
            }
        };
    }
    match keys.bits.as_ref().map_or("2048", |word| word.as_str()) {
        "2048" => KeyKind::Rsa2048,
        "3072" => KeyKind::Rsa3072,
        "4096" => KeyKind::Rsa4096,
        _ => {
            if let Some(word) = &keys.bits {
                findings.bad_choice(word, "bits", &["2048", "3072", "4096"]);
            }
            KeyKind::Rsa2048
        }
    }
}
