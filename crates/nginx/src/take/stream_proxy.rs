//! `proxy_pass` and its kin in `stream`.

use weir_diag::Diagnostic;
use weir_model::ProxyTarget;

use super::parts::TcpTarget;
use super::target::{Authority, authority};
use super::{Lowering, StreamScope, proxy};
use crate::tree::Directive;
use crate::value;

/// `proxy_pass address`.
pub(crate) fn pass(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if d.arg(0).contains('$') {
        let target = ProxyTarget::Computed(lo.template(&d.args[0]));
        s.action = Some(TcpTarget::Proxy { target, host: String::new() });
        return;
    }
    let Some((authority, None)) = authority(d.arg(0)) else {
        return lo.bad_value(d, 0, "an address such as `10.0.0.1:5432`, `unix:/path` or an upstream");
    };
    let host = match &authority {
        Authority::Host { host, .. } => host.clone(),
        Authority::Unix(_) => String::new(),
    };
    let Some(pool) = lo.pool_of(&authority, None, d.arg_span(0)) else { return };
    s.action = Some(TcpTarget::Proxy { target: ProxyTarget::Pool(pool), host });
}

pub(crate) fn bind(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(bind) = proxy::parse_bind(lo, d) {
        (s.bind, s.transparent) = bind;
    }
}

pub(crate) fn upload_rate(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(rate) = rate(lo, d) {
        s.rates.0 = rate;
    }
}

pub(crate) fn download_rate(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(rate) = rate(lo, d) {
        s.rates.1 = rate;
    }
}

fn rate(lo: &mut Lowering<'_>, d: &Directive) -> Option<Option<u64>> {
    match value::size(d.arg(0)) {
        Some(rate) => Some(Some(rate).filter(|&rate| rate > 0)),
        None if d.arg(0).contains('$') => {
            let text = format!("`{}` made of variables is not supported yet", d.name());
            lo.report(Diagnostic::error("nginx::not-built", text).at(d.span));
            None
        }
        None => {
            lo.bad_value(d, 0, "a size such as `1m`");
            None
        }
    }
}
