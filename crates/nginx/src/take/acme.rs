//! `acme_issuer`, `acme_certificate` (nginx's own module), `auto_certificate` (Weir's).
//!
//! Owns: issuers as they are written, and which certificate a server is to have of one.
//! Never: judges names; `lower` does, for all languages.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_diag::{Diagnostic, Span};
use weir_expr::settings::{AcmeChallenge, AcmeProfile, KeyKind};
use weir_model::{AcmeCertificate, AcmeExternal, AcmeIssuer, NamePattern, Pem};

use super::acme_parts::{Auto, Wanted};
use super::{Lowering, Scope, ServerParts};
use crate::lexer::Word;
use crate::tree::Directive;
use crate::value;

/// What stands for the chain of the server's `acme_certificate`, and for its key.
pub(crate) const VARIABLES: [&str; 2] = ["$acme_certificate", "$acme_certificate_key"];

/// Where `auto_certificate` has certificates from, and where it keeps them.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
const STATE: &str = "/var/lib/weir/acme";

/// The issuer that `auto_certificate` makes.
const AUTO: &str = "auto_certificate";

/// The pause after a first failure.
const RETRY: Duration = Duration::from_secs(60);

const CHALLENGES: &str = "`http-01` or `tls-alpn-01`";
const KINDS: &str = "`ecdsa:256`, `ecdsa:384`, `ecdsa:521`, `rsa:2048`, `rsa:3072` or `rsa:4096`";

fn new_issuer(name: &str, span: Span) -> AcmeIssuer {
    AcmeIssuer {
        name: name.to_owned(),
        origin: Some(span),
        directory: String::new(),
        contact: Vec::new(),
        account_key: KeyKind::default(),
        account_key_file: None,
        challenge: AcmeChallenge::default(),
        external: None,
        preferred_chain: None,
        profile: None,
        authorities: None,
        verify: true,
        state: None,
        accepts_terms: false,
        retry: RETRY,
    }
}

/// A URL by which somebody is reached; without a scheme, a mail address.
fn contact(text: &str) -> String {
    if text.contains(':') { text.to_owned() } else { format!("mailto:{text}") }
}

fn challenge(text: &str) -> Option<AcmeChallenge> {
    match text {
        "http-01" | "http" => Some(AcmeChallenge::Http01),
        "tls-alpn-01" | "tls-alpn" => Some(AcmeChallenge::TlsAlpn01),
        _ => None,
    }
}

/// `acme_issuer NAME { … }`.
pub(crate) fn issuer(lo: &mut Lowering<'_>, d: &Directive) {
    let mut issuer = new_issuer(d.arg(0), d.span);
    issuer.state = Some(lo.path(&format!("acme_{}", issuer.name)));
    for line in d.children() {
        word(lo, &mut issuer, line);
    }
    if issuer.directory.is_empty() {
        let text = format!("the issuer `{}` does not say where its directory is", issuer.name);
        let found = Diagnostic::error("nginx::no-uri", text).at(d.span);
        return lo.report(found.help(format!("add `uri {DIRECTORY};`, or that of another authority")));
    }
    lo.model.acme.push(issuer);
}

/// The lines of an issuer, with the fewest and the most arguments of each.
const LINES: [(&str, usize, usize); 14] = [
    ("uri", 1, 1),
    ("account_key", 1, 1),
    ("challenge", 1, 1),
    ("contact", 1, usize::MAX),
    ("external_account_key", 2, 2),
    ("preferred_chain", 1, 1),
    ("profile", 1, 2),
    ("ssl_trusted_certificate", 1, 1),
    ("ssl_verify", 1, 1),
    ("state_path", 1, 1),
    ("accept_terms_of_service", 0, 0),
    ("retry", 1, 1),
    ("resolver", 1, usize::MAX),
    ("resolver_timeout", 1, 1),
];

