//! Sections into a draft: each line to the function of `take` that its keyword's entry names.
//!
//! Owns: which words may stand where, how many arguments they take, what `no` and `default` may stand before.
//! Never: compiles conditions or formats; `build` does.
//! Driven by: `load`, once all files are read.

mod acme;
mod applications;
mod logs;
mod named;
mod peers;
mod stores;

use std::collections::BTreeMap;

use weir_diag::Diagnostic;

use crate::draft::{Draft, Proxy, ProxyKind, Settings};
use crate::findings::{Findings, list};
use crate::read::{Line, Prefix, Section, SectionKind, Word};
use crate::table::{keywords, lookup};
use crate::take::proxy::error_status;
use crate::words::{Call, FB, Keyword, MANY, Sections, Status};

/// Takes all sections in.
pub(crate) fn take_all(sections: &[Section], findings: &mut Findings) -> Draft {
    let mut taker = Taker { draft: Draft::default(), defaults: Vec::new(), names: BTreeMap::new(), findings };
    for section in sections {
        taker.section(section);
    }
    errorfiles(&mut taker.draft, taker.findings);
    log_pools(&mut taker.draft, taker.findings);
    taker.draft
}

/// Backends in `mode log` carry no traffic: they are targets of `log`, and no proxies.
fn log_pools(draft: &mut Draft, findings: &mut Findings) {
    let Draft { proxies, log_pools, .. } = draft;
    proxies.retain(|proxy| {
        if !proxy.settings.carries_logs {
            return true;
        }
        match proxy.kind.is_frontend() {
            true => {
                let title = "`mode log` belongs into backends; `log-forward` sections take messages in";
                findings.push(Diagnostic::error("haproxy::bad-value", title).at(proxy.name.span));
            }
            false => log_pools.push(logs::pool(proxy, findings)),
        }
        false
    });
}

/// `errorfiles NAME [STATUS …]`: pages of `http-errors` sections, which may stand anywhere.
fn errorfiles(draft: &mut Draft, findings: &mut Findings) {
    let Draft { proxies, http_errors, .. } = draft;
    for proxy in proxies {
        for line in std::mem::take(&mut proxy.settings.errorfiles) {
            let Some(name) = line.word(1) else { continue };
            let Some(pages) = http_errors.get(&name.text) else {
                let title = format!("no http-errors section is named `{}`", name.text);
                let found = Diagnostic::error("haproxy::unknown-name", title).at(name.span);
                findings.push(found.suggest(&name.text, name.span, http_errors.keys().map(String::as_str)));
                continue;
            };
            let only: Vec<u16> =
                line.from(2).iter().filter_map(|word| findings.value(word, error_status)).collect();
            for (status, answer) in
                pages.iter().filter(|(status, _)| only.is_empty() || only.contains(status))
            {
                proxy.settings.errors.entry(*status).or_insert_with(|| answer.clone());
            }
        }
    }
}

struct Taker<'a> {
    draft: Draft,
    /// All `defaults` so far; the last one without a reference by name holds for what follows.
    defaults: Vec<Proxy>,
    /// Where names of frontends (true) and of backends (false) were first written.
    names: BTreeMap<(bool, String), weir_diag::Span>,
    findings: &'a mut Findings,
}

