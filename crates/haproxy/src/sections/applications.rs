//! `fcgi-app`: what an application behind FastCGI is told of requests.
//!
//! Owns: which words the section has.
//! Never: compiles formats or conditions; `build::application` does.

use weir_diag::Diagnostic;

use super::named::{known, name};
use super::new_proxy;
use crate::draft::{Application, At, Draft, Mode, ProxyKind, Settings};
use crate::findings::Findings;
use crate::read::{Line, Prefix, Section};
use crate::take::logs::target_of_log;
use crate::values::size;

/// `fcgi-app NAME`.
pub(super) fn fcgi_app(draft: &mut Draft, section: &Section, findings: &mut Findings) {
    if name(section, findings).is_none() {
        return;
    }
    let Some(word) = section.header.word(1) else { return };
    if let Some(first) = draft.applications.iter().find(|app| app.scope.name.text == word.text) {
        let title = format!("there are two fcgi-app sections named `{}`", word.text);
        let found = Diagnostic::error("haproxy::same-name", title).at(word.span);
        return findings.push(found.also(first.scope.name.span, "the first of them"));
    }
    let mode = Some(At::new(Mode::Http, word.span));
    // Conditions and formats of the section are read as those of a proxy that has nothing else.
    let scope = new_proxy(ProxyKind::Backend, word.clone(), Settings { mode, ..Settings::default() });
    let mut app = Application {
        scope,
        docroot: None,
        index: None,
        path_info: None,
        params: Vec::new(),
        passes: Vec::new(),
        keeps: true,
        tells: false,
        logs: Vec::new(),
    };
    for line in &section.lines {
        if known(line, "fcgi-app", findings) {
            one(&mut app, line, findings);
        }
    }
    if app.docroot.is_none() {
        let title = format!("fcgi-app `{}` has no docroot", word.text);
        let help = "say where its scripts are: `docroot /var/www`";
        findings.push(Diagnostic::error("haproxy::missing", title).at(word.span).help(help));
    }
    draft.applications.push(app);
}

fn one(app: &mut Application, line: &Line, findings: &mut Findings) {
    let value = line.word(1).cloned();
    match (line.keyword().as_str(), &value) {
        ("acl", Some(_)) => app.scope.settings.acls.push(line.clone()),
        ("docroot", Some(_)) => app.docroot = value,
        ("index", Some(_)) => app.index = value,
        ("path-info", Some(_)) => app.path_info = value,
        ("set-param", Some(_)) if line.word(2).is_some() => app.params.push(line.clone()),
        ("pass-header", Some(_)) => app.passes.push(line.clone()),
        ("log-stderr", Some(word)) => {
            app.tells = true;
            if word.as_str() != "global" {
                app.logs.extend(target_of_log(line, line.from(1), findings));
            }
        }
        ("option", Some(_)) => option(app, line, findings),
        (_, _) => findings.missing(line, "a value"),
    }
}

fn option(app: &mut Application, line: &Line, findings: &mut Findings) {
    let Some(word) = line.word(1) else { return };
    let on = line.prefix != Prefix::No;
    match word.as_str() {
        "keep-conn" => app.keeps = on,
        "get-values" if on => {
            findings.tuning(line.span(), "option get-values", "a connection carries one request at a time")
        }
        "mpxs-conns" if on => {
            findings.tuning(line.span(), "option mpxs-conns", "a connection carries one request at a time")
        }
        "get-values" | "mpxs-conns" => {}
        "max-reqs" => {
            let Some(number) = line.word(2) else { return findings.missing(line, "a number of requests") };
            // One at a time is what HAProxy asks for by default, too.
            if findings
                .value(number, |text| size::count(text, 1..=u64::from(u32::MAX)))
                .is_some_and(|n| n > 1)
            {
                let instead = "a connection carries one request at a time";
                findings.tuning(line.span(), "option max-reqs", instead);
            }
        }
        _ => findings.bad_choice(
            word,
            "option of an fcgi-app",
            &["get-values", "keep-conn", "max-reqs", "mpxs-conns"],
        ),
    }
}