fn word(lo: &mut Lowering<'_>, issuer: &mut AcmeIssuer, d: &Directive) {
    let Some(&(_, least, most)) = LINES.iter().find(|(name, ..)| *name == d.name()) else {
        let near = weir_diag::nearest(d.name(), LINES.iter().map(|(name, ..)| *name));
        let near = near.map(|near| format!("did you mean `{near}`?"));
        let text = format!("`{}` is no word of `acme_issuer`", d.name());
        let found = Diagnostic::error("nginx::unknown-directive", text).at(d.name.span);
        return lo.report(match near {
            Some(near) => found.help(near),
            None => found,
        });
    };
    if !(least..=most).contains(&d.args.len()) {
        let text = format!("`{}` has {} arguments here, which is no number it takes", d.name(), d.args.len());
        return lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
    }
    match d.name() {
        "uri" => d.arg(0).clone_into(&mut issuer.directory),
        "account_key" => match d.arg(0).parse() {
            Ok(kind) => issuer.account_key = kind,
            Err(()) => issuer.account_key_file = Some(Pem::file(lo.conf_path(d.arg(0)), Some(d.arg_span(0)))),
        },
        "challenge" => match challenge(d.arg(0)) {
            Some(challenge) => issuer.challenge = challenge,
            None => lo.bad_value(d, 0, CHALLENGES),
        },
        "contact" => issuer.contact.extend(d.args.iter().map(|word| contact(&word.text))),
        "external_account_key" => {
            let key = match d.arg(1).strip_prefix("data:") {
                Some(key) => Pem::text(key),
                None => Pem::file(lo.conf_path(d.arg(1)), Some(d.arg_span(1))),
            };
            issuer.external = Some(AcmeExternal { id: d.arg(0).to_owned(), key });
        }
        "preferred_chain" => issuer.preferred_chain = Some(d.arg(0).to_owned()),
        "profile" => match d.args.get(1).map(|word| word.text.as_str()) {
            None | Some("require") => {
                issuer.profile = Some(AcmeProfile { name: d.arg(0).to_owned(), required: d.args.len() > 1 });
            }
            Some(_) => lo.bad_value(d, 1, "`require`"),
        },
        "ssl_trusted_certificate" => {
            issuer.authorities = Some(Pem::file(lo.conf_path(d.arg(0)), Some(d.arg_span(0))));
        }
        "ssl_verify" => match d.arg(0) {
            "on" => issuer.verify = true,
            "off" => issuer.verify = false,
            _ => lo.bad_value(d, 0, "`on` or `off`"),
        },
        "state_path" => issuer.state = (d.arg(0) != "off").then(|| lo.path(d.arg(0))),
        "accept_terms_of_service" => issuer.accepts_terms = true,
        "retry" => match value::time(d.arg(0)).filter(|time| !time.is_zero()) {
            Some(time) => issuer.retry = time,
            None => lo.bad_value(d, 0, "a time such as `1m`"),
        },
        // `resolver`, `resolver_timeout`: of an earlier version of the module.
        _ => {
            let text = format!("`{}` of an issuer is passed over: the system looks its name up", d.name());
            lo.report(Diagnostic::warning("nginx::tuning", text).at(d.span));
        }
    }
}

/// `acme_certificate ISSUER [NAME…] [key=KIND]`.
pub(crate) fn certificate(lo: &mut Lowering<'_>, parts: &mut ServerParts, d: &Directive) {
    let mut wanted = Wanted {
        issuer: d.arg(0).to_owned(),
        identifiers: Vec::new(),
        key: KeyKind::default(),
        span: d.span,
    };
    for (n, word) in d.args.iter().enumerate().skip(1) {
        match word.text.strip_prefix("key=").map(str::parse) {
            None => wanted.identifiers.push(word.text.clone()),
            Some(Ok(kind)) => wanted.key = kind,
            Some(Err(())) => lo.bad_value(d, n, KINDS),
        }
    }
    parts.acme = Some(wanted);
}

/// `auto_certificate MAIL [directory=URL] [trusted=FILE] [challenge=…] [key=…] [state=PATH] [retry=TIME]`, or `off`.
pub(crate) fn auto(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    if d.arg(0) == "off" && d.args.len() == 1 {
        s.tls_mut().auto = None;
        return;
    }
    if !d.arg(0).contains(['@', ':']) {
        return lo.bad_value(d, 0, "a mail address by which the authority reaches you, or `off`");
    }
    let mut issuer = new_issuer(AUTO, d.span);
    DIRECTORY.clone_into(&mut issuer.directory);
    issuer.contact = vec![contact(d.arg(0))];
    // Whoever writes the word agrees to the terms: docs/nginx.md says so.
    issuer.accepts_terms = true;
    let mut key = KeyKind::default();
    let mut state: Option<PathBuf> = None;
    for (n, word) in d.args.iter().enumerate().skip(1) {
        match word.text.split_once('=') {
            Some(("directory", url)) => url.clone_into(&mut issuer.directory),
            Some(("trusted", file)) => {
                issuer.authorities = Some(Pem::file(lo.conf_path(file), Some(word.span)))
            }
            Some(("challenge", text)) => match challenge(text) {
                Some(challenge) => issuer.challenge = challenge,
                None => return lo.bad_value(d, n, CHALLENGES),
            },
            Some(("key", text)) => match text.parse() {
                Ok(kind) => key = kind,
                Err(()) => return lo.bad_value(d, n, KINDS),
            },
            Some(("state", path)) if !path.is_empty() => state = Some(lo.path(path)),
            Some(("retry", time)) => match value::time(time).filter(|time| !time.is_zero()) {
                Some(time) => issuer.retry = time,
                None => return lo.bad_value(d, n, "a time such as `1m`"),
            },
            _ => {
                let known = "`directory=`, `trusted=`, `challenge=`, `key=`, `state=` or `retry=`";
                return lo.bad_value(d, n, known);
            }
        }
    }
    let issuer = added(lo, issuer, state);
    s.tls_mut().auto = Some(Arc::new(Auto { issuer, key, span: d.span }));
}