impl Taker<'_> {
    fn section(&mut self, section: &Section) {
        match section.kind {
            SectionKind::Global => self.global(section),
            SectionKind::Defaults => self.defaults(section),
            SectionKind::Frontend => self.proxy(section, ProxyKind::Frontend),
            SectionKind::Backend => self.proxy(section, ProxyKind::Backend),
            SectionKind::Listen => self.proxy(section, ProxyKind::Listen),
            SectionKind::Userlist => named::userlist(&mut self.draft, section, self.findings),
            SectionKind::Resolvers => named::resolvers(&mut self.draft, section, self.findings),
            SectionKind::HttpErrors => named::http_errors(&mut self.draft, section, self.findings),
            SectionKind::Peers => peers::peers(&mut self.draft, section, self.findings),
            SectionKind::FcgiApp => applications::fcgi_app(&mut self.draft, section, self.findings),
            SectionKind::CrtStore => stores::crt_store(&mut self.draft, section, self.findings),
            SectionKind::Acme => acme::acme(&mut self.draft, section, self.findings),
            SectionKind::Cache => named::cache(&mut self.draft, section, self.findings),
            SectionKind::Ring => logs::ring(&mut self.draft, section, self.findings),
            SectionKind::Idle(_) | SectionKind::Missing(_) => named::other(section, self.findings),
        }
    }

    fn global(&mut self, section: &Section) {
        for line in &section.lines {
            let Some(call) = admit(line, Sections::GLOBAL, "global", self.findings) else { continue };
            if let Status::Global(taker) = call.keyword.status {
                taker(&mut self.draft.global, &call, self.findings);
            }
        }
    }

    fn defaults(&mut self, section: &Section) {
        let header = &section.header;
        let name = header.word(1).filter(|word| word.as_str() != "from").cloned();
        let base = self.base(header, usize::from(name.is_some()) + 1).map(|base| base.settings.clone());
        let name = name.unwrap_or_else(|| Word { text: String::new(), span: header.keyword().span });
        let mut proxy = new_proxy(ProxyKind::Defaults, name, base.unwrap_or_default());
        self.lines(&mut proxy, section);
        self.defaults.push(proxy);
    }

    /// The defaults that a header names by `from NAME` at a place.
    fn base(&mut self, header: &Line, at: usize) -> Option<&Proxy> {
        if header.text(at) != "from" {
            return None;
        }
        let Some(word) = header.word(at + 1) else {
            self.findings.missing(header, "the name of a defaults section after `from`");
            return None;
        };
        let found = self.defaults.iter().rposition(|d| d.name.text == word.text);
        if found.is_none() {
            let names: Vec<&str> =
                self.defaults.iter().map(|d| d.name.as_str()).filter(|n| !n.is_empty()).collect();
            self.findings.push(
                Diagnostic::error(
                    "haproxy::unknown-name",
                    format!("no defaults section `{}` stands above", word.text),
                )
                .at(word.span)
                .suggest(&word.text, word.span, names),
            );
        }
        found.map(|at| &self.defaults[at])
    }

    fn proxy(&mut self, section: &Section, kind: ProxyKind) {
        let header = &section.header;
        let Some(name) = header.word(1).cloned() else {
            self.findings.missing(header, "a name");
            return;
        };
        if let Some(bad) = name.text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.:".contains(*c))) {
            self.findings.bad_value(
                &name,
                format!("`{bad}` may not stand in a name; letters, digits and - _ . : may"),
            );
        }
        self.check_name(kind, &name);
        let named = (2..header.words.len()).find(|&at| header.text(at) == "from");
        let settings = match named {
            Some(at) => self.base(header, at).map(|base| base.settings.clone()),
            None => self.defaults.last().map(|base| base.settings.clone()),
        };
        let mut proxy = new_proxy(kind, name, settings.unwrap_or_default());
        self.old_address(&mut proxy, header, named.unwrap_or(header.words.len()));
        self.lines(&mut proxy, section);
        self.draft.proxies.push(proxy);
    }

    /// `listen NAME ADDRESS:PORT …`, the form HAProxy 1.9 removed.
    fn old_address(&mut self, proxy: &mut Proxy, header: &Line, end: usize) {
        let Some(words) = header.words.get(2..end).filter(|words| !words.is_empty()) else { return };
        let span = words[0].span;
        if !words[0].text.contains([':', '/']) {
            let title = format!("`{}` does not belong after the name", words[0].text);
            self.findings.push(Diagnostic::error("haproxy::too-many-arguments", title).at(span));
            return;
        }
        if !proxy.kind.is_frontend() {
            self.findings.bad_value(&words[0], "a backend has no address");
            return;
        }
        self.findings.push(
            Diagnostic::warning(
                "haproxy::removed",
                "an address beside the name is the form before HAProxy 1.9",
            )
            .at(span)
            .help(format!("write `bind {}` in the section today", words[0].text)),
        );
        let keyword = Word { text: "bind".into(), span };
        let words = std::iter::once(keyword).chain(words.iter().cloned()).collect();
        proxy.binds.push(Line { prefix: Prefix::Plain, words, unindented: false });
    }

    fn check_name(&mut self, kind: ProxyKind, name: &Word) {
        let sides = [(true, kind.is_frontend()), (false, kind.is_backend())];
        let mut first = None;
        for (side, _) in sides.into_iter().filter(|(_, is)| *is) {
            let kept = *self.names.entry((side, name.text.clone())).or_insert(name.span);
            first = first.or(Some(kept).filter(|kept| *kept != name.span));
        }
        if let Some(first) = first {
            let title = format!("{} `{}` has the name of another", kind.name(), name.text);
            let found = Diagnostic::error("haproxy::same-name", title).at(name.span);
            self.findings.push(found.also(first, "which stands here"));
        }
    }

    fn lines(&mut self, proxy: &mut Proxy, section: &Section) {
        let place = match proxy.kind {
            ProxyKind::Defaults => Sections::DEFAULTS,
            ProxyKind::Frontend => Sections::FRONTEND,
            ProxyKind::Backend => Sections::BACKEND,
            ProxyKind::Listen => FB,
        };
        for line in &section.lines {
            let Some(call) = admit(line, place, proxy.kind.name(), self.findings) else { continue };
            match call.keyword.status {
                Status::Proxy(taker) | Status::Removed { taker: Some(taker), .. } => {
                    taker(proxy, &call, self.findings)
                }
                _ => {}
            }
        }
    }
}

