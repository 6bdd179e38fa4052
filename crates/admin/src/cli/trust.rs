//! Authorities and lists of revocations: `show`, `new`, `set`, `add`, `commit`, `abort` and `del` of `ssl ca-file` and `ssl crl-file`.
//!
//! Owns: the words, which are the same for both but for the names of what they are about.
//! Never: verifies a certificate by them.

use std::fmt::Write as _;
use std::sync::{MutexGuard, PoisonError};

use weir_control::Change;

use super::certificates::facts;
use super::context::{Cx, Trust, Waiting, WaitingTrust};

/// Most files that nothing uses.
const MOST_MADE: usize = 64;

/// How HAProxy's texts call one kind.
struct Words {
    /// In commands.
    command: &'static str,
    /// In messages.
    name: &'static str,
    /// In messages of transactions.
    short: &'static str,
    /// What a payload holds.
    holds: &'static str,
}

const fn words(list: bool) -> Words {
    if list {
        Words { command: "crl-file", name: "CRL file", short: "CRL", holds: "CRLs" }
    } else {
        Words { command: "ca-file", name: "CA file", short: "CA", holds: "CAs" }
    }
}

fn waiting<'a>(cx: &Cx<'a>) -> MutexGuard<'a, Waiting> {
    cx.runtime.waiting().lock().unwrap_or_else(PoisonError::into_inner)
}

fn of<const LIST: bool>(waiting: &mut Waiting) -> &mut WaitingTrust {
    &mut waiting.trust[usize::from(LIST)]
}

fn used<const LIST: bool>(cx: &Cx<'_>) -> Vec<Trust> {
    cx.runtime.trust().into_iter().filter(|one| one.list == LIST).collect()
}

/// How many certificates or lists there are in a PEM text; `None`: none, or something else.
fn count<const LIST: bool>(cx: &Cx<'_>, pem: &[u8]) -> Option<usize> {
    if LIST {
        cx.runtime.describe_lists(pem).map(|all| all.len())
    } else {
        cx.runtime.describe(pem).map(|all| all.len())
    }
}

pub(super) fn show<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    let used = used::<LIST>(cx);
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    let line = |name: &str, pem: &[u8]| match LIST {
        true => format!("{name}\n"),
        false => format!("{name} - {} certificate(s)\n", count::<LIST>(cx, pem).unwrap_or(0)),
    };
    let asked = cx.argument(0);
    if asked.is_empty() {
        let mut text = String::new();
        if let Some((name, pem)) = &own.open {
            let _ = write!(text, "# transaction\n*{}", line(name, pem.as_bytes()));
        }
        text.push_str("# filename\n");
        used.iter().for_each(|one| text.push_str(&line(&one.name, &one.pem)));
        own.made.iter().for_each(|(name, pem)| text.push_str(&line(name, pem.as_bytes())));
        return text;
    }
    let find = |name: &str| -> Option<(&'static str, Vec<u8>)> {
        if let Some(open) = name.strip_prefix('*') {
            let found = own.open.as_ref().filter(|(known, _)| known == open)?;
            return Some(("Unused", found.1.clone().into_bytes()));
        }
        let known = used.iter().find(|one| one.name == name).map(|one| ("Used", one.pem.clone()));
        let made = || own.made.iter().find(|(known, _)| known == name);
        known.or_else(|| made().map(|(_, pem)| ("Unused", pem.clone().into_bytes())))
    };
    // A number behind the name is that of one of several.
    let numbered = asked.rsplit_once(':').and_then(|(name, at)| Some((name, at.parse::<usize>().ok()?)));
    let (name, only, found) = match (find(asked), numbered) {
        (Some(found), _) => (asked, None, found),
        (None, Some((name, at))) => match find(name) {
            Some(found) => (name, Some(at), found),
            None => return not_found::<LIST>(),
        },
        (None, None) => return not_found::<LIST>(),
    };
    let (status, pem) = found;
    if LIST && pem.is_empty() {
        return format!("Filename: {name}\nStatus: Empty\n");
    }
    let Some(total) = count::<LIST>(cx, &pem) else { return String::new() };
    match only {
        Some(0) => return not_found::<LIST>(),
        // Of authorities HAProxy says nothing where there are fewer.
        Some(at) if at > total && !LIST => return String::new(),
        _ => {}
    }
    let mut text = format!("Filename: {name}\nStatus: {status}\n");
    let wanted = |at: usize| only.is_none_or(|only| only == at);
    if LIST {
        let all = cx.runtime.describe_lists(&pem).unwrap_or_default();
        for (at, one) in (1..).zip(&all).filter(|(at, _)| wanted(*at)) {
            let next = one.next.as_deref().unwrap_or("NONE");
            let _ = writeln!(
                text,
                " \nCertificate Revocation List #{at}:\nVersion {}\nSignature Algorithm: {}\nIssuer: {}\nLast Update: {}\nNext Update: {next}",
                one.version, one.algorithm, one.issuer, one.made
            );
            text.push_str(if one.revoked.is_empty() {
                "No Revoked Certificates.\n"
            } else {
                "Revoked Certificates:\n"
            });
            for (serial, date) in &one.revoked {
                let _ = writeln!(text, "    Serial Number: {serial}\n        Revocation Date: {date}");
            }
        }
    } else {
        let all = cx.runtime.describe(&pem).unwrap_or_default();
        for (at, one) in (1..).zip(&all).filter(|(at, _)| wanted(*at)) {
            let _ = writeln!(text, " \nCertificate #{at}:");
            facts(&mut text, one);
        }
    }
    text
}

