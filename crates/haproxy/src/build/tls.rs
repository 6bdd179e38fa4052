//! TLS words: versions, suites, certificates.
//!
//! Owns: what a cipher string that leaves little is told, version bounds, where certificates lie.
//! Never: reads a key.
//! Why: rustls speaks TLS 1.2 with ECDHE and AEAD only. A list of which something usable remains is a warning where
//! something was named and lost; one of which nothing remains is an error.

use std::path::{Path, PathBuf};

use weir_diag::{Diagnostic, Span};
use weir_expr::ciphers;
use weir_expr::settings::TlsVersion;
use weir_model::{Certificate, Pem};

use super::parameters::Parameters;
use crate::Files;
use crate::findings::Findings;
use crate::read::Word;

/// Suites of a cipher string, in order. Empty only if nothing usable was named (reported).
pub(crate) fn suites(word: &Word, findings: &mut Findings) -> Vec<String> {
    let chosen = ciphers::select(word.as_str());
    if chosen.suites.is_empty() {
        let names: Vec<&str> = ciphers::usable().collect();
        findings.push(
            Diagnostic::error("haproxy::no-suite-left", "none of these TLS 1.2 suites is spoken here")
                .at(word.span)
                .help("suites without forward secrecy or without AEAD (static RSA, CBC, such as AES256-SHA) are never spoken")
                .help(format!("those that are: {}", names.join(", "))),
        );
    } else if !chosen.lost.is_empty() {
        let few: Vec<&str> = chosen.lost.iter().take(4).map(String::as_str).collect();
        let more = chosen.lost.len() - few.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let title = format!("TLS 1.2 suites that are not spoken are left out: {}{more}", few.join(", "));
        findings.push(Diagnostic::warning("haproxy::suites-left-out", title).at(word.span));
    }
    chosen.suites
}

/// TLS 1.3 suites of a list, in order.
pub(crate) fn suites13(word: &Word, findings: &mut Findings) -> Vec<String> {
    let chosen = ciphers::select(word.as_str()).suites13;
    if chosen.is_empty() {
        let names: Vec<&str> = ciphers::usable13().collect();
        findings.push(
            Diagnostic::error("haproxy::no-suite-left", "none of these TLS 1.3 suites is spoken here")
                .at(word.span)
                .help(format!("those that are: {}", names.join(", "))),
        );
    }
    chosen
}

/// Names of a list of groups; those that Weir has not are passed over, as OpenSSL passes over groups that it has not.
pub(crate) fn groups(word: &Word) -> Vec<String> {
    word.text.split(':').map(str::to_owned).collect()
}

/// Versions that parameters leave, after those of defaults. Empty: none is left (reported).
pub(crate) fn versions(all: &[&Parameters], at: Span, findings: &mut Findings) -> Vec<TlsVersion> {
    let mut versions = vec![TlsVersion::V1_2, TlsVersion::V1_3];
    // The last source that speaks of versions decides: a bind's own words stand before defaults.
    for parameters in all {
        let old = |name: &str| parameters.span(name);
        let mut own = vec![TlsVersion::V1_2, TlsVersion::V1_3];
        let mut spoken = false;
        if let Some(word) = parameters.value("ssl-min-ver") {
            spoken = true;
            let least = bound(word, findings);
            own.retain(|version| least.is_none_or(|least| *version >= least));
            if matches!(word.as_str(), "TLSv1.0" | "TLSv1.1" | "SSLv3") {
                let title = format!("{} is never spoken; TLS 1.2 is the oldest", word.text);
                findings.push(Diagnostic::warning("haproxy::old-tls", title).at(word.span));
            }
        }
        if let Some(word) = parameters.value("ssl-max-ver") {
            spoken = true;
            match word.as_str() {
                "SSLv3" | "TLSv1.0" | "TLSv1.1" => own.clear(),
                _ => {
                    let most = bound(word, findings);
                    own.retain(|version| most.is_none_or(|most| *version <= most));
                }
            }
        }
        for (name, version) in [("no-tlsv12", TlsVersion::V1_2), ("no-tlsv13", TlsVersion::V1_3)] {
            spoken |= old(name).is_some();
            own.retain(|v| old(name).is_none() || *v != version);
        }
        for (name, version) in [("force-tlsv12", TlsVersion::V1_2), ("force-tlsv13", TlsVersion::V1_3)] {
            spoken |= old(name).is_some();
            own.retain(|v| old(name).is_none() || *v == version);
        }
        if spoken {
            versions = own;
        }
    }
    if versions.is_empty() {
        findings
            .push(Diagnostic::error("haproxy::no-version-left", "no TLS version is left to speak").at(at));
    }
    versions
}

