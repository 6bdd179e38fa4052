//! `show ssl cert`, and replacing certificates: `set`, `commit` and `abort`.
//!
//! Owns: the words; parting a PEM text into its key and its chain.
//! Never: checks a certificate: whoever commits it does, with the key.

use std::sync::{MutexGuard, PoisonError};

use weir_control::Change;
use weir_control::changes::KeyPair;

use super::context::Cx;

/// Most certificates that wait for their commit.
const MOST_WAITING: usize = 64;

type Waiting = Vec<(String, KeyPair)>;

fn waiting<'a>(cx: &Cx<'a>) -> MutexGuard<'a, Waiting> {
    cx.runtime.waiting().lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn show(cx: &mut Cx<'_>) -> String {
    let all = cx.runtime.certificates();
    let name = cx.argument(0);
    if name.is_empty() {
        let waiting = waiting(cx);
        let transaction = match waiting.is_empty() {
            true => String::new(),
            false => waiting
                .iter()
                .fold("# transaction\n".to_owned(), |text, (name, _)| format!("{text}*{name}\n")),
        };
        if all.is_empty() {
            return transaction;
        }
        let mut text = format!("{transaction}# filename\n");
        all.iter().for_each(|one| text.push_str(&format!("{}\n", one.name)));
        return text;
    }
    match all.iter().find(|one| one.name == name) {
        Some(one) => {
            let source = if one.replaced { "given while running" } else { "the configuration's" };
            format!("Filename: {}\nStatus: Used\nSource: {source}\n", one.name)
        }
        None => "Can't display the certificate: Not found or the certificate is a bundle!\n".to_owned(),
    }
}

pub(super) fn set(cx: &mut Cx<'_>) -> String {
    let (name, Some(payload)) = (cx.argument(0).to_owned(), cx.payload) else {
        return "'set ssl cert expects a filename and a certificate as a payload\n".to_owned();
    };
    if name.is_empty() {
        return "'set ssl cert expects a filename and a certificate as a payload\n".to_owned();
    }
    if !cx.runtime.certificates().iter().any(|one| one.name == name) {
        return format!(
            "Can't replace a certificate which is not referenced by the configuration!\nCan't update {name}!\n"
        );
    }
    let pair = match parted(payload) {
        Ok(pair) => pair,
        Err(why) => return format!("{why}\nCan't update {name}!\n"),
    };
    let mut waiting = waiting(cx);
    let known = waiting.iter().position(|(known, _)| *known == name);
    match known {
        Some(at) => {
            waiting[at].1 = pair;
            format!("Transaction updated for certificate {name}!\n")
        }
        None if waiting.len() >= MOST_WAITING => "Too many transactions wait for their commit.\n".to_owned(),
        None => {
            waiting.push((name.clone(), pair));
            format!("Transaction created for certificate {name}!\n")
        }
    }
}

/// The key, and all certificates, each in the order they stand.
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
    match (chain.is_empty(), key.is_empty()) {
        (true, _) => Err("unable to load certificate from file: no certificate in the payload"),
        (_, true) => Err("No Private Key found"),
        (false, false) => Ok(KeyPair { chain, key }),
    }
}

pub(super) fn commit(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return "'commit ssl cert expects a filename\n".to_owned();
    }
    let found = waiting(cx).iter().find(|(known, _)| *known == name).cloned();
    let Some((_, pair)) = found else {
        return format!("No ongoing transaction! !\nCan't commit {name}!\n");
    };
    match cx.runtime.change(Change::Certificate { name: name.clone(), certificate: Some(pair) }) {
        Ok(()) => {
            waiting(cx).retain(|(known, _)| *known != name);
            format!("Committing {name}.\nSuccess!\n")
        }
        Err(why) => format!("Committing {name}\n{why}\nCan't commit {name}!\n"),
    }
}

pub(super) fn abort(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    let mut waiting = waiting(cx);
    let before = waiting.len();
    waiting.retain(|(known, _)| *known != name);
    match (before == waiting.len(), waiting.is_empty()) {
        (false, _) => format!("Transaction aborted for certificate '{name}'!\n"),
        (true, true) => "No ongoing transaction!\n".to_owned(),
        (true, false) => format!("The ongoing transaction is not for '{name}'!\n"),
    }
}
