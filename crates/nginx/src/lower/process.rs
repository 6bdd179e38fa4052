//! Words of the process, and what is left to say of a whole file.

use std::path::Path;

use weir_diag::Diagnostic;
use weir_model::settings::LogLevel;
use weir_model::{ErrorLog, LogTarget, User, Workers};

use super::Lowering;
use super::admit::Admitted;
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

/// What only the whole file can tell.
pub(crate) fn finish(lo: &mut Lowering<'_>, main: &[Admitted<'_>]) {
    if lo.model.process.error_logs.is_empty() {
        let target = match &lo.options.error_log {
            Some(path) if !["", "stderr"].map(Path::new).contains(&path.as_path()) => {
                LogTarget::File(path.clone())
            }
            _ => LogTarget::Stderr,
        };
        lo.model.process.error_logs.push(ErrorLog { target, level: LogLevel::Error });
    }
    let has = |name: &str| main.iter().any(|word| word.entry.name == name);
    if !has("events") && (has("http") || has("stream")) {
        lo.report(
            Diagnostic::note("nginx::no-events", "there is no `events` block; its defaults hold")
                .help("nginx itself refuses such a file; add `events {}` to use it there"),
        );
    }
    // An unreadable file was told by itself.
    if !main.is_empty() && !has("http") && !has("stream") {
        lo.report(Diagnostic::warning(
            "nginx::nothing-to-serve",
            "there is neither an `http` nor a `stream` block",
        ));
    }
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
