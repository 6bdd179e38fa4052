//! Words about gRPC, and the action they make: a proxy that speaks HTTP/2.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{Action, Proxy, ProxyTarget};

use super::parts::{ActionSpec, ProxySpec};
use super::scope::ProxyScope;
use super::target::authority;
use super::{Lowering, Place, proxy};
use crate::tree::Directive;

/// Response fields that nginx does not pass from gRPC servers unless told to.
const HIDDEN: [&str; 2] = ["date", "server"];

/// `grpc_pass address`, perhaps after `grpc://`, or after `grpcs://` (over TLS).
pub(crate) fn pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let text = d.arg(0);
    let computed = text.contains('$');
    let scheme = |name: &str| text.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name));
    let (tls, skipped) = match (scheme("grpcs://"), scheme("grpc://")) {
        (Some(start), _) => (true, start.len()),
        (None, Some(start)) => (false, start.len()),
        // The scheme may still come out of a variable.
        (None, None) => (computed && text.starts_with('$'), 0),
    };
    let spec = if computed {
        let target = ProxyTarget::Computed(lo.template(&d.args[0]));
        ProxySpec { target, tls, host: String::new(), uri: None, url: None }
    } else {
        let Some((authority, None)) = authority(&text[skipped..]) else {
            let found = Diagnostic::error("nginx::bad-url", "`grpc_pass` needs an address without a path");
            return lo.report(found.at(d.arg_span(0)));
        };
        let port = if tls { 443 } else { 80 };
        let Some(pool) = lo.pool_of(&authority, Some(port), d.arg_span(0)) else { return };
        let host = proxy::host_field(&authority, port);
        ProxySpec { target: ProxyTarget::Pool(pool), tls, host, uri: None, url: None }
    };
    place.set_action(lo, ActionSpec::Grpc(Arc::new(spec)), d.span);
}

/// The finished action.
pub(crate) fn action(lo: &mut Lowering<'_>, scope: &ProxyScope, place: &Place, spec: &ProxySpec) -> Action {
    let action = proxy::action(lo, scope, place, spec);
    let Action::Proxy(made) = action else { return action };
    let hide_headers = lo.hidden(&HIDDEN, scope.gateway.hide.items(), scope.gateway.pass.items());
    Action::Proxy(Arc::new(Proxy {
        grpc: true,
        hide_headers,
        redirects: Arc::default(),
        ..Proxy::clone(&made)
    }))
}
