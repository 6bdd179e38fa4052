//! Sections that are no proxies.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model::settings::MemoryCache;

use crate::draft::{Draft, ErrorAnswer, Resolvers, Userlist};
use crate::findings::Findings;
use crate::read::{Line, Section, SectionKind, Word};
use crate::take::proxy::error_status;
use crate::values::{size, time};
use crate::words::section_words;

pub(super) fn name(section: &Section, findings: &mut Findings) -> Option<String> {
    let name = section.header.word(1).map(|word| word.text.clone());
    if name.is_none() {
        findings.missing(&section.header, "a name");
    }
    name
}

/// True if the line's word belongs to the section; says so if not.
pub(super) fn known(line: &Line, section: &str, findings: &mut Findings) -> bool {
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
        SectionKind::Missing(_) => {
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
        "program" => "programs are started by the service manager",
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
        match (line.keyword().as_str(), line.word(1), line.word(2)) {
            ("nameserver", Some(_), Some(address)) => resolvers.servers.push(address.clone()),
            ("nameserver", ..) => findings.missing(line, "a name and an address"),
            ("parse-resolv-conf", ..) => resolvers.system = true,
            ("resolve_retries", Some(number), _) => {
                let retries = findings.value(number, |text| size::count(text, 1..=100));
                resolvers.retries = retries.and_then(|n| u32::try_from(n).ok()).unwrap_or(resolvers.retries);
            }
            // Answers that are larger are asked for again by TCP, so the size decides nothing.
            ("accepted_payload_size", Some(number), _) => {
                findings.value(number, |text| size::count(text, 512..=65_535));
            }
            ("resolve_retries" | "accepted_payload_size", ..) => findings.missing(line, "a number"),
            ("hold" | "timeout", Some(what), Some(value)) => {
                let time = findings.value(value, time::millis);
                match (resolvers.time(line.keyword().as_str(), what.as_str()), time) {
                    (Some(place), Some(time)) => *place = time,
                    (None, _) => findings.bad_value(what, format!("`{}` is no time of resolvers", what.text)),
                    (Some(_), None) => {}
                }
            }
            _ => findings.missing(line, "what it is for, and a time"),
        }
    }
    draft.resolvers.insert(name, resolvers);
}

impl Resolvers {
    /// The time that `hold` or `timeout` sets.
    fn time(&mut self, keyword: &str, what: &str) -> Option<&mut Duration> {
        Some(match (keyword, what) {
            ("timeout", "resolve") => &mut self.resolve,
            ("timeout", "retry") => &mut self.retry,
            ("hold", "valid") => &mut self.valid,
            ("hold", "nx") => &mut self.holds.missing,
            ("hold", "refused") => &mut self.holds.refused,
            ("hold", "timeout") => &mut self.holds.timeout,
            ("hold", "other") => &mut self.holds.other,
            ("hold", "obsolete") => &mut self.holds.obsolete,
            _ => return None,
        })
    }
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
                if let Some(status) = findings.value(status, error_status) {
                    errors.insert(status, ErrorAnswer::File(file.text.clone().into()));
                }
            }
            _ => findings.missing(line, "a status and a file"),
        }
    }
    draft.http_errors.insert(name, errors);
}

/// Most megabytes of a cache.
const MOST_MEGABYTES: u64 = 4095;

/// `cache`.
pub(crate) fn cache(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    let Some(name) = name(section, findings) else { return };
    let span = section.header.keyword().span;
    if draft.caches.iter().any(|cache| cache.name == name) {
        let title = format!("there are two caches named `{name}`");
        return findings.push(Diagnostic::error("haproxy::same-name", title).at(section.header.span()));
    }
    let (mut total, mut object, mut max_age) = (None, None, Duration::from_secs(60));
    let (mut varies, mut variants) = (false, 10);
    for line in &section.lines {
        if !known(line, "cache", findings) {
            continue;
        }
        let Some(word) = line.word(1) else {
            findings.missing(line, "a value");
            continue;
        };
        let mut number = |range| findings.value(word, |text| size::count(text, range));
        match line.keyword().as_str() {
            "total-max-size" => total = number(1..=MOST_MEGABYTES),
            "max-object-size" => object = number(1..=MOST_MEGABYTES << 19).map(|bytes| (bytes, word)),
            "max-age" => max_age = number(0..=i32::MAX as u64).map_or(max_age, Duration::from_secs),
            "max-secondary-entries" => variants = number(1..=u64::from(u32::MAX)).unwrap_or(variants),
            _ => match word.as_str() {
                "on" => varies = true,
                "off" => varies = false,
                _ => findings.bad_choice(word, "process-vary", &["on", "off"]),
            },
        }
    }
    let Some(total) = total.map(|megabytes| megabytes << 20) else {
        let title = format!("cache `{name}` has no size");
        let help = "say how many megabytes it may take: `total-max-size 4`";
        return findings.push(Diagnostic::error("haproxy::missing", title).at(span).help(help));
    };
    if let Some((bytes, word)) = object.filter(|(bytes, _)| *bytes > total / 2) {
        findings.bad_value(word, format!("{bytes} bytes are more than half of the cache ({total} bytes)"));
    }
    draft.caches.push(MemoryCache {
        name,
        total,
        object: object.map_or(total / 256, |(bytes, _)| bytes),
        max_age,
        variants: varies.then(|| usize::try_from(variants).unwrap_or(usize::MAX)),
    });
}
