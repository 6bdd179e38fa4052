//! The data plane as the master sees it, wherever it lives.
//!
//! Owns: [`Supervised`], with what it is told and what it tells.
//! Never: binds, logs, reads a signal.
//! Driven by: `life::master`. Implemented by `life::local` (same process) and `keeper::child` (another one).
//! Why: one life cycle serves both; an application that takes a while never stops signals from being taken.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFd;
use weir_model::Model;
use weir_plan::Plan;

use super::logs::LogFiles;
use super::sockets::Sockets;
use crate::compile::store::Answers;
use crate::compile::text::Text;

/// A configuration that compiled, with all it needs.
pub(crate) struct Candidate {
    pub(crate) generation: u64,
    pub(crate) workers: usize,
    pub(crate) model: Arc<Model>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) answers: Answers,
    /// What it was compiled from in place of the files.
    pub(crate) text: Option<Text>,
    pub(crate) sockets: Sockets,
    pub(crate) logs: LogFiles,
    /// Where another process's standard error goes, unless it stays what it is.
    pub(crate) stderr: Option<Arc<File>>,
}

/// What a data plane tells.
#[derive(Debug)]
pub(crate) enum Event {
    /// This generation serves.
    Applied(u64),
    /// It does not; what served before still does.
    Refused(u64, String),
    /// All is done; there is nothing left to wait for.
    Ended,
    /// Something that operators must see.
    Alert(String),
    /// Something that is good to know.
    Notice(String),
}

/// A data plane.
pub(crate) trait Supervised {
    /// Begins to change over; `Applied` or `Refused` follows.
    fn apply(&mut self, candidate: Candidate);
    /// Writes to other log files from now on.
    fn reopen(&mut self, logs: &LogFiles, stderr: Option<Arc<File>>);
    /// Ends when all is done, or at the deadline; `Ended` follows.
    fn drain(&mut self, deadline: Option<Duration>);
    /// Ends now; `Ended` follows.
    fn stop(&mut self);
    /// A line about what is going on follows as a `Notice`.
    fn status(&mut self);
    /// The process that it lives in.
    fn pid(&self) -> u32;
    /// What to wait for: when one of them is ready, a turn is due.
    fn fds(&self) -> Vec<PollFd<'_>>;
    /// When a turn is due even if nothing is ready.
    fn wake_at(&self) -> Option<Instant>;
    /// Looks after what has happened, in bounded time: what is left over makes `fds` ready again. A turn is due, too,
    /// when a child has ended.
    fn turn(&mut self);
    /// The next event. Call it until `None` after each turn.
    fn next_event(&mut self) -> Option<Event>;
}
