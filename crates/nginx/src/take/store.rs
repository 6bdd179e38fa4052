//! `proxy_store` and its kin.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::StoreFiles;

use super::Lowering;
use super::dav::rights;
use super::scope::GatewayScope;
use crate::tree::Directive;

/// `…_store on | off | FILE`.
pub(crate) fn store(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, d: &Directive) {
    gateway.store = match d.arg(0) {
        "off" => None,
        "on" => Some((d.span, None)),
        _ => Some((d.span, Some(lo.template(&d.args[0])))),
    };
}

/// `…_store_access USERS:RIGHTS …`.
pub(crate) fn access(lo: &mut Lowering<'_>, gateway: &mut GatewayScope, d: &Directive) {
    if let Some(access) = rights(lo, d) {
        gateway.store_access = access;
    }
}

/// What the directives come to; beside a cache they are a mistake, as in nginx.
pub(crate) fn finish(lo: &mut Lowering<'_>, gateway: &GatewayScope, cached: bool) -> Option<Arc<StoreFiles>> {
    let (span, path) = gateway.store.clone()?;
    if cached {
        let text = "a response is stored by a cache or as a file, not both";
        lo.report(Diagnostic::error("nginx::store-and-cache", text).at(span));
    }
    Some(Arc::new(StoreFiles { path, access: gateway.store_access }))
}
