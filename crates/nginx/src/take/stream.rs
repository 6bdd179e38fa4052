//! Words of the `stream` block.

use weir_diag::Diagnostic;
use weir_model::Op;

use super::declare::{is_name, not_settable};
use super::parts::TcpTarget;
use super::{Lowering, StreamScope, access, client, log};
use crate::tree::Directive;
use crate::variables::builtin;

pub(crate) fn respond(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    s.action = Some(TcpTarget::Respond(lo.template(&d.args[0])));
}

/// `pass address`: the address of a `listen` of this configuration.
pub(crate) fn pass(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    let text = d.arg(0);
    let is_address = text.strip_prefix("unix:").map_or_else(
        || text.parse::<std::net::SocketAddr>().is_ok(),
        |path| path.starts_with('/') || path.starts_with('@'),
    );
    if !is_address && !text.contains('$') {
        return lo.bad_value(d, 0, "the address of a listener, such as `127.0.0.1:8000` or `unix:/path`");
    }
    s.action = Some(TcpTarget::Pass(lo.template(&d.args[0]), d.span));
}

/// `set $variable value`.
pub(crate) fn set(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    let Some(name) = d.arg(0).strip_prefix('$').filter(|name| is_name(name)) else {
        return lo.bad_value(d, 0, "a variable such as `$name`");
    };
    if builtin(lo.dialect, name, false).is_some() {
        return not_settable(lo, name, d.arg_span(0));
    }
    let (variable, value) = (name.to_owned(), lo.template(&d.args[1]));
    s.assignments.push(Op::Set { variable, value });
}

pub(crate) fn access_log(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if d.arg(0) == "off" && d.args.len() == 1 {
        return s.access_logs.clear(s.level);
    }
    if d.args.len() < 2 {
        let text = "`access_log` of stream needs a format";
        return lo.report(Diagnostic::error("nginx::arguments", text).at(d.span));
    }
    if let Some(log) = log::parse_access_log(lo, d) {
        s.access_logs.push(s.level, log);
    }
}

pub(crate) fn error_log(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(log) = log::parse_error_log(lo, d) {
        s.error_logs.push(s.level, log);
    }
}

pub(crate) fn access_rule(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(rule) = access::parse_rule(lo, d) {
        s.access_rules.push(s.level, rule);
    }
}

pub(crate) fn real_ip_from(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    for who in access::parse_trusted(lo, d) {
        s.real_ip_from.push(s.level, who);
    }
}

pub(crate) fn limit_conn(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    if let Some(limit) = access::parse_limit_conn(lo, d) {
        s.limit_conn.push(s.level, limit);
    }
}

pub(crate) fn resolver(lo: &mut Lowering<'_>, s: &mut StreamScope, d: &Directive) {
    s.resolver = client::parse_resolver(lo, d);
}