fn new_proxy(kind: ProxyKind, name: Word, settings: Settings) -> Proxy {
    Proxy {
        kind,
        name,
        settings,
        binds: Vec::new(),
        servers: Vec::new(),
        description: None,
        number: None,
        captures: Vec::new(),
        dispatch: None,
        stick_table: None,
        stick_peers: None,
        stick_rules: Vec::new(),
        server_rules: Vec::new(),
        persistence: Vec::new(),
    }
}

/// Looks a line's keyword up, says what is wrong with it, and hands it on if it is to be taken in.
fn admit<'a>(line: &'a Line, place: Sections, section: &str, findings: &mut Findings) -> Option<Call<'a>> {
    let found = lookup(line);
    let Some(&(_, words)) = found.first() else {
        unknown(line, place, section, findings);
        return None;
    };
    let Some(&(keyword, _)) = found.iter().find(|(keyword, _)| keyword.sections.meets(place)) else {
        misplaced(line, &found, words, place, section, findings);
        return None;
    };
    if line.prefix != Prefix::Plain && !takes_prefix(keyword) {
        let word = if line.prefix == Prefix::No { "no" } else { "default" };
        findings.push(
            Diagnostic::error(
                "haproxy::bad-prefix",
                format!("`{word}` cannot stand before `{}`", keyword.name),
            )
            .at(line.keyword().span)
            .help("it stands before `option` and `log` words"),
        );
        return None;
    }
    let arguments = line.from(words);
    if is_family(keyword) {
        family(line, keyword, findings);
        return None;
    }
    if line.prefix == Prefix::Plain && !count_fits(line, keyword, arguments, findings) {
        return None;
    }
    let name = line.words[0].span.to(line.words[words - 1].span);
    if line.prefix == Prefix::Plain {
        report(keyword, name, findings);
    }
    Some(Call { line, keyword, arguments })
}

/// Words before which HAProxy takes `no` or `default`.
fn takes_prefix(keyword: &Keyword) -> bool {
    keyword.name.starts_with("option ")
        || matches!(
            keyword.name,
            "log"
                | "busy-polling"
                | "set-dumpable"
                | "strict-limits"
                | "insecure-fork-wanted"
                | "insecure-setuid-wanted"
                | "numa-cpu-mapping"
                | "prealloc-fd"
                | "h2-workaround-bogus-websocket-clients"
        )
}

/// An entry that only names a family (`option`), met when no member of it is.
fn is_family(keyword: &Keyword) -> bool {
    matches!(keyword.status, Status::NotYet(why) if why.starts_with("it is none of the"))
}

