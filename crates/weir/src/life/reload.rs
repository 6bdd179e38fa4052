//! One reload, from reading the files to the data plane's word.
//!
//! Owns: preparing everything a new configuration needs beside the old one.
//! Never: changes anything of the old one.
//! Driven by: `life::master`.

use weir_diag::{Diagnostic, Sources, has_errors};
use weir_model::Model;

use super::folders;
use super::logs::LogFiles;
use super::privileges;
use super::sockets::{self, Change, Contention, SocketTable};
use super::start;
use super::supervised::Candidate;
use crate::compile::store::Answers;
use crate::compile::{self, Compiled};
use crate::door::Documents;
use crate::launch::Launch;

/// A new configuration, ready to be applied, and what changes with it.
pub(crate) struct Prepared {
    pub(crate) candidate: Candidate,
    pub(crate) change: Change,
    /// It as documents, for the admin API.
    pub(crate) documents: Documents,
}

/// What came of preparing.
pub(crate) struct Outcome {
    pub(crate) prepared: Option<Prepared>,
    pub(crate) findings: Vec<Diagnostic>,
    pub(crate) sources: Sources,
}

/// Reads, compiles, binds and opens for generation `generation`.
pub(crate) fn prepare(launch: &Launch, table: &SocketTable, old: &Model, generation: u64) -> Outcome {
    prepare_compiled(launch, start::read(launch), table, old, generation)
}

/// The same, of what is compiled already.
pub(crate) fn prepare_compiled(
    launch: &Launch,
    (mut compiled, answers): (Compiled, Answers),
    table: &SocketTable,
    old: &Model,
    generation: u64,
) -> Outcome {
    let mut findings = std::mem::take(&mut compiled.diagnostics);
    let sources = std::mem::take(&mut compiled.sources);
    let plan = compiled.plan.take();
    let (documents, text) = (Documents::take(&mut compiled), compiled.text.take());
    let model = std::sync::Arc::new(compiled.model);
    if start::nothing_to_do(&model) && !start::nothing_to_do(old) && !has_errors(&findings) {
        findings.push(nothing_left(launch));
    }
    findings.extend(needs_restart(old, &model));
    let Some(plan) = plan.filter(|_| !has_errors(&findings)) else {
        return Outcome { prepared: None, findings, sources };
    };
    let wanted = sockets::wanted(&model, launch.manner);
    let workers = compile::worker_count(&model);
    let change = match table.prepare(&wanted, workers, Contention::Refuse) {
        Ok(change) => change,
        Err(failures) => {
            findings.extend(failures);
            return Outcome { prepared: None, findings, sources };
        }
    };
    let (logs, failures) = LogFiles::open(&model);
    findings.extend(failures);
    let identity = privileges::wanted(&model.process).unwrap_or_default();
    findings.extend(folders::make(&model, launch.manner, identity.as_ref()));
    if has_errors(&findings) {
        return Outcome { prepared: None, findings, sources };
    }
    let sockets = table.listing(&wanted, &change);
    // Where that fails it stays the file before.
    let stderr = start::background_stderr(launch.manner, &model, &logs).unwrap_or_default();
    let candidate =
        Candidate { generation, workers, model, plan: plan.into(), answers, text, sockets, logs, stderr };
    Outcome { prepared: Some(Prepared { candidate, change, documents }), findings, sources }
}

fn nothing_left(launch: &Launch) -> Diagnostic {
    let title = format!("{} leaves nothing to listen on", launch.main_path().display());
    Diagnostic::error("process::nothing-to-serve", title)
        .help("an empty or half-written file is not taken; to end the service, stop it")
}

/// Settings that a running process cannot change.
fn needs_restart(old: &Model, new: &Model) -> Vec<Diagnostic> {
    let (old, new) = (&old.process, &new.process);
    let identity = |p: &weir_model::Process| p.user.as_ref().map(|u| (u.user.clone(), u.group.clone()));
    let changed = [
        ("user", identity(old) != identity(new)),
        ("chroot", old.chroot != new.chroot),
        ("working directory", old.working_directory != new.working_directory),
        ("daemon", old.daemon != new.daemon),
        ("pid file", old.pid_file != new.pid_file),
        ("transparent", new.user.is_some() && new.transparent && !old.transparent),
        ("open files", old.open_files != new.open_files),
    ];
    let warn = |(what, _)| {
        Diagnostic::warning(
            "process::needs-restart",
            format!("a change of `{what}` takes effect at the next restart"),
        )
    };
    changed.into_iter().filter(|(_, changed)| *changed).map(warn).collect()
}
