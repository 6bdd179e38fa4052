//! `peers`: processes that share stick tables.
//!
//! Owns: who they are, where they are, and the tables of the section's own.
//! Never: finds out which of them is this process; `build` does.

use weir_diag::Diagnostic;

use super::named::{known, name};
use crate::draft::{Draft, Peers};
use crate::findings::Findings;
use crate::read::{Line, Section};
use crate::take::sticks;

/// `peers`.
pub(crate) fn peers(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    if name(section, findings).is_none() {
        return;
    }
    let Some(word) = section.header.word(1) else { return };
    if draft.peers.iter().any(|peers| peers.name.text == word.text) {
        let title = format!("there are two peers sections named `{}`", word.text);
        return findings.push(Diagnostic::error("haproxy::same-name", title).at(word.span));
    }
    let mut peers =
        Peers { name: word.clone(), members: Vec::new(), bind: None, tables: Vec::new(), disabled: false };
    for line in &section.lines {
        if known(line, "peers", findings) {
            one(&mut peers, line, findings);
        }
    }
    draft.peers.push(peers);
}

fn one(peers: &mut Peers, line: &Line, findings: &mut Findings) {
    match (line.keyword().as_str(), line.word(1)) {
        ("peer" | "server", Some(name)) => {
            // What follows the address are words of servers; without an address they follow the name.
            let address = line.word(2).filter(|word| word.text.contains([':', '/', '@']));
            without_tls(line, findings);
            peers.members.push((name.clone(), address.cloned()));
        }
        ("bind", Some(address)) => {
            without_tls(line, findings);
            if peers.bind.is_some() {
                findings.ignored(line.span(), "peers have one `bind`: the last one counts".to_owned());
            }
            peers.bind = Some(address.clone());
        }
        ("default-bind" | "default-server", _) => without_tls(line, findings),
        ("table", Some(name)) => {
            if let Some(table) = sticks::definition(line, line.from(2), findings) {
                peers.tables.push((name.clone(), table.config, table.form));
            }
        }
        ("disabled" | "disable", _) => peers.disabled = true,
        ("enabled" | "enable", _) => peers.disabled = false,
        ("peer" | "server" | "bind" | "table", None) => findings.missing(line, "what it is called"),
        // `log`, `description`; `shards`: every peer gets every entry.
        ("shards", _) => findings.tuning(line.span(), "shards", "every peer gets every entry"),
        _ => {}
    }
}

/// Peers whose connections are to be encrypted are not called in plain text.
fn without_tls(line: &Line, findings: &mut Findings) {
    if let Some(word) = line.words.iter().find(|word| word.as_str() == "ssl") {
        findings.not_built(word.span, "ssl between peers", "it decides who reads and writes the tables");
    }
}
