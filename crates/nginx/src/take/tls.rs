//! Words about TLS with clients.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_expr::ciphers::{Protocol, group, protocol, select};
use weir_model::settings::{ClientVerify, TlsVersion};
use weir_model::{AcmeCertificate, Certificate, NamedCertificate, Pem, Stapling, TlsIdentity};

use super::args::on;
use super::scope::{Level, TlsScope};
use super::{Lowering, Scope, acme, conf_command};
use crate::lexer::Word;
use crate::tree::Directive;
use crate::value;

/// `ssl on`, which nginx dropped in 1.25.1, and many files still have.
pub(crate) fn ssl_on(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.ssl_on = on(d);
    if s.ssl_on {
        lo.report(
            Diagnostic::warning(
                "nginx::ssl-on",
                "`ssl on` is an old word; all listeners of the server speak TLS",
            )
            .at(d.span)
            .help("write `listen 443 ssl;` instead"),
        );
    }
}

pub(crate) fn take_certificate(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    add_certificate(lo, s.tls_mut(), level, d);
}

pub(crate) fn take_key(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let level = s.level;
    add_key(lo, s.tls_mut(), level, d);
}

pub(crate) fn protocols(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    set_protocols(lo, s.tls_mut(), d);
}

pub(crate) fn ciphers(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    set_ciphers(lo, s.tls_mut(), d);
}

pub(crate) fn curves(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    set_curves(lo, s.tls_mut(), d);
}

pub(crate) fn verify_client(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    set_verify(lo, s.tls_mut(), d);
}

pub(crate) fn session_cache(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    set_session_cache(lo, s.tls_mut(), d);
}

pub(crate) fn session_timeout(_: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    s.tls_mut().session_timeout = value::seconds(d.arg(0)).unwrap_or_default();
}

pub(crate) fn conf_command(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    conf_command::with_clients(lo, s.tls_mut(), d);
}

/// An argument, which is spoken of as its directive.
pub(crate) fn at_directive(d: &Directive, n: usize) -> Word {
    Word { span: d.span, ..d.args[n].clone() }
}

/// True if a file of `ssl_certificate` or its key is one that Weir can read.
fn readable_name(lo: &mut Lowering<'_>, d: &Directive) -> bool {
    let text = d.arg(0);
    if !text.starts_with("engine:") && !text.starts_with("store:") {
        return true;
    }
    let problem = "keys in engines and stores are not supported; Weir reads PEM files";
    lo.report(Diagnostic::error("nginx::not-built", problem).at(d.arg_span(0)));
    false
}

pub(crate) fn add_certificate(lo: &mut Lowering<'_>, tls: &mut TlsScope, level: Level, d: &Directive) {
    let usable = readable_name(lo, d);
    tls.broken |= !usable;
    if usable {
        tls.certificates.push(level, at_directive(d, 0));
    }
}

/// A file of certificates, lists or pass phrases that a directive names.
pub(crate) fn pem_file(lo: &Lowering<'_>, d: &Directive) -> Option<Pem> {
    Some(Pem::file(lo.conf_path(d.arg(0)), Some(d.span)))
}

/// `ssl_session_ticket_key file`: the first makes tickets, all of them open tickets.
pub(crate) fn ticket_key(lo: &Lowering<'_>, tls: &mut TlsScope, level: Level, d: &Directive) {
    tls.ticket_keys.push(level, Pem::file(lo.conf_path(d.arg(0)), Some(d.span)));
}

pub(crate) fn add_key(lo: &mut Lowering<'_>, tls: &mut TlsScope, level: Level, d: &Directive) {
    let usable = readable_name(lo, d);
    tls.broken |= !usable;
    if usable {
        tls.keys.push(level, at_directive(d, 0));
    }
}

