//! Words about FastCGI, and the action they make.

use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{Action, FastCgi, FastCgiParam, ProxyTarget};

use super::parts::ActionSpec;
use super::target::authority;
use super::{Lowering, Place, Scope};
use crate::tree::Directive;

/// Response fields that nginx does not pass from FastCGI unless told to.
const HIDDEN: [&str; 6] = [
    "status",
    "x-accel-expires",
    "x-accel-redirect",
    "x-accel-limit-rate",
    "x-accel-buffering",
    "x-accel-charset",
];

/// `fastcgi_pass address`.
pub(crate) fn pass(lo: &mut Lowering<'_>, place: &mut Place, d: &Directive) {
    let target = if d.arg(0).contains('$') {
        ProxyTarget::Computed(lo.template(&d.args[0]))
    } else {
        let Some((authority, None)) = authority(d.arg(0)) else {
            return lo.bad_value(d, 0, "an address such as `127.0.0.1:9000` or `unix:/run/php/php-fpm.sock`");
        };
        let Some(pool) = lo.pool_of(&authority, None, d.arg_span(0)) else { return };
        ProxyTarget::Pool(pool)
    };
    place.set_action(lo, ActionSpec::FastCgi(target), d.span);
}

/// `fastcgi_param name value [if_not_empty]`.
pub(crate) fn param(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let if_not_empty = d.args.len() == 3;
    if if_not_empty && d.arg(2) != "if_not_empty" {
        return lo.bad_value(d, 2, "`if_not_empty`");
    }
    let param = FastCgiParam { name: d.arg(0).to_owned(), value: lo.template(&d.args[1]), if_not_empty };
    let level = s.level;
    s.fastcgi_mut().params.push(level, param);
}

/// `fastcgi_split_path_info regex`, with two groups.
pub(crate) fn split_path_info(lo: &mut Lowering<'_>, s: &mut Scope, d: &Directive) {
    let pattern = lo.pattern(d.arg(0), false, &d.args[0]);
    let groups = pattern.source.matches('(').count() - pattern.source.matches(r"\(").count();
    if groups < 2 {
        let text = "the pattern of `fastcgi_split_path_info` needs two groups: script, and path info";
        return lo.report(Diagnostic::error("nginx::bad-pattern", text).at(d.arg_span(0)));
    }
    s.fastcgi_mut().split = Some(pattern);
}

/// The finished action.
pub(crate) fn action(lo: &mut Lowering<'_>, s: &Scope, target: &ProxyTarget) -> Action {
    let fastcgi = &*s.fastcgi;
    Action::FastCgi(Arc::new(FastCgi {
        target: target.clone(),
        params: fastcgi.params.items().clone(),
        index: fastcgi.index.clone(),
        split_path_info: fastcgi.split.clone(),
        pass_request_headers: fastcgi.gateway.pass_request_headers,
        pass_request_body: fastcgi.gateway.pass_request_body,
        keep_connection: fastcgi.keep_connection,
        settings: fastcgi.gateway.settings.clone(),
        hide_headers: lo.hidden(&HIDDEN, fastcgi.gateway.hide.items(), fastcgi.gateway.pass.items()),
        ignore_headers: fastcgi.gateway.ignore.items().clone(),
    }))
}
