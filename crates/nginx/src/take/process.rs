//! Words of the process.

use weir_diag::Diagnostic;
use weir_model::{User, Workers};

use super::Lowering;
use crate::tree::Directive;
use crate::value;

/// nginx's defaults, as Debian builds it.
pub(crate) fn defaults(lo: &mut Lowering<'_>) {
    let process = &mut lo.model.process;
    process.workers = Workers::Count(1);
    process.connections_per_worker = Some(512);
    process.daemon = true;
    process.prefix.clone_from(&lo.options.prefix);
    process.pid_file.clone_from(&lo.options.pid_file);
}

pub(crate) fn pid(lo: &mut Lowering<'_>, d: &Directive) {
    lo.model.process.pid_file = (d.arg(0) != "off").then(|| lo.path(d.arg(0)));
}

pub(crate) fn workers(lo: &mut Lowering<'_>, d: &Directive) {
    lo.model.process.workers = match value::number(d.arg(0)) {
        _ if d.arg(0) == "auto" => Workers::Auto,
        Some(n) if (1..=1024).contains(&n) => Workers::Count(n as u16),
        _ => return lo.bad_value(d, 0, "`auto` or a number from 1 to 1024"),
    };
}

pub(crate) fn user(lo: &mut Lowering<'_>, d: &Directive) {
    let group = d.args.get(1).map(|group| group.text.clone());
    lo.model.process.user = Some(User { user: d.arg(0).to_owned(), group, origin: Some(d.span) });
}

pub(crate) fn load_module(lo: &mut Lowering<'_>, d: &Directive) {
    let text =
        format!("`{}` is not loaded: Weir has no modules to load, what it supports is part of it", d.arg(0));
    lo.report(Diagnostic::note("nginx::load-module", text).at(d.span));
}