/// The name of an issuer that `auto_certificate` makes: one for all that say the same.
fn added(lo: &mut Lowering<'_>, mut issuer: AcmeIssuer, state: Option<PathBuf>) -> String {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        issuer.name = format!("{AUTO}{suffix}");
        issuer.state = state.clone().or_else(|| Some(format!("{STATE}{suffix}").into()));
        let same = |other: &AcmeIssuer| AcmeIssuer { origin: issuer.origin, ..other.clone() } == issuer;
        match lo.model.acme.iter().find(|other| other.name == issuer.name) {
            Some(other) if same(other) => return issuer.name,
            Some(_) => number += 1,
            None => break,
        }
    }
    lo.model.acme.push(issuer.clone());
    issuer.name
}

/// What a server is to have, once all its words are read.
pub(crate) fn of_server(lo: &mut Lowering<'_>, scope: &mut Scope, parts: &ServerParts) {
    if let Some(wanted) = &parts.acme {
        let names = match wanted.identifiers.is_empty() {
            true => usable_names(lo, parts, wanted.span),
            false => wanted.identifiers.clone(),
        };
        let named = |word: &Word| word.text == VARIABLES[0];
        if !scope.tls.certificates.items().iter().any(named) {
            let text = "this certificate is not ordered: nothing of the server shows it";
            let found = Diagnostic::warning("nginx::unused-certificate", text).at(wanted.span);
            lo.report(found.help(
                "add `ssl_certificate $acme_certificate;` and `ssl_certificate_key $acme_certificate_key;`",
            ));
        }
        scope.tls_mut().acme = Some(AcmeCertificate {
            issuer: wanted.issuer.clone(),
            origin: Some(wanted.span),
            names,
            key: wanted.key,
        });
    }
    let Some(auto) = scope.tls.auto.clone() else { return };
    let speaks_tls = scope.ssl_on || parts.listens.iter().any(|listen| listen.tls || listen.quic);
    if !scope.tls.certificates.items().is_empty() || scope.tls.reject || !speaks_tls {
        return;
    }
    let names = usable_names(lo, parts, auto.span);
    if !names.is_empty() {
        let (issuer, key) = (auto.issuer.clone(), auto.key);
        scope.tls_mut().auto_issued = Some(AcmeCertificate { issuer, origin: Some(auto.span), names, key });
    }
}

/// Names of a server that a certificate can be ordered for. `_` and the empty name are none, and nobody means them to be.
fn usable_names(lo: &mut Lowering<'_>, parts: &ServerParts, span: Span) -> Vec<String> {
    let mut names = Vec::new();
    for name in &parts.names {
        let wildcard = match name {
            NamePattern::Exact(name) => {
                if !name.is_empty() && name != "_" {
                    names.push(name.clone());
                }
                continue;
            }
            // `.example.org`: the name itself is there, too.
            NamePattern::Suffix(name) if parts.names.contains(&NamePattern::Exact(name.clone())) => {
                let text = format!("the certificate is for `{name}`, and not for the names below it");
                let found = Diagnostic::warning("nginx::wildcard-certificate", text).at(span);
                lo.report(found.help("names are proven one by one (HTTP-01, TLS-ALPN-01): name the hosts"));
                continue;
            }
            NamePattern::Suffix(name) => format!("*.{name}"),
            NamePattern::Prefix(name) => format!("{name}.*"),
            NamePattern::Regex(pattern) => format!("~{}", pattern.source),
        };
        let text = format!("no certificate can be ordered for `{wildcard}`: names are proven one by one");
        let found = Diagnostic::error("nginx::wildcard-certificate", text).at(span);
        lo.report(found.help(
            "HTTP-01 and TLS-ALPN-01 do not prove wildcards: name the hosts, or bring an `ssl_certificate` of your own",
        ));
    }
    names
}

/// Whether a certificate or a key is one that an issuer makes.
pub(crate) fn is_issued(word: &Word) -> bool {
    VARIABLES.contains(&word.text.as_str())
}