/// Versions of a list that Weir speaks; `None` if none is left, which was told.
pub(crate) fn usable_versions(lo: &mut Lowering<'_>, d: &Directive) -> Option<Vec<TlsVersion>> {
    let mut versions = Vec::new();
    let mut refused = Vec::new();
    for (n, word) in d.args.iter().enumerate() {
        match protocol(&word.text) {
            Protocol::Usable(version) => versions.push(version),
            Protocol::Refused => refused.push(word),
            Protocol::Unknown => {
                lo.bad_value(d, n, "one of `TLSv1.2`, `TLSv1.3` (or the old `TLSv1`, `TLSv1.1`, `SSLv3`)");
                return None;
            }
        }
    }
    versions.sort_unstable();
    versions.dedup();
    let names: Vec<String> = refused.iter().map(|word| format!("`{}`", word.text)).collect();
    let names = names.join(", ");
    let span = refused.first().map_or(d.span, |word| word.span);
    if versions.is_empty() {
        let text = format!("no protocol is left: {names} are too weak, and Weir does not speak them");
        let found = Diagnostic::error("nginx::no-protocol-left", text).at(span);
        lo.report(found.help("write `TLSv1.2 TLSv1.3`"));
        return None;
    }
    if !refused.is_empty() {
        let text = format!("{names} will not be spoken: RFC 8996 forbids these versions");
        let found = Diagnostic::warning("nginx::weak-protocol", text).at(span);
        lo.report(found.help("clients that know TLS 1.2 or 1.3 are not affected"));
    }
    Some(versions)
}

pub(crate) fn set_protocols(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    if let Some(versions) = usable_versions(lo, d) {
        tls.versions = Some(versions);
    }
}

/// "Nothing is left of this cipher string."
pub(crate) fn no_suite_left(lo: &mut Lowering<'_>, d: &Directive) {
    let text = format!("no cipher suite is left of `{}`", d.arg(0));
    lo.report(
        Diagnostic::error("nginx::no-suite-left", text)
            .at(d.arg_span(0))
            .help("Weir speaks ECDHE with AES-GCM or ChaCha20-Poly1305; static RSA, DHE and CBC suites are refused")
            .help("write `ECDHE+AESGCM:ECDHE+CHACHA20`, or leave the word out"),
    );
}

pub(crate) fn set_ciphers(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    let selection = select(d.arg(0));
    for word in &selection.unknown {
        let text = format!("`{word}` names no cipher; OpenSSL ignores such words, and so does Weir");
        lo.report(Diagnostic::warning("nginx::unknown-cipher", text).at(d.arg_span(0)));
    }
    if selection.suites.is_empty() && selection.suites13.is_empty() {
        return no_suite_left(lo, d);
    }
    if !selection.dropped.is_empty() {
        let some: Vec<&str> = selection.dropped.iter().copied().take(3).collect();
        let more = selection.dropped.len() - some.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!("some suites will not be offered: {}{more}", some.join(", "));
        let found = Diagnostic::warning("nginx::weak-suite", text).at(d.arg_span(0));
        lo.report(found.help(format!("what remains for TLS 1.2: {}", selection.suites.join(":"))));
    }
    tls.suites = selection.suites;
}

pub(crate) fn set_curves(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    if d.arg(0) == "auto" {
        return tls.curves.clear();
    }
    let names: Vec<&str> = d.arg(0).split(':').collect();
    let curves: Vec<String> = names.iter().filter_map(|name| group(name)).map(String::from).collect();
    if curves.is_empty() {
        let text = format!("no key-exchange group is left of `{}`", d.arg(0));
        let found = Diagnostic::error("nginx::no-curve-left", text).at(d.arg_span(0));
        return lo.report(found.help("Weir has X25519MLKEM768, X25519, prime256v1 and secp384r1"));
    }
    if curves.len() < names.len() {
        let text = "some key-exchange groups will not be offered";
        let found = Diagnostic::warning("nginx::unknown-curve", text).at(d.arg_span(0));
        lo.report(found.help(format!("what remains: {}", curves.join(":"))));
    }
    tls.curves = curves;
}

