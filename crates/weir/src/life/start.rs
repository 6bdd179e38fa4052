//! From a launch to a running master.
//!
//! Owns: the order of a start: read, raise limits, bind, open logs, choose the shape, apply.
//! Never: prints success before ports are bound.
//! Driven by: `cli`.

use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use weir_diag::{Diagnostic, Severity, Sources, has_errors};
use weir_model::Model;
use weir_rt::confine::close_inherited;

use super::daemon::{self, Ready};
use super::error_log;
use super::folders;
use super::hand_over;
use super::inherited;
use super::limits::{OpenFiles, raise_open_files};
use super::local::Local;
use super::logs::LogFiles;
use super::master::Master;
use super::privileges::{self, Identity};
use super::reload::Prepared;
use super::signals::Signals;
use super::sockets::{self, Contention, SocketTable};
use super::supervised::{Candidate, Supervised};
use super::upgrade;
use crate::compile::host_names::{BUDGET, resolve_all};
use crate::compile::store::{Answers, Store};
use crate::compile::{self, Compiled};
use crate::door::{Desk, Documents, Door, SocketFile};
use crate::keeper::child::Keeper;
use crate::keeper::resolver::resolve_as;
use crate::launch::{Launch, Manner};
use crate::plane::{Options, Start};
use crate::report;
use crate::role::{self, Role};

/// At a restart the process before may still be closing its ports.
const PORT_PATIENCE: Duration = Duration::from_secs(2);

/// HAProxy's exit code for a configuration without errors and without listeners.
const NOTHING_TO_DO: u8 = 2;

/// Why a start did not come about; it is printed already.
pub(crate) struct Failed(u8);

/// Starts, and serves until told to end.
pub(crate) fn start(launch: Launch, parts: Start) -> ExitCode {
    match try_start(launch, parts) {
        Ok(code) => code,
        Err(Failed(code)) => ExitCode::from(code),
    }
}

fn try_start(mut launch: Launch, parts: Start) -> Result<ExitCode, Failed> {
    let manner = launch.manner;
    let desk = launch.admin.as_ref().map(Desk::open).transpose().map_err(|error| say(manner, &error))?;
    let desk = desk.map(Arc::new);
    if let Some(desk) = &desk {
        launch.layer = desk.layer();
    }
    // Without /proc they stay open, as they would have before.
    let _ = close_inherited(|number| inherited::is_wanted(&launch, None, number));
    // Before any thread: names may be looked up in threads soon.
    let signals = Signals::take().map_err(|error| say(manner, &format!("cannot take signals: {error}")))?;
    let detached = Role::of_this_process() == Role::Daemon;
    let replaces = manner == Manner::Nginx && upgrade::is_replacing();
    let ready = match detached {
        true => Some(Ready::begin(manner).map_err(|error| say(manner, &format!("cannot detach: {error}")))?),
        false => None,
    };
    let store = Store::disk();
    let understood = compile::understand(&launch, &store);
    let detach = || daemon::detach().map_err(|error| say(manner, &format!("cannot detach: {error}")));
    // Whoever takes another's place is in the background already, if that one was.
    let detached = detached || replaces;
    if !detached && understood.is_ok() && understood.model.process.daemon {
        // Lowering is left to the process that will run it.
        return detach();
    }
    let look_up = |model: &Model, names: &[String]| look_up(&launch, model, names);
    let compiled = compile::finish(understood, &launch, &store, look_up);
    if !detached && compiled.is_ok() && compiled.model.process.daemon {
        // What it means was not known before the names in it were.
        return detach();
    }
    let _ = close_inherited(|number| inherited::is_wanted(&launch, Some(&compiled.model), number));
    if detached {
        let shown = std::env::args().next().unwrap_or_default();
        role::name_process(shown.rsplit('/').next().unwrap_or("weir"));
    }
    serve(launch, parts, signals, ready, (compiled, store.into_answers()), desk)
}