fn not_found<const LIST: bool>() -> String {
    format!("Can't display the {} : Not found!\n", words(LIST).name)
}

pub(super) fn new<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    let Words { command, name: kind, .. } = words(LIST);
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return format!("'new ssl {command}' expects a filename\n");
    }
    let used = used::<LIST>(cx);
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    if used.iter().any(|one| one.name == name) || own.made.iter().any(|(known, _)| *known == name) {
        return format!("{kind} '{name}' already exists!\n");
    }
    if own.made.len() >= MOST_MADE {
        return "Too many files that nothing uses.\n".to_owned();
    }
    own.made.push((name.clone(), String::new()));
    format!("New {kind} created '{name}'!\n")
}

pub(super) fn set<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    put::<LIST>(cx, false)
}

/// `add ssl ca-file <file> <payload>`: beside those that are there.
pub(super) fn add<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    put::<LIST>(cx, true)
}

fn put<const LIST: bool>(cx: &mut Cx<'_>, adds: bool) -> String {
    let Words { command, name: kind, short, holds } = words(LIST);
    let name = cx.argument(0).to_owned();
    let (false, Some(payload)) = (name.is_empty(), cx.payload) else {
        return format!("'set ssl {command} expects a filename and {holds} as a payload\n");
    };
    let used = used::<LIST>(cx);
    let good = count::<LIST>(cx, payload.as_bytes()).is_some();
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    let refused = |why: &str| format!("{why}\nCan't update {name}!\n");
    let now =
        used.iter().find(|one| one.name == name).map(|one| String::from_utf8_lossy(&one.pem).into_owned());
    let now = now.or_else(|| own.made.iter().find(|(known, _)| *known == name).map(|(_, pem)| pem.clone()));
    let Some(now) = now else {
        return refused(&format!("Can't replace a {kind} which is not referenced by the configuration!"));
    };
    if let Some((open, _)) = own.open.as_ref().filter(|(open, _)| *open != name) {
        return refused(&format!(
            "The ongoing transaction is about '{open}' but you are trying to set '{name}'"
        ));
    }
    if !good {
        return refused("Invalid payload");
    }
    let open = own.open.take();
    let updated = open.is_some();
    let before = if adds { open.map_or(now, |(_, pem)| pem) } else { String::new() };
    let pem =
        if before.is_empty() { payload.to_owned() } else { format!("{}\n{payload}", before.trim_end()) };
    own.open = Some((name.clone(), pem));
    format!("transaction {} for {short} {name}!\n", if updated { "updated" } else { "created" })
}

pub(super) fn commit<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        // HAProxy says so of lists of revocations, too.
        return "'commit ssl ca-file expects a filename\n".to_owned();
    }
    let refused = |why: &str| format!("{why}\nCan't commit {name}!\n");
    let pem = match &of::<LIST>(&mut waiting(cx)).open {
        None => return refused("No ongoing transaction! !"),
        Some((open, _)) if *open != name => {
            return refused(&format!(
                "The ongoing transaction is about '{open}' but you are trying to set '{name}'"
            ));
        }
        Some((_, pem)) => pem.clone(),
    };
    let used = used::<LIST>(cx).iter().any(|one| one.name == name);
    if used && let Err(why) = cx.runtime.change(Change::Trust { name: name.clone(), pem: Some(pem.clone()) })
    {
        return format!("Committing {name}\n{why}\nCan't commit {name}!\n");
    }
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    own.open = None;
    if let Some((_, place)) = own.made.iter_mut().find(|(known, _)| *known == name) {
        *place = pem;
    }
    format!("Committing {name}{}\nSuccess!\n", if used { "." } else { "" })
}

pub(super) fn abort<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    let Words { command, .. } = words(LIST);
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return format!("'abort ssl {command}' expects a filename\n");
    }
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    match &own.open {
        None => "No ongoing transaction!\n".to_owned(),
        Some((open, _)) if *open != name => format!(
            "The ongoing transaction is about '{open}' but you are trying to abort a transaction for '{name}'\n"
        ),
        Some(_) => {
            own.open = None;
            format!("Transaction aborted for certificate '{name}'!\n")
        }
    }
}

pub(super) fn del<const LIST: bool>(cx: &mut Cx<'_>) -> String {
    let Words { command, name: kind, .. } = words(LIST);
    let name = cx.argument(0).to_owned();
    if name.is_empty() {
        return format!("'del ssl {command}' expects a {kind} name\n");
    }
    if used::<LIST>(cx).iter().any(|one| one.name == name) {
        return format!("Can't remove the {kind}: {kind} '{name}' in use, can't be deleted!\n\n");
    }
    let mut waiting = waiting(cx);
    let own = of::<LIST>(&mut waiting);
    let before = own.made.len();
    own.made.retain(|(known, _)| *known != name);
    match before == own.made.len() {
        true => format!("Can't remove the {kind}: {kind} '{name}' doesn't exist!\n\n"),
        false => format!("{kind} '{name}' deleted!\n"),
    }
}
