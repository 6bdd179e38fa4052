//! The seam between the life of the process and the data plane.
//!
//! Owns: [`DataPlane`], and what it is given.
//! Never: names the engine.
//! Driven by: `life::local` (one process) and `keeper::plane` (under a keeper), from one control thread; the engine's
//! adapter implements it.
//!
//! # Calling order
//!
//! ```text
//! start(options) → apply (the first one opens for traffic) → { apply | reopen_logs }* → drain → (dropped)
//!                                                                          stop, at any time, ends all of them soon
//! ```

use std::sync::Arc;
use std::time::Duration;

use weir_control::Change;
use weir_plan::Plan;

pub use crate::launch::Io;
pub use crate::life::logs::LogFiles;
pub use crate::life::sockets::{ListenerSockets, OpenSocket, SocketId, Sockets};

/// What does not change while the data plane runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Driver of its sockets.
    pub io: Io,
    /// Limit of open files in force.
    pub open_files: u64,
    /// Where what changes while running is kept over restarts.
    pub state: Option<std::path::PathBuf>,
}

/// One configuration, ready to run.
#[derive(Clone)]
pub struct Update {
    /// 1 at start, one more for each configuration that was tried.
    pub generation: u64,
    /// Worker threads.
    pub workers: usize,
    /// What to run.
    pub plan: Arc<Plan>,
    /// *All* sockets of the plan's listeners, in the order of the model's listeners. Compare ids with those of the last
    /// update: a known id is the same socket and goes on being accepted from; a new one is handed to a worker; one that is missing is accepted from
    /// until its queue is empty, then dropped, which closes it. A TCP listener may have more sockets than there are
    /// workers (after a reload to fewer): each must still be accepted from by somebody.
    pub sockets: Sockets,
    /// Log files that were opened with the rights of whoever started us. What is not in here is opened by path.
    pub logs: LogFiles,
}

/// What is asked of the dashboard.
#[derive(Clone, Copy, Debug)]
pub struct DashboardRequest<'a> {
    /// As received.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Whoever asks may change endpoints, and means to.
    pub may_write: bool,
    /// What was sent.
    pub body: &'a [u8],
}

/// What the dashboard answers.
#[derive(Debug)]
pub struct DashboardPage {
    /// Status.
    pub status: u16,
    /// Header fields, without the length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What carries the traffic.
pub trait DataPlane: Send + Sync {
    /// Takes over a configuration; the first call starts serving. Cuts no connection. Returns once new requests meet
    /// the new plan and every new socket is accepted from. On an error (one line) nothing has changed.
    fn apply(&self, update: Update) -> Result<(), String>;

    /// Writes to these files from now on, and closes the old ones.
    fn reopen_logs(&self, logs: LogFiles);

    /// Accepts what is queued, closes the listeners, lets exchanges finish, idle kept connections go, and returns when
    /// none is left or the deadline has passed (`None`: waits for good). Called in a thread of its own.
    fn drain(&self, deadline: Option<Duration>);

    /// Cuts everything and returns soon, and so do `apply` and `drain` in other threads.
    fn stop(&self);

    /// A line about what is going on, for the log.
    fn status(&self) -> String;

    /// A page of the dashboard, or the document that it reads.
    fn dashboard(&self, _asked: &DashboardRequest<'_>) -> DashboardPage {
        DashboardPage { status: 200, headers: Vec::new(), body: b"{}".to_vec() }
    }

    /// Changes what runs until that is taken back. On an error (one line) nothing has changed.
    fn change(&self, _change: Change) -> Result<(), String> {
        Err("it cannot be changed".to_owned())
    }

    /// The names of the certificates in use, and whether each was given while running.
    fn certificates(&self) -> Vec<(String, bool)> {
        Vec::new()
    }
}

/// Makes a data plane that serves nothing yet. Privileges are already dropped.
pub type Start = fn(Options) -> Result<Box<dyn DataPlane>, String>;