pub(crate) fn set_verify(_: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    tls.verify_span = Some(d.span);
    tls.verify = match d.arg(0) {
        "on" => ClientVerify::Required,
        "optional" => ClientVerify::Optional,
        "optional_no_ca" => ClientVerify::OptionalNoCa,
        _ => ClientVerify::Off,
    };
}

/// `ssl_session_cache off | none | builtin[:n] | shared:name:size`. nginx counts about 4,000 sessions a megabyte.
pub(crate) fn set_session_cache(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    let mut sessions = 0;
    for (n, word) in d.args.iter().enumerate() {
        let mut parts = word.text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("off" | "none"), None, ..) => {}
            (Some("builtin"), None, ..) => sessions += 20_480,
            (Some("builtin"), Some(count), None, _) => match value::number(count) {
                Some(count) => sessions += count.min(1 << 20) as usize,
                None => return lo.bad_value(d, n, "`builtin:` with a number"),
            },
            (Some("shared"), Some(name), Some(size), None) if !name.is_empty() => match value::size(size) {
                Some(size) => sessions += (size / 256).min(1 << 22) as usize,
                None => return lo.bad_value(d, n, "`shared:name:size`"),
            },
            _ => return lo.bad_value(d, n, "`off`, `none`, `builtin` or `shared:name:size`"),
        }
    }
    tls.session_cache = sessions;
}

/// The identity that a scope comes to. `None` if there is no certificate and handshakes are not refused.
pub(crate) fn identity(lo: &mut Lowering<'_>, tls: &Arc<TlsScope>, alpn: Vec<String>) -> Option<TlsIdentity> {
    let (certificates, keys) = (tls.certificates().len(), tls.keys().len());
    if certificates > keys
        && let Some(word) = tls.certificates().get(keys)
    {
        no_key(lo, &word.text, word.span);
    }
    let (asked, pairs): (Vec<_>, Vec<_>) =
        tls.pairs().partition(|(chain, key)| acme::is_issued(chain) || acme::is_issued(key));
    let issued = issued(lo, tls, &asked);
    let (named, fixed): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(chain, key)| is_named(chain) || is_named(key));
    if named.is_empty() && fixed.is_empty() && issued.is_empty() && !tls.reject {
        return None;
    }
    let passwords = &tls.passwords;
    let certificates =
        fixed.into_iter().map(|(chain, key)| certificate(lo, chain, key, passwords.clone())).collect();
    let named =
        named.into_iter().map(|(chain, key)| named_certificate(lo, chain, key, passwords.clone())).collect();
    Some(TlsIdentity {
        certificates,
        named,
        issued,
        select_by_certificate_names: false,
        versions: tls.versions.clone().unwrap_or_else(|| vec![TlsVersion::V1_2, TlsVersion::V1_3]),
        suites: tls.suites.clone(),
        suites13: tls.suites13.clone(),
        prefer_server_order: tls.prefer_server_order,
        curves: tls.curves.clone(),
        verify: tls.verify,
        client_ca: client_ca(lo, tls),
        client_crl: tls.client_crl.clone(),
        client_depth: Some(tls.verify_depth),
        reject: tls.reject,
        alpn,
        record_size: tls.record_size,
        early_data: tls.early_data,
        stapling: stapling(tls),
        compress_certificates: tls.compress_certificates,
        staple: tls.staple.clone().filter(|_| tls.stapling),
    })
}

/// Certificates that an issuer makes for a server.
fn issued(lo: &mut Lowering<'_>, tls: &TlsScope, asked: &[(&Word, &Word)]) -> Vec<AcmeCertificate> {
    let [chain, key] = acme::VARIABLES;
    for (one, other) in asked.iter().filter(|(one, other)| (&*one.text, &*other.text) != (chain, key)) {
        let text = format!("`{chain}` and `{key}` belong together");
        let found = Diagnostic::error("nginx::bad-value", text).at(one.span).also(other.span, "its key");
        report_once(lo, found);
    }
    if let (Some((word, _)), None) = (asked.first(), &tls.acme) {
        let text =
            format!("`{chain}` is the certificate of `acme_certificate`, which this server does not have");
        let found = Diagnostic::error("nginx::no-issuer", text).at(word.span);
        report_once(lo, found.help("add `acme_certificate ISSUER;` to the server"));
    }
    let written = tls.acme.iter().filter(|_| !asked.is_empty());
    written.chain(&tls.auto_issued).cloned().collect()
}