fn serve(
    launch: Launch,
    parts: Start,
    signals: Signals,
    ready: Option<Ready>,
    (mut compiled, answers): (Compiled, Answers),
    desk: Option<Arc<Desk>>,
) -> Result<ExitCode, Failed> {
    let manner = launch.manner;
    if compiled.is_ok() && manner == Manner::Haproxy && haproxy_has_nothing_to_do(&compiled) {
        return Err(say(manner, "no enabled listener found (check for `bind` directives)"));
    }
    let open_files = raise_open_files(compiled.model.process.open_files);
    compiled.diagnostics.extend(open_files_warning(&compiled.model, open_files));
    compiled.diagnostics.extend(user_warning(&compiled.model, manner));
    compiled.diagnostics.extend(root_warning(&compiled.model, manner));
    let passed = inherited::passed();
    compiled.diagnostics.extend(inherited::unused(&passed, &compiled.model));
    report::print(manner, &compiled.diagnostics, &compiled.sources, launch.quiet);
    let sources = compiled.sources.clone();
    let fail = |findings: Vec<Diagnostic>| {
        report::print(manner, &findings, &sources, false);
        Failed(1)
    };
    let warnings = compiled.diagnostics.iter().filter(|d| d.severity == Severity::Warning).count();
    let (documents, text) = (Documents::take(&mut compiled), compiled.text.take());
    let (model, plan) = compiled.into_runnable().map_err(|_| Failed(1))?;
    let identity = privileges::wanted(&model.process).map_err(|found| fail(vec![*found]))?;
    let wanted = sockets::wanted(&model, manner);
    let workers = compile::worker_count(&model);
    let mut table = SocketTable::beside(passed);
    if manner == Manner::Nginx {
        upgrade::take_up(&mut table);
    }
    if let Some(place) = &launch.sockets_from {
        match hand_over::ask(place) {
            Ok(sockets) => table.take_over(sockets, &wanted),
            // As HAProxy has it: it binds what it did not get.
            Err(error) => {
                let title = format!("no listening sockets come from {place}: {error}");
                report::print(
                    manner,
                    &[Diagnostic::warning("process::sockets-from", title)],
                    &sources,
                    launch.quiet,
                );
            }
        }
    }
    let contention = match launch.old_pids.is_empty() {
        true => Contention::Wait(PORT_PATIENCE),
        false => Contention::Share,
    };
    let change = table.prepare(&wanted, workers, contention).map_err(fail)?;
    let (logs, mut failures) = LogFiles::open(&model);
    failures.extend(folders::make(&model, manner, identity.as_ref()));
    if has_errors(&failures) {
        return Err(fail(failures));
    }
    report::print(manner, &failures, &sources, launch.quiet);
    let sockets = table.listing(&wanted, &change);
    let stderr = background_stderr(manner, &model, &logs)
        .map_err(|error| say(manner, &format!("cannot detach: {error}")))?;
    let candidate = Candidate { generation: 1, workers, model, plan, answers, text, sockets, logs, stderr };
    let _files =
        open_door(&launch, desk.as_ref(), identity.is_some()).map_err(|error| say(manner, &error))?;
    let plane = data_plane(&launch, parts, identity.as_ref(), open_files, &candidate.model, desk.clone())
        .map_err(|error| say(manner, &error))?;
    let mut master = Master::new(launch, signals, plane, identity, table, desk);
    master.begin(Prepared { candidate, change, documents }, ready, warnings);
    Ok(master.run())
}

/// Opens the admin door, if one is asked for. What it answers before the first configuration serves is that there is none yet.
fn open_door(launch: &Launch, desk: Option<&Arc<Desk>>, is_apart: bool) -> Result<Vec<SocketFile>, String> {
    let (Some(admin), Some(desk)) = (&launch.admin, desk) else { return Ok(Vec::new()) };
    let replaces = upgrade::is_replacing() || !launch.old_pids.is_empty();
    let door = Door::open(admin, is_apart, replaces)?;
    if is_apart {
        desk.set_apart();
    }
    let start = launch.clone();
    desk.set_compiler(move |text| read(&Launch { text: Some(Arc::new(text)), ..start.clone() }));
    let files = door.files();
    door.answer(desk).map_err(|error| format!("cannot answer on the admin address: {error}"))?;
    Ok(files)
}

/// Where standard error goes if this process runs in the background, and does not keep the one it was started with.
pub(crate) fn background_stderr(
    manner: Manner,
    model: &Model,
    logs: &LogFiles,
) -> io::Result<Option<Arc<File>>> {
    match Role::of_this_process() {
        Role::Daemon => error_log::stderr_in_background(manner, model, logs),
        _ => Ok(None),
    }
}

