//! The loop that the process lives in.
//!
//! Owns: what is in force (sockets, logs, pid file, generation), and what is being tried.
//! Never: blocks for long: the data plane is told and tells later, so signals are always taken, and taken first.
//! Driven by: signals, `weir reload`, the data plane's events.
//!
//! ```text
//!   begin ──→ trying 1 ──Applied──→ serving ⇄ trying n ──→ ending ──Ended──→ exit
//!                └─Refused──→ exit 1        (Refused: as before)
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use weir_diag::{Diagnostic, Severity, Sources};
use weir_expr::settings::LogLevel;
use weir_model::Model;

use super::control::{Asker, Control};
use super::daemon::Ready;
use super::error_log::ErrorLog;
use super::logs::LogFiles;
use super::master_cli::{self, View};
use super::notify::Notify;
use super::pid_file::PidFile;
use super::privileges::Identity;
use super::reload::{self, Prepared};
use super::signals::{Order, Signals, order_of};
use super::sockets::{Change, SocketTable};
use super::start;
use super::supervised::{Event, Supervised};
use super::upgrade::{self, Upgrade};
use crate::door::{self, Desk, Documents, Proposal};
use crate::launch::{Launch, Manner, OldOnes};
use crate::report;
use crate::role::Role;

/// What connections get at `weir run`'s TERM and INT, unless the configuration gives less.
const BRIEF: Duration = Duration::from_secs(10);

/// Most objects that a line names.
const NAMED: usize = 20;

/// See the module.
pub(crate) struct Master {
    launch: Launch,
    signals: Signals,
    plane: Box<dyn Supervised>,
    kept_apart: bool,
    table: SocketTable,
    /// The outline of what is in force: the whole of ten thousand sites would be the larger part of this process.
    model: Model,
    logs: LogFiles,
    error_log: ErrorLog,
    pid_file: Option<PidFile>,
    notify: Notify,
    control: Control,
    /// What the master's command line shows.
    view: Arc<View>,
    /// Where the admin API asks, if there is one.
    desk: Option<Arc<Desk>>,
    ready: Option<Ready>,
    generation: u64,
    trying: Option<Trying>,
    asked_again: VecDeque<Option<Asker>>,
    ending: bool,
    exit: u8,
    upgrade: Option<Upgrade>,
    retired: Option<Retired>,
    /// Who started us, and may still have the same sockets.
    replaced: Option<rustix::process::Pid>,
}

/// How far the workers are that were sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retired {
    Leaving,
    Gone,
}

/// A configuration that the data plane was told to take.
struct Trying {
    generation: u64,
    change: Change,
    model: Model,
    logs: LogFiles,
    warnings: usize,
    text: String,
    asker: Option<Asker>,
    documents: Documents,
    proposal: Option<Proposal>,
}

impl Master {
    pub(crate) fn new(
        launch: Launch,
        signals: Signals,
        plane: Box<dyn Supervised>,
        identity: Option<Identity>,
        table: SocketTable,
        desk: Option<Arc<Desk>>,
    ) -> Self {
        Self {
            error_log: ErrorLog::early(launch.manner),
            launch,
            signals,
            plane,
            kept_apart: identity.is_some(),
            table,
            model: Model::default(),
            logs: LogFiles::default(),
            pid_file: None,
            notify: Notify::from_environment(),
            control: Control::listen(),
            view: Arc::new(View::new()),
            desk,
            ready: None,
            generation: 0,
            trying: None,
            asked_again: VecDeque::new(),
            ending: false,
            exit: 0,
            upgrade: None,
            retired: None,
            replaced: upgrade::is_replacing().then(rustix::process::getppid).flatten(),
        }
    }

    /// Applies the first configuration.
    pub(crate) fn begin(&mut self, prepared: Prepared, ready: Option<Ready>, warnings: usize) {
        self.ready = ready;
        self.attempt(prepared, (warnings, String::new()), None, None);
    }

    /// Lives until the end.
    pub(crate) fn run(mut self) -> ExitCode {
        loop {
            self.wait();
            while let Some(signal) = self.signals.next() {
                self.take_order(order_of(&self.launch, signal), signal);
            }
            while let Some(asker) = self.control.next() {
                self.reload(Some(asker));
            }
            self.plane.turn();
            self.view.note_worker(self.plane.pid());
            while let Some(event) = self.plane.next_event() {
                if self.take_event(event) {
                    return ExitCode::from(self.exit);
                }
            }
            self.reload_for_the_next();
            self.look_at_the_desk();
        }
    }

    /// What the admin API asks for, and what it has to say.
    fn look_at_the_desk(&mut self) {
        let Some(desk) = self.desk.clone() else { return };
        desk.reset();
        while let Some(line) = desk.next_line() {
            // At a level that is written by default: who changed what has to be found again.
            self.error_log.line(LogLevel::Error, &line);
        }
        while self.trying.is_none()
            && self.retired.is_none()
            && let Some(proposal) = desk.next()
        {
            self.consider(proposal);
        }
    }