/// A server is looked at once for each of its addresses.
fn report_once(lo: &mut Lowering<'_>, found: Diagnostic) {
    if lo.diagnostics.iter().all(|d| d.title != found.title || d.primary != found.primary) {
        lo.report(found);
    }
}

/// How responders are asked, where no file holds what they would say. nginx asks again after an hour at most, and after five
/// minutes at least.
fn stapling(tls: &TlsScope) -> Option<Stapling> {
    (tls.stapling && tls.staple.is_none()).then(|| Stapling {
        responder: tls.stapling_responder.clone(),
        verify: tls.stapling_verify,
        trusted: tls.trusted_ca.iter().chain(&tls.client_ca).cloned().collect(),
        least: 300,
        most: 3600,
    })
}

/// `ssl_stapling_responder URL`.
pub(crate) fn stapling_responder(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    if !d.arg(0).starts_with("http://") && !d.arg(0).starts_with("https://") {
        return lo.bad_value(d, 0, "a URL that begins with `http://` or `https://`");
    }
    tls.stapling_responder = Some(d.arg(0).to_owned());
}

/// Whether variables name a file, or it is no file.
pub(crate) fn is_named(word: &Word) -> bool {
    word.text.contains('$') || word.text.starts_with("data:")
}

/// A certificate in files.
pub(crate) fn certificate(
    lo: &Lowering<'_>,
    chain: &Word,
    key: &Word,
    passwords: Option<Pem>,
) -> Certificate {
    let file = |word: &Word| Pem::file(lo.conf_path(&word.text), Some(word.span));
    Certificate { chain: file(chain), key: file(key), passwords, staple: None }
}

/// One that variables name.
pub(crate) fn named_certificate(
    lo: &mut Lowering<'_>,
    chain: &Word,
    key: &Word,
    passwords: Option<Pem>,
) -> NamedCertificate {
    let (chain, key) = (lo.template(chain), lo.template(key));
    NamedCertificate { chain, key, folder: lo.conf_path(""), passwords }
}

/// The identity of a server that asks for client certificates and has none of its own.
pub(crate) fn asking(lo: &mut Lowering<'_>, of: &TlsIdentity, tls: &TlsScope) -> Option<TlsIdentity> {
    (tls.verify != ClientVerify::Off).then(|| TlsIdentity {
        verify: tls.verify,
        client_ca: client_ca(lo, tls),
        client_crl: tls.client_crl.clone(),
        client_depth: Some(tls.verify_depth),
        ..of.clone()
    })
}

fn no_key(lo: &mut Lowering<'_>, name: &str, span: Span) {
    let text = format!("the certificate `{name}` has no `ssl_certificate_key`");
    if lo.diagnostics.iter().all(|d| d.title != text) {
        lo.report(Diagnostic::error("nginx::no-key", text).at(span));
    }
}

/// CAs of client certificates: those named to clients, and those only trusted.
fn client_ca(lo: &mut Lowering<'_>, tls: &TlsScope) -> Vec<Pem> {
    if tls.verify == ClientVerify::Off {
        return Vec::new();
    }
    let files: Vec<_> = tls.client_ca.iter().chain(&tls.trusted_ca).cloned().collect();
    if files.is_empty() && tls.verify != ClientVerify::OptionalNoCa {
        let text = "`ssl_verify_client` needs `ssl_client_certificate`, the CAs of client certificates";
        if lo.diagnostics.iter().all(|d| d.title != text) {
            let found = Diagnostic::error("nginx::no-client-ca", text);
            lo.report(match tls.verify_span {
                Some(span) => found.at(span),
                None => found,
            });
        }
    }
    files
}
