//! Sections that are no proxies.

use std::collections::BTreeMap;

use weir_diag::Diagnostic;

use crate::draft::{Draft, ErrorAnswer, Resolvers, Userlist};
use crate::findings::Findings;
use crate::read::{Line, Section, Word};
use crate::table::section_words;
use crate::values::time;

fn name(section: &Section, findings: &mut Findings) -> Option<String> {
    let name = section.header.word(1).map(|word| word.text.clone());
    if name.is_none() {
        findings.missing(&section.header, "a name");
    }
    name
}

/// True if the line's word belongs to the section; says so if not.
fn known(line: &Line, section: &str, findings: &mut Findings) -> bool {
    let Some(words) = section_words(section) else { return true };
    let word = line.keyword();
    if words.contains(&word.as_str()) || line.prefix != crate::read::Prefix::Plain {
        return true;
    }
    let title = format!("unknown keyword `{}` in `{section}`", word.text);
    let found = Diagnostic::error("haproxy::unknown-keyword", title).at(word.span);
    findings.push(found.suggest(&word.text, word.span, words.iter().copied()));
    false
}

/// A section that does nothing here, or should and cannot.
pub(crate) fn other(section: &Section, findings: &mut Findings) {
    let kind = section.kind.name();
    let span = section.header.keyword().span;
    match section.kind {
        crate::table::SectionKind::Missing(_) => {
            findings.not_built(span, kind, "what this section provides is missed by whatever names it");
        }
        _ => findings.tuning(span, kind, idle(kind)),
    }
    for line in &section.lines {
        known(line, kind, findings);
    }
}

fn idle(kind: &str) -> &'static str {
    match kind {
        "peers" => "there are no stick tables to share",
        "ring" => "log lines meant for it go nowhere",
        "program" => "programs are started by the service manager",
        "cache" => "answers come from servers; there is no cache yet",
        "mailers" => "no mail is sent",
        "traces" => "nothing is traced",
        _ => "lines are written when an exchange ends, in the proxy's own format",
    }
}

/// `userlist`.
pub(crate) fn userlist(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let mut list = Userlist::default();
    for line in &section.lines {
        if !known(line, "userlist", findings) {
            continue;
        }
        let Some(who) = line.word(1) else {
            findings.missing(line, "a name");
            continue;
        };
        match line.keyword().as_str() {
            "group" => list.groups.push((who.text.clone(), named(line, "users"))),
            _ => user(&mut list, line, who, findings),
        }
    }
    draft.userlists.insert(name, list);
}

fn named(line: &Line, key: &str) -> Vec<String> {
    let at = line.words.iter().position(|word| word.as_str() == key);
    let text = at.map_or("", |at| line.text(at + 1));
    text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn user(list: &mut Userlist, line: &Line, who: &Word, findings: &mut Findings) {
    let password =
        line.words.iter().position(|word| matches!(word.as_str(), "password" | "insecure-password"));
    let Some((at, password)) = password.and_then(|at| Some((at, line.word(at + 1)?))) else {
        findings.missing(line, "`password` or `insecure-password` with the password");
        return;
    };
    let hashed = line.text(at) == "password";
    list.users.push((who.text.clone(), password.text.clone(), hashed, named(line, "groups")));
}

/// `resolvers`.
pub(crate) fn resolvers(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let mut resolvers = Resolvers::default();
    for line in &section.lines {
        if !known(line, "resolvers", findings) {
            continue;
        }
        match (line.keyword().as_str(), line.text(1), line.words.len()) {
            ("nameserver", _, 3..) => resolvers.servers.push(line.words[2].clone()),
            ("nameserver", ..) => findings.missing(line, "a name and an address"),
            ("parse-resolv-conf", ..) => resolvers.system = true,
            ("hold", "valid", 3..) => resolvers.hold_valid = findings.value(&line.words[2], time::millis),
            ("timeout", "resolve", 3..) => resolvers.timeout = findings.value(&line.words[2], time::millis),
            _ => {}
        }
    }
    draft.resolvers.insert(name, resolvers);
}

/// `http-errors`.
pub(crate) fn http_errors(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let mut errors = BTreeMap::new();
    for line in &section.lines {
        if !known(line, "http-errors", findings) {
            continue;
        }
        match (line.word(1), line.word(2)) {
            (Some(status), Some(file)) => {
                if let Some(status) = findings.value(status, super::proxy::error_status) {
                    errors.insert(status, ErrorAnswer::File(file.text.clone().into()));
                }
            }
            _ => findings.missing(line, "a status and a file"),
        }
    }
    draft.http_errors.insert(name, errors);
}