fn family(line: &Line, keyword: &Keyword, findings: &mut Findings) {
    let Some(word) = line.word(1) else {
        findings.missing(line, "the word that says which");
        return;
    };
    let members: Vec<&str> =
        keywords().filter_map(|k| k.name.strip_prefix(keyword.name)?.strip_prefix(' ')).collect();
    findings.unknown(word, &format!("`{}` word", keyword.name), members);
}

fn count_fits(line: &Line, keyword: &Keyword, arguments: &[Word], findings: &mut Findings) -> bool {
    let plural = |n: u8| if n == 1 { "argument" } else { "arguments" };
    if arguments.len() < usize::from(keyword.least) {
        let title = format!("`{}` needs {} {}", keyword.name, keyword.least, plural(keyword.least));
        findings
            .push(Diagnostic::error("haproxy::missing-argument", title).at(line.span()).help(keyword.doc));
        return false;
    }
    if keyword.most != MANY && arguments.len() > usize::from(keyword.most) {
        let extra = &arguments[usize::from(keyword.most)];
        let title = format!("`{}` takes at most {} {}", keyword.name, keyword.most, plural(keyword.most));
        findings.push(
            Diagnostic::error("haproxy::too-many-arguments", title).labelled(extra.span, "one too many"),
        );
        return false;
    }
    true
}

fn report(keyword: &Keyword, span: weir_diag::Span, findings: &mut Findings) {
    match keyword.status {
        Status::Global(_) | Status::Proxy(_) | Status::Accepted => {}
        Status::Tuning(instead) => findings.tuning(span, keyword.name, instead),
        Status::NotYet(why) => findings.not_built(span, keyword.name, why),
        Status::Removed { version, instead, taker } => {
            let title = format!("`{}` was removed from HAProxy in {version}", keyword.name);
            let found = match taker {
                Some(_) => Diagnostic::warning("haproxy::removed", title),
                None => Diagnostic::error("haproxy::removed", title),
            };
            findings.push(found.at(span).help(format!("write `{instead}` today")));
        }
    }
}

fn misplaced(
    line: &Line,
    found: &[(&'static Keyword, usize)],
    words: usize,
    place: Sections,
    section: &str,
    findings: &mut Findings,
) {
    let name = found[0].0.name;
    let span = line.words[0].span.to(line.words[words - 1].span);
    let all = found.iter().fold(Sections(0), |all, (keyword, _)| all.and(keyword.sections));
    let rights = section_names(all);
    let proxies = place.meets(FB) && all.meets(FB);
    // HAProxy ignores most words of the other kind of proxy, and so do we; these it refuses.
    let refused = matches!(
        name,
        "server"
            | "default-server"
            | "server-template"
            | "retry-on"
            | "tcp-request connection"
            | "tcp-request session"
    );
    if proxies && !refused {
        findings.push(
            Diagnostic::warning("haproxy::ignored", format!("`{name}` is ignored in a {section}"))
                .at(span)
                .help(format!("it belongs into {}", list(&rights))),
        );
        return;
    }
    findings.push(
        Diagnostic::error("haproxy::wrong-section", format!("`{name}` may not stand in `{section}`"))
            .at(span)
            .help(format!("it belongs into {}", list(&rights))),
    );
}

fn section_names(sections: Sections) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (bit, name) in [
        (Sections::GLOBAL, "global"),
        (Sections::DEFAULTS, "defaults"),
        (Sections::FRONTEND, "frontend"),
        (FB, "listen"),
        (Sections::BACKEND, "backend"),
    ] {
        if sections.meets(bit) {
            names.push(name);
        }
    }
    names
}

fn unknown(line: &Line, place: Sections, section: &str, findings: &mut Findings) {
    let word = line.keyword();
    let title = format!("unknown keyword `{}` in `{section}`", word.text);
    let found = Diagnostic::error("haproxy::unknown-keyword", title).at(word.span);
    let here = keywords().filter(|k| k.sections.meets(place)).filter_map(|k| k.name.split(' ').next());
    let sections = SectionKind::names().filter(|_| line.unindented);
    findings.push(found.suggest(&word.text, word.span, here.chain(sections)));
}