/// Reads the configuration as the process that was started: names are looked up here, too, unless this is root with
/// somebody else to be.
pub(crate) fn read(launch: &Launch) -> (Compiled, Answers) {
    let store = Store::disk();
    let compiled = compile::compile_resolved(launch, &store, |model, names| look_up(launch, model, names));
    (compiled, store.into_answers())
}

fn look_up(
    launch: &Launch,
    model: &Model,
    names: &[String],
) -> std::collections::BTreeMap<String, Vec<std::net::IpAddr>> {
    match privileges::wanted(&model.process) {
        Ok(Some(Identity { uid, gid, .. })) => resolve_as(uid, gid, launch.sandbox, names),
        _ => resolve_all(names, BUDGET),
    }
}

fn data_plane(
    launch: &Launch,
    parts: Start,
    identity: Option<&Identity>,
    open_files: OpenFiles,
    model: &Model,
    desk: Option<Arc<Desk>>,
) -> Result<Box<dyn Supervised>, String> {
    let open_files = open_files.effective;
    if let Some(identity) = identity {
        return Ok(Box::new(Keeper::new(launch.clone(), identity.clone(), open_files)));
    }
    if let Some(folder) = &model.process.working_directory {
        std::env::set_current_dir(folder)
            .map_err(|error| format!("cannot enter {}: {error}", folder.display()))?;
    }
    let options = Options { io: launch.io, open_files, state: launch.state.clone() };
    let local = Local::new(parts, options, desk).map_err(|error| format!("cannot start: {error}"))?;
    Ok(Box::new(local))
}

/// No listener.
pub(crate) fn nothing_to_do(model: &Model) -> bool {
    model.listeners.is_empty()
}

/// HAProxy starts without a frontend if the file names a socket for commands, as Debian's own file does: the service is
/// installed, and waits for its first frontend.
pub(crate) fn haproxy_has_nothing_to_do(compiled: &Compiled) -> bool {
    nothing_to_do(&compiled.model) && compiled.model.process.control.is_empty()
}

pub(crate) fn say_nothing_to_do(launch: &Launch) -> Failed {
    if !launch.quiet {
        outln!("Configuration file has no error but will not start (no listener) => exit({NOTHING_TO_DO}).");
    }
    Failed(NOTHING_TO_DO)
}

impl Failed {
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.0)
    }
}

fn say(manner: Manner, text: &str) -> Failed {
    let found = Diagnostic::error("process::start", text);
    report::print(manner, &[found], &Sources::default(), false);
    Failed(1)
}

fn open_files_warning(model: &Model, got: OpenFiles) -> Option<Diagnostic> {
    let wanted = got.wanted_more?;
    let title = format!(
        "{wanted} open files were asked for and {} are granted; {} are used",
        got.effective, got.effective
    );
    let found = Diagnostic::warning("process::open-files", title)
        .help("raise the limit of whoever starts this: LimitNOFILE= in a systemd unit, or ulimit -n as root");
    Some(match model.process.open_files_origin {
        Some(span) => found.at(span),
        None => found,
    })
}

/// nginx says the same, in about these words.
fn user_warning(model: &Model, manner: Manner) -> Option<Diagnostic> {
    let user = model.process.user.as_ref()?;
    if nix::unistd::Uid::effective().is_root() || manner == Manner::Haproxy {
        return None;
    }
    let span = user.origin?;
    Some(
        Diagnostic::warning("process::user-ignored", "only root can become another user; `user` is ignored")
            .at(span),
    )
}

/// nginx and HAProxy take a user where their file names none, or leave it to their packages; `weir run` stays who it is.
fn root_warning(model: &Model, manner: Manner) -> Option<Diagnostic> {
    let (process, us) = (&model.process, nix::unistd::Uid::effective());
    if manner != Manner::Weir || !us.is_root() || process.user.is_some() {
        return None;
    }
    let title = "this runs as root, and the file names no user: whoever breaks in is root";
    let help =
        "name one, at the top of an nginx.conf `user www-data;`, in `global` of a haproxy.cfg `user haproxy`";
    Some(Diagnostic::warning("process::runs-as-root", title).help(help))
}
