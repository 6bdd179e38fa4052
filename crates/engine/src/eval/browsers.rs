//! What browser a request comes from, as nginx's browser module tells.
//!
//! Owns: reading User-Agent.
//! Driven by: `facts`.

use weir_expr::settings::{Browsers, KnownBrowser as Known, browser_version};

/// Whether a browser is a modern one by these rules.
pub(super) fn is_modern(rules: &Browsers, agent: Option<&[u8]>) -> bool {
    let Some(agent) = agent else { return rules.unlisted };
    for (known, least) in &rules.modern {
        if let Some(version) = version(*known, agent) {
            return version >= *least;
        }
    }
    let netscape4 = || agent.len() > 11 && agent.starts_with(b"Mozilla/") && matches!(agent[8], b'1'..=b'4');
    let ancient =
        rules.netscape4 && netscape4() || rules.ancient.iter().any(|text| has(agent, text.as_bytes()));
    !ancient && rules.unlisted
}

/// Whether it is an MSIE, and not one that Opera calls itself.
pub(crate) fn is_msie(agent: &[u8]) -> bool {
    let at = memchr::memmem::find(agent, b"MSIE ");
    at.is_some_and(|at| at + 7 < agent.len()) && !has(agent, b"Opera")
}

/// Whether it is an MSIE before 6 with its second service pack.
pub(crate) fn is_old_msie(agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(agent, b"MSIE ").filter(|_| is_msie(agent)) else { return false };
    match &agent[at + 5..at + 7] {
        b"4." | b"5." => true,
        b"6." => !has(&agent[at + 7..], b"SV1"),
        _ => false,
    }
}

/// Whether it is a Chrome.
pub(crate) fn is_chrome(agent: &[u8]) -> bool {
    !has(agent, b"Gecko/") && has(agent, b"Chrome/") && !is_msie(agent) && !has(agent, b"Opera")
}

/// Whether it is a Safari on a system of Apple's.
pub(crate) fn is_safari_on_mac(agent: &[u8]) -> bool {
    has(agent, b"Safari/")
        && has(agent, b"Mac OS X")
        && !["Gecko/", "Chrome/", "Opera"].iter().any(|other| has(agent, other.as_bytes()))
        && !is_msie(agent)
}

fn has(agent: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(agent, text).is_some()
}

/// The version of a browser, if it is that one; in millionths, each part of it two digits.
fn version(known: Known, agent: &[u8]) -> Option<u64> {
    let (after, mark, length) = match known {
        Known::Opera => (0, &b"Opera"[..], "Opera ".len()),
        Known::Msie => ("Mozilla/4.0 (compatible; ".len(), &b"MSIE "[..], "MSIE ".len()),
        Known::Gecko => ("Mozilla/5.0 (".len(), &b"rv:"[..], "rv:".len()),
        Known::Safari => ("Mozilla/5.0 (".len(), &b"Safari/"[..], "Safari/".len()),
        Known::Konqueror => ("Mozilla/5.0 (compatible; ".len(), &b"Konqueror/"[..], "Konqueror/".len()),
    };
    let searched = agent.get(after..)?;
    let at = memchr::memmem::find(searched, mark)?;
    let digits = searched.get(at + length..).unwrap_or_default();
    let text = digits.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let text: Vec<u8> = text.copied().collect();
    Some(browser_version(&text))
}
