//! TLS towards upstreams.

use weir_diag::Diagnostic;
use weir_expr::ciphers::select;
use weir_model::{Certificate, Pem, UpstreamTls};

use super::Lowering;
use super::scope::UpstreamTlsScope;
use crate::tree::Directive;

pub(crate) fn set_protocols(lo: &mut Lowering<'_>, tls: &mut UpstreamTlsScope, d: &Directive) {
    if let Some(versions) = super::tls::usable_versions(lo, d) {
        tls.tls.versions = versions;
    }
}

/// A string that leaves nothing is an error; one that leaves less than it says is what clients are for.
pub(crate) fn set_ciphers(lo: &mut Lowering<'_>, tls: &mut UpstreamTlsScope, d: &Directive) {
    let selection = select(d.arg(0));
    if selection.suites.is_empty() && selection.suites13.is_empty() {
        return super::tls::no_suite_left(lo, d);
    }
    tls.tls.suites = selection.suites;
}

/// The finished settings.
pub(crate) fn finish(lo: &mut Lowering<'_>, scope: &UpstreamTlsScope) -> UpstreamTls {
    let mut tls = scope.tls.clone();
    match (&scope.certificate, &scope.key) {
        (Some((chain, span)), Some((key, key_span))) if !chain.is_empty() => {
            if chain.contains('$') || key.contains('$') {
                let text = "certificates named by variables are not supported yet";
                lo.report(Diagnostic::error("nginx::not-built", text).at(*span));
            }
            let (chain, key) = (lo.conf_path(chain), lo.conf_path(key));
            tls.certificate = Some(Certificate {
                chain: Pem::file(chain, Some(*span)),
                key: Pem::file(key, Some(*key_span)),
                passwords: scope.passwords.clone(),
            });
        }
        (Some((chain, span)), None) if !chain.is_empty() => {
            let text = "`proxy_ssl_certificate` needs `proxy_ssl_certificate_key`";
            lo.report(Diagnostic::error("nginx::no-key", text).at(*span));
        }
        _ => {}
    }
    tls
}