    /// Puts what the admin API asks for in force.
    fn consider(&mut self, mut proposal: Proposal) {
        let compiled = proposal.compiled.take().zip(proposal.answers.take());
        let Some(compiled) = compiled.filter(|_| !self.ending) else {
            return proposal.tell(door::Outcome::Refused("the server is ending".into()));
        };
        let generation = self.generation + 1;
        let outcome = reload::prepare_compiled(&self.launch, compiled, &self.table, &self.model, generation);
        match outcome.prepared {
            Some(prepared) => {
                let warnings = outcome.findings.len();
                self.attempt(prepared, (warnings, String::new()), None, Some(proposal));
            }
            None => {
                let errors = outcome.findings.iter().filter(|found| found.severity == Severity::Error);
                let lines: Vec<String> =
                    errors.map(|found| report::one_line(found, &outcome.sources)).collect();
                proposal.tell(door::Outcome::Refused(lines.join("; ")));
            }
        }
    }

    fn wait(&self) {
        let limit = self.plane.wake_at().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| limit.try_into().ok());
        let mut fds = self.plane.fds();
        let desk = self.desk.as_ref().map(|desk| desk.fd());
        let own = [Some(self.signals.as_fd()), self.control.fd(), desk];
        fds.extend(own.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // An interrupted wait is a wait that ended: everything is looked at anyway.
        let _ = poll(&mut fds, limit.as_ref());
    }

    fn take_order(&mut self, order: Order, signal: Signal) {
        if order != Order::Child {
            self.error_log.line(LogLevel::Notice, &format!("signal {} ({signal}) received", signal as i32));
        }
        match order {
            Order::Child => self.look_after_upgrade(),
            Order::Upgrade => self.start_upgrade(),
            Order::Retire => self.retire(),
            Order::Reload => self.reload(None),
            Order::Reopen => self.reopen(),
            Order::Drain => self.drain(self.model.process.shutdown_timeout),
            Order::DrainBriefly if self.ending => self.stop(signal),
            Order::DrainBriefly => {
                self.drain(Some(self.model.process.shutdown_timeout.map_or(BRIEF, |limit| limit.min(BRIEF))));
            }
            Order::Stop => self.stop(signal),
            Order::Status => self.plane.status(),
            Order::Later(what) => self.error_log.line(LogLevel::Error, what),
        }
    }

    /// True when it is over.
    fn take_event(&mut self, event: Event) -> bool {
        match event {
            Event::Applied(generation) => {
                if let Some(tried) = self.trying.take_if(|trying| trying.generation == generation) {
                    return self.applied(tried).is_err();
                }
            }
            Event::Refused(generation, reason) => {
                if let Some(tried) = self.trying.take_if(|trying| trying.generation == generation) {
                    return self.refused(tried, &reason);
                }
            }
            Event::Alert(text) => self.error_log.line(LogLevel::Alert, &text),
            Event::Notice(text) => self.error_log.line(LogLevel::Notice, &text),
            Event::Ended if self.ending || self.retired.is_none() => return true,
            Event::Ended => {
                self.retired = Some(Retired::Gone);
                self.error_log.line(LogLevel::Notice, "the workers are gone; HUP brings them back");
            }
        }
        false
    }

    fn attempt(
        &mut self,
        prepared: Prepared,
        (warnings, text): (usize, String),
        asker: Option<Asker>,
        proposal: Option<Proposal>,
    ) {
        let Prepared { candidate, change, documents } = prepared;
        self.trying = Some(Trying {
            generation: candidate.generation,
            change,
            model: candidate.model.outline(),
            logs: candidate.logs.clone(),
            warnings,
            text,
            asker,
            documents,
            proposal,
        });
        self.generation = candidate.generation;
        self.plane.apply(candidate);
    }

    fn applied(&mut self, tried: Trying) -> Result<(), ()> {
        let first = tried.generation == 1;
        // What it was compiled from and by is gone.
        weir_rt::trim_heap();
        self.retired = None;
        self.table.share_files(self.shares_files());
        self.table.commit(tried.change);
        self.model = tried.model;
        self.logs = tried.logs;
        self.error_log = ErrorLog::of(self.launch.manner, &self.model, &self.logs);
        self.view.note_applied(&self.model, first);
        self.tell_the_desk(tried.documents, tried.proposal, first);
        if first {
            return self.opened();
        }
        self.move_stderr();
        let text = match tried.warnings {
            0 => format!("configuration {} is in force", tried.generation),
            n => format!("configuration {} is in force, with {n} warnings", tried.generation),
        };
        self.error_log.line(LogLevel::Notice, &text);
        self.notify.reloaded(None);
        if let Some(asker) = tried.asker {
            asker.answer(true, &format!("{}{text}\n", tried.text));
        }
        Ok(())
    }

