//! `ssl_conf_command` and its kin: settings by the names that OpenSSL has for them.
//!
//! Owns: what of SSL_CONF_cmd(3) has a meaning here, with clients and with upstreams.
//! Never: reads a file.
//! Driven by: the entries of the table.

use weir_diag::Diagnostic;
use weir_expr::ciphers::{Selection, group, select};
use weir_model::settings::TlsVersion;

use super::Lowering;
use super::scope::{TlsScope, UpstreamTlsScope};
use super::tls::at_directive;
use crate::tree::Directive;

/// Commands that change how a handshake runs and not who gets in.
const NO_EFFECT: [&str; 5] =
    ["DHParameters", "NumTickets", "RecordPadding", "TxCertificateCompression", "RxCertificateCompression"];

/// What a command says.
enum Command {
    Suites12(Vec<String>),
    Suites13(Vec<String>),
    Groups(Vec<String>),
    Least(TlsVersion),
    Most(TlsVersion),
    /// Of an older version, or of none: nothing is narrowed.
    AnyVersion,
    Certificate,
    Key,
    Options,
}

fn read(lo: &mut Lowering<'_>, d: &Directive) -> Option<Command> {
    let is = |name: &str| d.arg(0).eq_ignore_ascii_case(name);
    if is("Ciphersuites") {
        let Selection { suites13, .. } = select(d.arg(1));
        return wanted(lo, d, suites13, "a list of TLS 1.3 suites that Weir has").map(Command::Suites13);
    }
    if is("CipherString") {
        let Selection { suites, .. } = select(d.arg(1));
        return wanted(lo, d, suites, "a list that has TLS 1.2 suites of Weir's").map(Command::Suites12);
    }
    if is("Groups") || is("Curves") {
        let groups = d.arg(1).split(':').filter_map(|name| group(name).map(String::from)).collect();
        return wanted(lo, d, groups, "a list of groups that Weir has").map(Command::Groups);
    }
    if is("MinProtocol") || is("MaxProtocol") {
        let least = is("MinProtocol");
        return match d.arg(1) {
            "TLSv1.2" if least => Some(Command::Least(TlsVersion::V1_2)),
            "TLSv1.3" if least => Some(Command::Least(TlsVersion::V1_3)),
            "TLSv1.2" => Some(Command::Most(TlsVersion::V1_2)),
            "TLSv1.3" | "None" => Some(Command::AnyVersion),
            "SSLv3" | "TLSv1" | "TLSv1.1" if least => Some(Command::AnyVersion),
            _ => {
                lo.bad_value(d, 1, "a version that Weir speaks: `TLSv1.2` or `TLSv1.3`");
                None
            }
        };
    }
    if is("Certificate") {
        return Some(Command::Certificate);
    }
    if is("PrivateKey") {
        return Some(Command::Key);
    }
    if is("Options") {
        return Some(Command::Options);
    }
    let name = d.arg(0);
    let found = match NO_EFFECT.iter().any(|name| is(name)) {
        true => Diagnostic::warning("nginx::no-effect", format!("`{} {name}` has no effect", d.name())),
        false => {
            let text = format!("`{} {name}` is not supported: Weir uses no OpenSSL", d.name());
            Diagnostic::error("nginx::not-built", text)
        }
    };
    lo.report(found.at(d.span));
    None
}

/// A list that leaves something.
fn wanted(lo: &mut Lowering<'_>, d: &Directive, list: Vec<String>, what: &str) -> Option<Vec<String>> {
    if list.is_empty() {
        lo.bad_value(d, 1, what);
        return None;
    }
    Some(list)
}

/// Options that Weir has no use for.
fn no_effect(lo: &mut Lowering<'_>, d: &Directive, options: &[&str]) {
    if !options.is_empty() {
        let text = format!("the OpenSSL options `{}` have no effect", options.join(","));
        lo.report(Diagnostic::warning("nginx::no-effect", text).at(d.span));
    }
}

/// Versions from `least` to `most` of those that are on.
fn narrow(lo: &mut Lowering<'_>, d: &Directive, versions: &mut Vec<TlsVersion>, command: &Command) {
    if versions.is_empty() {
        *versions = vec![TlsVersion::V1_2, TlsVersion::V1_3];
    }
    match command {
        Command::Least(least) => versions.retain(|version| version >= least),
        Command::Most(most) => versions.retain(|version| version <= most),
        _ => {}
    }
    if versions.is_empty() {
        lo.bad_value(d, 1, "a version that the other words leave");
    }
}

/// `ssl_conf_command name value`.
pub(crate) fn with_clients(lo: &mut Lowering<'_>, tls: &mut TlsScope, d: &Directive) {
    let Some(command) = read(lo, d) else { return };
    match command {
        Command::Suites12(suites) => tls.suites = suites,
        Command::Suites13(suites) => tls.suites13 = suites,
        Command::Groups(groups) => tls.curves = groups,
        Command::Least(_) | Command::Most(_) => {
            narrow(lo, d, tls.versions.get_or_insert_default(), &command);
        }
        Command::AnyVersion => {}
        Command::Certificate => tls.own_certificate = Some(at_directive(d, 1)),
        Command::Key => tls.own_key = Some(at_directive(d, 1)),
        Command::Options => {
            let mut others = Vec::new();
            for word in d.arg(1).split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let (on, name) = match word.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, word.strip_prefix('+').unwrap_or(word)),
                };
                match name {
                    "ServerPreference" => tls.prefer_server_order = on,
                    "SessionTicket" => tls.tickets = on,
                    _ => others.push(word),
                }
            }
            no_effect(lo, d, &others);
        }
    }
}

/// `proxy_ssl_conf_command name value` and its kin.
pub(crate) fn with_upstreams(lo: &mut Lowering<'_>, scope: &mut UpstreamTlsScope, d: &Directive) {
    let Some(command) = read(lo, d) else { return };
    match command {
        Command::Suites12(suites) => scope.tls.suites = suites,
        Command::Suites13(suites) => scope.tls.suites13 = suites,
        Command::Groups(groups) => scope.tls.groups = groups,
        Command::Least(_) | Command::Most(_) => narrow(lo, d, &mut scope.tls.versions, &command),
        Command::AnyVersion => {}
        Command::Certificate => scope.certificate = Some(at_directive(d, 1)),
        Command::Key => scope.key = Some(at_directive(d, 1)),
        Command::Options => no_effect(lo, d, &[d.arg(1)]),
    }
}