fn bound(word: &Word, findings: &mut Findings) -> Option<TlsVersion> {
    match word.as_str() {
        "TLSv1.2" => Some(TlsVersion::V1_2),
        "TLSv1.3" => Some(TlsVersion::V1_3),
        "SSLv3" | "TLSv1.0" | "TLSv1.1" => None,
        _ => {
            findings.bad_choice(word, "TLS version", &["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"]);
            None
        }
    }
}

/// A path, after the folder that relative ones start in.
pub(crate) fn path(text: &str, base: Option<&PathBuf>) -> PathBuf {
    match base {
        Some(base) if !text.starts_with('/') => base.join(text),
        _ => text.into(),
    }
}

/// A file of authorities or lists.
pub(crate) fn pem_file(word: &Word, base: Option<&PathBuf>) -> Pem {
    Pem::file(path(word.as_str(), base), Some(word.span))
}

/// The certificates among the files of a folder.
pub(super) fn inside(mut inside: Vec<PathBuf>, word: &Word, findings: &mut Findings) -> Vec<PathBuf> {
    inside.retain(|file| is_certificate(file));
    inside.sort();
    if inside.is_empty() {
        findings.push(
            Diagnostic::error("haproxy::no-certificate", "this folder holds no certificate").at(word.span),
        );
    }
    inside
}

/// HAProxy skips files beside certificates by their extensions, and hidden ones.
fn is_certificate(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let skipped = ["key", "ocsp", "issuer", "sctl", "dh"];
    !name.starts_with('.') && !path.extension().is_some_and(|ext| skipped.iter().any(|skip| ext == *skip))
}

/// A PEM file with its key in it, or beside it as `NAME.key`, and with an OCSP response beside it as `NAME.ocsp`.
pub(super) fn certificate(chain: PathBuf, span: Span, files: &dyn Files) -> Certificate {
    let beside = |extension: &str| PathBuf::from(format!("{}.{extension}", chain.display()));
    let (beside, response) = (beside("key"), beside("ocsp"));
    let staple = files.read(&response).is_ok_and(|bytes| !bytes.is_empty());
    let holds_key = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains("PRIVATE KEY-----");
    let key = match files.read(&chain).map(holds_key) {
        Ok(false) if files.read(&beside).is_ok() => beside,
        _ => chain.clone(),
    };
    let staple = staple.then(|| Pem::file(response, Some(span)));
    Certificate { chain: Pem::file(chain, Some(span)), key: Pem::file(key, None), passwords: None, staple }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_diag::SourceId;

    fn check(text: &str) -> (String, Vec<&'static str>) {
        let mut findings = Findings::default();
        let word = Word { text: text.into(), span: Span { source: SourceId(0), start: 0, end: 0 } };
        let suites = suites(&word, &mut findings).join(" ");
        (suites, findings.all.iter().map(|d| d.code).collect())
    }

    #[test]
    fn cipher_strings_become_lists() {
        assert_eq!(check("ECDHE-RSA-AES256-GCM-SHA384"), ("ECDHE-RSA-AES256-GCM-SHA384".into(), vec![]));
        assert_eq!(check("AES256-SHA").1, ["haproxy::no-suite-left"]);
        assert_eq!(check("AES256-SHA:ECDHE-RSA-AES128-GCM-SHA256").1, ["haproxy::suites-left-out"]);
        assert_eq!(
            check("ECDHE+AESGCM:!aRSA").0,
            "ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES128-GCM-SHA256"
        );
        assert_eq!(check("HIGH:!aNULL:!MD5").0.split(' ').count(), 6);
        assert_eq!(check("kEECDH+aRSA+AES128").0, "ECDHE-RSA-AES128-GCM-SHA256");
    }
}