    /// What is in force is a version that the admin API may go back to.
    fn tell_the_desk(&mut self, documents: Documents, proposal: Option<Proposal>, first: bool) {
        let Some(desk) = self.desk.clone() else { return };
        if let Some(proposal) = &proposal {
            self.launch.layer = Arc::clone(&proposal.layer);
        }
        let by = match &proposal {
            Some(proposal) => (proposal.who.as_str(), proposal.what.as_str()),
            None if first => ("the files", "start"),
            None => ("the files", "reload"),
        };
        let names = self.launch.layer.names();
        if proposal.is_none() && !names.is_empty() {
            let more = if names.len() > NAMED { " and others" } else { "" };
            let names = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
            let text = format!("admin: the API decides over the files about {names}{more}");
            self.error_log.line(LogLevel::Error, &text);
        }
        let outcome = desk.in_force(documents, &self.launch.layer, by);
        match proposal {
            Some(proposal) => proposal.tell(outcome),
            None => {
                if let door::Outcome::Refused(why) = outcome {
                    let text = format!("the admin API cannot show or change this configuration: {why}");
                    self.error_log.line(LogLevel::Warn, &text);
                }
            }
        }
    }

    /// The first configuration serves: the world may know.
    fn opened(&mut self) -> Result<(), ()> {
        if let Err(reason) = self.write_pid_file() {
            self.fail(&reason);
            return Err(());
        }
        // Once there is a process to pass commands on to.
        if let Some(Err(reason)) =
            self.launch.master_socket.as_deref().map(|written| master_cli::open(written, self.view.clone()))
        {
            self.fail(&reason);
            return Err(());
        }
        self.ask_old_ones();
        let shape = if self.kept_apart { ", kept by a process that stays root" } else { "" };
        self.error_log.line(LogLevel::Notice, &format!("weir {} serves{shape}", env!("CARGO_PKG_VERSION")));
        self.notify.ready();
        if let Some(ready) = self.ready.take()
            && let Err(error) = self.stderr().and_then(|stderr| ready.tell(stderr.as_deref()))
        {
            self.error_log.line(LogLevel::Alert, &format!("the starting process cannot be told: {error}"));
        }
        Ok(())
    }

    /// The file that standard error goes on in, if this process runs in the background and has one.
    fn stderr(&self) -> io::Result<Option<Arc<File>>> {
        start::background_stderr(self.launch.manner, &self.model, &self.logs)
    }

    /// Leaves a log that was renamed.
    fn move_stderr(&self) -> Option<Arc<File>> {
        let stderr = self.stderr().ok().flatten()?;
        // Where that fails it stays the old file.
        let _ = rustix::stdio::dup2_stderr(&*stderr);
        Some(stderr)
    }

    fn write_pid_file(&mut self) -> Result<(), String> {
        let Some(path) = self.model.process.pid_file.clone() else { return Ok(()) };
        match PidFile::write(&path) {
            Ok(file) => self.pid_file = Some(file),
            Err(error) => {
                let text = format!("the pid file {} cannot be written: {error}", path.display());
                // `weir run` in a terminal often uses a file written for a service; a pid file asked for by flag counts.
                if self.launch.manner != Manner::Weir || self.launch.pid_file.is_some() {
                    return Err(text);
                }
                self.error_log.line(LogLevel::Warn, &text);
            }
        }
        Ok(())
    }

