//! What an address shows of its servers in TLS handshakes.
//!
//! Owns: the identity of the default server, which there must be; what the default's settings decide for the whole address.
//! Driven by: the listeners of `http` and `stream`.

use std::sync::Arc;

use weir_diag::{Diagnostic, Span};
use weir_model::{ListenerTls, NamePattern, TlsIdentity};

use crate::take::scope::TlsScope;
use crate::take::{Lowering, tls};

/// The identity of an address's default server. `None`: it has none, which is told.
pub(super) fn of_default(
    lo: &mut Lowering<'_>,
    settings: &Arc<TlsScope>,
    alpn: Vec<String>,
    span: Span,
) -> Option<TlsIdentity> {
    let identity = tls::identity(lo, settings, alpn);
    // What is wrong with certificates that are there was told.
    if identity.is_none() && !settings.broken && settings.certificates.items().is_empty() {
        let text = "this address speaks TLS, but its default server has no certificate";
        let found = Diagnostic::error("nginx::no-certificate", text).at(span);
        lo.report(
            found.help("add `ssl_certificate` and `ssl_certificate_key`, or `ssl_reject_handshake on`"),
        );
    }
    identity
}

/// The identities of an address, by name, with what its default server decides.
pub(super) fn of_address(
    settings: &TlsScope,
    default: TlsIdentity,
    by_name: Vec<(Vec<NamePattern>, TlsIdentity)>,
) -> ListenerTls {
    ListenerTls {
        lists: Vec::new(),
        default,
        by_name,
        strict_sni: false,
        tickets: settings.tickets,
        ticket_keys: settings.ticket_keys.items().to_vec(),
        session_cache: settings.session_cache,
        session_timeout: settings.session_timeout,
        answer_bad_certificates: false,
    }
}
