//! TLS towards upstreams.

use weir_diag::Diagnostic;
use weir_expr::ciphers::select;
use weir_model::UpstreamTls;

use super::Lowering;
use super::scope::UpstreamTlsScope;
use super::tls::{certificate, is_named, named_certificate};
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
        (Some(chain), Some(key)) if !chain.text.is_empty() => {
            if is_named(chain) || is_named(key) {
                tls.named = Some(named_certificate(lo, chain, key, scope.passwords.clone()));
            } else {
                tls.certificate = Some(certificate(lo, chain, key, scope.passwords.clone()));
            }
        }
        (Some(chain), None) if !chain.text.is_empty() => {
            let text = "`proxy_ssl_certificate` needs `proxy_ssl_certificate_key`";
            lo.report(Diagnostic::error("nginx::no-key", text).at(chain.span));
        }
        _ => {}
    }
    tls
}