    /// HAProxy's `-sf` and `-st`.
    fn ask_old_ones(&self) {
        let signal = match self.launch.old_ones {
            OldOnes::Finish => Signal::SIGUSR1,
            OldOnes::Terminate => Signal::SIGTERM,
        };
        for &pid in self.launch.old_pids.iter().filter(|&&pid| pid > 1) {
            // One that is gone already needs no asking.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// True when it is over: the first configuration could not be served.
    fn refused(&mut self, tried: Trying, reason: &str) -> bool {
        if tried.generation == 1 && !self.ending {
            self.fail(reason);
            return true;
        }
        if let Some(proposal) = tried.proposal {
            proposal.tell(door::Outcome::Refused(reason.to_owned()));
        }
        self.refuse(tried.text, reason, tried.asker);
        false
    }

    fn fail(&mut self, reason: &str) {
        for line in reason.lines() {
            let found = Diagnostic::error("process::start", line);
            report::print(self.launch.manner, &[found], &Sources::default(), false);
        }
        self.exit = 1;
    }

    fn refuse(&mut self, text: String, reason: &str, asker: Option<Asker>) {
        self.view.note_refused();
        for line in reason.lines() {
            self.error_log.line(LogLevel::Emerg, line);
        }
        self.error_log.line(LogLevel::Error, "the new configuration is refused; the one before serves on");
        self.notify.reloaded(Some(reason.lines().next().unwrap_or("it has errors")));
        if let Some(asker) = asker {
            let reason: String = reason.lines().map(|line| format!("error: {line}\n")).collect();
            asker.answer(false, &(text + &reason));
        }
    }

    fn reload(&mut self, asker: Option<Asker>) {
        if self.ending {
            return asker.into_iter().for_each(|asker| asker.answer(false, "error: it is ending\n"));
        }
        if self.trying.is_some() || self.retired == Some(Retired::Leaving) {
            return self.asked_again.push_back(asker);
        }
        self.notify.reloading();
        self.error_log.line(LogLevel::Notice, "reconfiguring");
        let outcome = reload::prepare(&self.launch, &self.table, &self.model, self.generation + 1);
        self.error_log.diagnostics(&outcome.findings, &outcome.sources);
        let render = |found| report::render(Manner::Weir, found, &outcome.sources);
        let text: String = outcome.findings.iter().map(render).collect();
        let warnings = outcome.findings.len();
        match outcome.prepared {
            Some(prepared) => self.attempt(prepared, (warnings, text), asker, None),
            None => self.refuse(text, "", asker),
        }
    }

    /// Whoever asked while another reload was under way gets one of their own: the files may have changed since that
    /// one read them. Signals among them count as one.
    fn reload_for_the_next(&mut self) {
        while self.trying.is_none()
            && self.retired != Some(Retired::Leaving)
            && let Some(asker) = self.asked_again.pop_front()
        {
            if asker.is_none() {
                self.asked_again.retain(Option::is_some);
            }
            self.reload(asker);
        }
    }

    fn reopen(&mut self) {
        for found in self.logs.reopen() {
            self.error_log.line(LogLevel::Alert, &found.title);
        }
        self.error_log = ErrorLog::of(self.launch.manner, &self.model, &self.logs);
        if let Some(desk) = &self.desk {
            desk.reopen_logs();
        }
        self.error_log.line(LogLevel::Notice, "logs are open again");
        let stderr = self.move_stderr();
        self.plane.reopen(&self.logs, stderr);
    }

    /// Whether another process has our sockets, too.
    fn shares_files(&self) -> bool {
        let before = self.replaced.is_some() && rustix::process::getppid() == self.replaced;
        before || self.upgrade.is_some()
    }

    fn start_upgrade(&mut self) {
        if self.ending || self.trying.is_some() || self.shares_files() {
            let text = "the changing binary signal is ignored: the old or the new process has to end first";
            return self.error_log.line(LogLevel::Notice, text);
        }
        match Upgrade::start(&self.table, self.model.process.pid_file.as_deref()) {
            Ok(upgrade) => {
                self.error_log.line(LogLevel::Notice, &format!("start new binary process {}", upgrade.id()));
                // The name is free for the new one's.
                self.pid_file = None;
                self.upgrade = Some(upgrade);
            }
            Err(error) => {
                self.error_log.line(LogLevel::Alert, &format!("the new binary cannot be started: {error}"));
            }
        }
    }

    /// The new process may have ended: then all is as it was before.
    fn look_after_upgrade(&mut self) {
        let Some(status) = self.upgrade.as_mut().and_then(Upgrade::ended) else { return };
        let Some(upgrade) = self.upgrade.take() else { return };
        let text = format!("new binary process {} ended ({status})", upgrade.id());
        self.error_log.line(LogLevel::Alert, &text);
        let old_name = upgrade.into_pid_file();
        if self.ending {
            return;
        }
        if let Err(reason) = self.write_pid_file() {
            self.error_log.line(LogLevel::Alert, &reason);
        }
        drop(old_name);
        if self.retired.is_some() {
            self.reload(None);
        }
    }

    /// A window that changes its size sends the same signal: it counts in the background only.
    fn retire(&mut self) {
        let in_background = Role::of_this_process() == Role::Daemon || self.replaced.is_some();
        let counts = in_background || self.upgrade.is_some();
        if self.ending || self.retired.is_some() || self.trying.is_some() || !counts {
            return;
        }
        self.retired = Some(Retired::Leaving);
        self.plane.drain(self.model.process.shutdown_timeout);
    }

    fn drain(&mut self, deadline: Option<Duration>) {
        if self.ending {
            return;
        }
        self.end();
        self.plane.drain(deadline);
    }

    fn stop(&mut self, signal: Signal) {
        self.end();
        // HAProxy's master reports the signal that ended it; its unit counts 143 as success.
        if self.launch.manner == Manner::Haproxy && self.launch.master_worker {
            self.exit = 128 + signal as u8;
        }
        self.plane.stop();
    }

    fn end(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        self.notify.stopping();
        self.trying = None;
        self.table.share_files(self.shares_files());
        self.table.close();
    }
}
