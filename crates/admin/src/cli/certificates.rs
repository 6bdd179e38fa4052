//! `show ssl cert`, and replacing certificates: `new`, `set`, `commit`, `abort` and `del`; `show ssl crt-list`.
//!
//! Owns: the words; parting a PEM text into its key and its chain.
//! Never: checks a certificate: whoever commits it does, with the key.

use std::fmt::Write as _;
use std::sync::{MutexGuard, PoisonError};

use weir_control::Change;
use weir_control::changes::KeyPair;

use super::context::{CertificateFacts, Cx, Waiting};

/// Most certificates that wait for their commit, or for somebody who uses them.
const MOST_WAITING: usize = 64;

const TOO_MANY: &str = "Too many transactions wait for their commit.\n";

fn waiting<'a>(cx: &Cx<'a>) -> MutexGuard<'a, Waiting> {
    cx.runtime.waiting().lock().unwrap_or_else(PoisonError::into_inner)
}

/// What HAProxy shows of a certificate.
pub(super) fn facts(out: &mut String, facts: &CertificateFacts) {
    let CertificateFacts { serial, not_before, not_after, names, key, sha1, subject, issuer } = facts;
    let _ = writeln!(
        out,
        "Serial: {serial}\nnotBefore: {not_before}\nnotAfter: {not_after}\nSubject Alternative Name: {}\n\
         Algorithm: {key}\nSHA1 FingerPrint: {sha1}\nSubject: {subject}\nIssuer: {issuer}",
        names.join(", ")
    );
}

pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let all = cx.runtime.certificates();
    let name = cx.argument(0);
    let waiting = waiting(cx);
    if name.is_empty() {
        let mut text = String::new();
        if !waiting.certificates.is_empty() {
            text.push_str("# transaction\n");
            waiting.certificates.iter().for_each(|(name, _)| text.push_str(&format!("*{name}\n")));
        }
        if !all.is_empty() || !waiting.made.is_empty() {
            text.push_str("# filename\n");
        }
        let names = all.iter().map(|one| &one.name).chain(waiting.made.iter().map(|(name, _)| name));
        names.for_each(|name| text.push_str(&format!("{name}\n")));
        return text;
    }
    let found = match name.strip_prefix('*') {
        Some(open) => {
            let found = waiting.certificates.iter().find(|(known, _)| known == open);
            found.map(|(_, pair)| ("Unused", Some(pair.chain.clone().into_bytes())))
        }
        None if all.iter().any(|one| one.name == name) => Some(("Used", cx.runtime.chain_of(name))),
        None => waiting.made.iter().find(|(known, _)| known == name).map(|(_, pair)| match pair {
            Some(pair) => ("Unused", Some(pair.chain.clone().into_bytes())),
            None => ("Empty", None),
        }),
    };
    let Some((status, chain)) = found else {
        return "Can't display the certificate: Not found or the certificate is a bundle!\n".to_owned();
    };
    let mut text = format!("Filename: {name}\nStatus: {status}\n");
    let described = chain.and_then(|chain| cx.runtime.describe(&chain)).unwrap_or_default();
    if let Some((own, issuers)) = described.split_first() {
        facts(&mut text, own);
        for one in issuers {
            let _ = writeln!(text, "Chain Subject: {}\nChain Issuer: {}", one.subject, one.issuer);
        }
    }
    text.push_str("OCSP Response Key: \n");
    text
}

pub(super) fn new(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return "'new ssl cert' expects a filename\n".to_owned();
    }
    let mut waiting = waiting(cx);
    if is_known(cx, &waiting, &name) {
        return format!("Certificate '{name}' already exists!\n");
    }
    if waiting.made.len() >= MOST_WAITING {
        return TOO_MANY.to_owned();
    }
    waiting.made.push((name.clone(), None));
    format!("New empty certificate store '{name}'!\n")
}

pub(super) fn del(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return "'del ssl cert' expects a certificate name\n".to_owned();
    }
    let why = |why: &str| format!("Can't remove the certificate: certificate '{name}' {why}\n");
    if cx.runtime.certificates().iter().any(|one| one.name == name) {
        return why("in use, can't be deleted!\n");
    }
    let mut waiting = waiting(cx);
    let before = waiting.made.len();
    waiting.made.retain(|(known, _)| *known != name);
    match before == waiting.made.len() {
        true => why("doesn't exist!\n"),
        false => format!("Certificate '{name}' deleted!\n"),
    }
}

