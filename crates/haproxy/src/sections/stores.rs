//! `crt-store`: certificates under names of their own.
//!
//! Owns: what a `load` line names.
//! Never: reads a file, or says where relative paths start; `build::stored` does.

use weir_diag::Diagnostic;

use super::named::known;
use crate::draft::{Draft, StoredCertificate};
use crate::findings::Findings;
use crate::read::{Line, Section, Word};

const LOAD: &[&str] =
    &["crt", "key", "ocsp", "issuer", "sctl", "alias", "ocsp-update", "acme", "domains", "generate-dummy"];

/// `crt-store`; its name may be left out.
pub(super) fn crt_store(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let store = section.header.text(1).to_owned();
    let mut bases = (None, None);
    for line in &section.lines {
        if !known(line, "crt-store", findings) {
            continue;
        }
        match (line.keyword().as_str(), line.word(1)) {
            ("crt-base", Some(folder)) => bases.0 = Some(folder.text.clone().into()),
            ("key-base", Some(folder)) => bases.1 = Some(folder.text.clone().into()),
            ("load", Some(_)) => {
                let Some(mut one) = load(line, findings) else { continue };
                one.store.clone_from(&store);
                one.bases.clone_from(&bases);
                add(draft, one, findings);
            }
            (_, _) => findings.missing(line, "a value"),
        }
    }
}

fn load(line: &Line, findings: &mut Findings) -> Option<StoredCertificate> {
    let (mut chain, mut key, mut ocsp, mut alias) = (None, None, None, None);
    let (mut issuer, mut domains) = (None, None);
    for pair in line.from(1).chunks(2) {
        let [word, value] = pair else {
            findings.missing(line, &format!("a value after `{}`", pair[0].text));
            return None;
        };
        match word.as_str() {
            "crt" => chain = Some(value.clone()),
            "key" => key = Some(value.clone()),
            "ocsp" => ocsp = Some(value.clone()),
            "alias" => alias = Some(value.clone()),
            // Who issued it is told by the chain, and answers are not verified by their readers' side.
            "issuer" => {}
            "sctl" => findings.tuning(
                word.span,
                "sctl",
                "timestamps are shown where the certificate itself or its OCSP response holds them",
            ),
            "ocsp-update" => updates(word, value, findings),
            "acme" => issuer = Some(value.clone()),
            "domains" => domains = Some(value.clone()),
            "generate-dummy" => {}
            _ => {
                findings.unknown(word, "parameter of `load`", LOAD.iter().copied());
                return None;
            }
        }
    }
    let Some(chain) = chain else {
        findings.missing(line, "the certificate: `crt FILE`");
        return None;
    };
    let issued = issuer.map(|issuer| (issuer, domains));
    Some(StoredCertificate { store: String::new(), alias, chain, key, ocsp, issued, bases: (None, None) })
}

fn updates(word: &Word, value: &Word, findings: &mut Findings) {
    match value.as_str() {
        "on" => findings.tuning(word.span, "ocsp-update", "OCSP answers are not fetched"),
        "off" => {}
        _ => findings.bad_choice(value, "ocsp-update", &["on", "off"]),
    }
}

fn add(draft: &mut Draft, one: StoredCertificate, findings: &mut Findings) {
    let called = |one: &StoredCertificate| one.alias.as_ref().unwrap_or(&one.chain).clone();
    let own = called(&one);
    let same = |other: &&StoredCertificate| other.store == one.store && called(other).text == own.text;
    if let Some(first) = draft.stored.iter().find(same) {
        let title = format!("`@{}/{}` is loaded twice", one.store, own.text);
        let found = Diagnostic::error("haproxy::same-name", title).at(own.span);
        return findings.push(found.also(called(first).span, "first here"));
    }
    draft.stored.push(one);
}