fn is_known(cx: &Cx<'_>, waiting: &Waiting, name: &str) -> bool {
    let used = cx.runtime.certificates().iter().any(|one| one.name == name);
    used || waiting.made.iter().any(|(known, _)| known == name)
}

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    let (name, Some(payload)) = (cx.argument(0).to_owned(), cx.payload) else {
        return "'set ssl cert expects a filename and a certificate as a payload\n".to_owned();
    };
    if name.is_empty() {
        return "'set ssl cert expects a filename and a certificate as a payload\n".to_owned();
    }
    let mut waiting = waiting(cx);
    if !is_known(cx, &waiting, &name) {
        return format!(
            "Can't replace a certificate which is not referenced by the configuration!\nCan't update {name}!\n"
        );
    }
    let pair = match parted(payload) {
        Ok(pair) => pair,
        Err(why) => return format!("{why}\nCan't update {name}!\n"),
    };
    let known = waiting.certificates.iter().position(|(known, _)| *known == name);
    match known {
        Some(at) => {
            waiting.certificates[at].1 = pair;
            format!("Transaction updated for certificate {name}!\n")
        }
        None if waiting.certificates.len() >= MOST_WAITING => TOO_MANY.to_owned(),
        None => {
            waiting.certificates.push((name.clone(), pair));
            format!("Transaction created for certificate {name}!\n")
        }
    }
}

/// The key, and all certificates, each in the order they stand. A key that is not there is missed at the commit.
fn parted(text: &str) -> Result<KeyPair, &'static str> {
    let (mut chain, mut key) = (String::new(), String::new());
    let mut into: Option<bool> = None;
    for line in text.lines() {
        if let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) {
            into = match label {
                "CERTIFICATE" => Some(false),
                _ if label.ends_with("PRIVATE KEY") => Some(true),
                _ => None,
            };
        }
        match into {
            Some(true) => key.extend([line, "\n"]),
            Some(false) => chain.extend([line, "\n"]),
            None => {}
        }
        if line.starts_with("-----END ") {
            into = None;
        }
    }
    match chain.is_empty() && key.is_empty() {
        true => Err("unable to load certificate from file: no certificate in the payload"),
        false => Ok(KeyPair { chain, key }),
    }
}

pub(super) fn commit(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return "'commit ssl cert expects a filename\n".to_owned();
    }
    let found = waiting(cx).certificates.iter().find(|(known, _)| *known == name).cloned();
    let Some((_, pair)) = found else {
        return format!("No ongoing transaction! !\nCan't commit {name}!\n");
    };
    if pair.chain.is_empty() || pair.key.is_empty() {
        return format!(
            "The transaction must contain at least a certificate and a private key!\nCan't commit {name}!\n"
        );
    }
    let made = |waiting: &mut Waiting| {
        let place = waiting.made.iter_mut().find(|(known, _)| *known == name);
        place.map(|(_, place)| *place = Some(pair.clone())).is_some()
    };
    if made(&mut waiting(cx)) {
        waiting(cx).certificates.retain(|(known, _)| *known != name);
        return format!("Committing {name}\nSuccess!\n");
    }
    match cx.runtime.change(Change::Certificate { name: name.clone(), certificate: Some(pair.clone()) }) {
        Ok(()) => {
            waiting(cx).certificates.retain(|(known, _)| *known != name);
            format!("Committing {name}.\nSuccess!\n")
        }
        Err(why) => format!("Committing {name}\n{why}\nCan't commit {name}!\n"),
    }
}

pub(super) fn abort(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    let waiting = &mut waiting(cx).certificates;
    let before = waiting.len();
    waiting.retain(|(known, _)| *known != name);
    match (before == waiting.len(), waiting.is_empty()) {
        (false, _) => format!("Transaction aborted for certificate '{name}'!\n"),
        (true, true) => "No ongoing transaction!\n".to_owned(),
        (true, false) => format!("The ongoing transaction is not for '{name}'!\n"),
    }
}

/// `show ssl crt-list [-n] [<list>]`.
pub(super) fn lists(cx: &mut Cx<'_>) -> String {
    let all = cx.runtime.certificate_lists();
    let numbered = cx.argument(0) == "-n";
    let name = cx.argument(usize::from(numbered));
    if name.is_empty() {
        return all.iter().map(|list| format!("{}\n", list.name)).collect();
    }
    let Some(list) = all.iter().find(|list| list.name == name) else {
        return "didn't find the specified filename\n".to_owned();
    };
    let mut text = format!("# {name}\n");
    for (certificate, line, options, names) in &list.entries {
        text.push_str(certificate);
        if numbered {
            let _ = write!(text, ":{line}");
        }
        if !options.is_empty() {
            let _ = write!(text, " [{options} ]");
        }
        names.iter().for_each(|name| text.push_str(&format!(" {name}")));
        text.push('\n');
    }
    text
}
