//! What side threads and the engine ask of workers.
//!
//! Owns: [`Command`], all that a worker can be asked; [`Crew`], the way to all of them.
//! Never: carries a command out: `entry::run` does.
//! Driven by: [`crate::Engine`]; side threads, such as the one that looks up the names of endpoints.
//! Why: one list says what can happen to a worker from outside. What changes often and is read by all, such as results of
//! health checks, or an endpoint's weight, is no command: it is atomics of the process (`policy::pool::PoolShared`), which a choice reads.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weir_control::{EndpointKey, ListenerId, PoolId, Requests};
use weir_plan::EndpointSet;
use weir_rt::Sender;

use crate::worker::count::forget_unknown;
use crate::worker::prepared::Prepared;
use crate::worker::roll::RollCall;
use crate::worker::shared::Shared;

/// How long a worker may be busy before the rest goes on without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a page waits for workers that are busy.
const PATIENCE_TO_LOOK: Duration = Duration::from_millis(500);

/// Names one listening socket: its listener, and which of the process's sockets it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// Unique in the process.
    pub(crate) id: u64,
}

/// A command to a worker.
pub(crate) enum Command {
    /// Run this plan with these sockets, from the next request of each connection on.
    Install {
        /// The plan with what was made for it.
        prepared: Arc<Prepared>,
        /// Sockets that were not this worker's before.
        opened: Vec<(SocketKey, OwnedFd)>,
        /// All sockets that are this worker's now; others are given up.
        held: Vec<SocketKey>,
        /// Of those given up, the ones that close for good: accepted from until empty.
        closing: Vec<SocketKey>,
        /// Told when it is done.
        done: mpsc::Sender<()>,
    },
    /// The endpoints of this pool were replaced: choose among those that there are now.
    Endpoints {
        /// The pool.
        pool: PoolId,
        /// Told when it is done.
        done: mpsc::Sender<()>,
    },
    /// Where endpoints of this pool stand has changed: cut what is not to outlive that.
    Standing(PoolId),
    /// Cut the connections to these endpoints.
    Cut(Vec<EndpointKey>),
    /// Say which connections of clients there are.
    Roll {
        /// Where to.
        tell: mpsc::Sender<RollCall>,
    },
    /// Cut the connection of the client of this serial number.
    CutClient {
        /// The number.
        serial: u64,
        /// Told whether it was there.
        done: mpsc::Sender<bool>,
    },
    /// Forget the most that there ever was of anything; with `all`, what was counted, too.
    ClearCounters {
        /// Everything.
        all: bool,
        /// Told when it is done.
        done: mpsc::Sender<()>,
    },
    /// Certificates were replaced: show those that there are now.
    Certificates {
        /// Told when it is done.
        done: mpsc::Sender<()>,
    },
    /// Tell of the requests that are served now, and of those that were slow or failed: at most so many of each.
    Requests(usize, mpsc::Sender<Requests>),
    /// Note single requests from now on, or no longer.
    NoteRequests(bool),
    /// Open log files anew.
    ReopenLogs,
    /// Keep what is there until it ends by itself, and wait to be wanted again. Sockets were given to others before.
    Rest,
    /// Accept nothing more and end when all connections have ended.
    Drain,
    /// Cut everything and end.
    Stop,
    /// Panic in the next request: a test's order.
    InjectPanic,
    /// Panic as the next connection is accepted: a test's order.
    InjectAcceptPanic,
    /// Panic outside of all requests, which ends the worker: a test's order.
    InjectDeath,
}

/// What the thread that follows names is told: a plan whose endpoints have names.
pub(crate) struct Follow {
    /// The plan.
    pub(crate) prepared: Arc<Prepared>,
    /// Told once something is known of every name.
    pub(crate) settled: mpsc::Sender<()>,
}

/// The threads of the process, for whoever has something to tell them.
#[derive(Default)]
pub(crate) struct Crew {
    workers: Mutex<Vec<Sender<Command>>>,
    /// The thread that checks endpoints, once there is one. It is told of plans, or (`None`) that endpoints of the plan at
    /// hand were replaced.
    pub(crate) checks: OnceLock<Sender<Option<Arc<Prepared>>>>,
    /// The thread that follows names, once there is one.
    pub(crate) names: OnceLock<tokio::sync::mpsc::UnboundedSender<Follow>>,
    /// The thread that asks OCSP responders, once there is one.
    pub(crate) staples: OnceLock<tokio::sync::mpsc::UnboundedSender<Arc<Prepared>>>,
}

impl Crew {
    /// Adds a worker.
    pub(crate) fn join(&self, worker: Sender<Command>) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    /// Has all workers choose among the endpoints that a pool has now, under live traffic: no request fails for it, what
    /// goes on under the same keys keeps its counts, health and connections. Never call it on a worker.
    pub(crate) fn tell_endpoints(&self, shared: &Shared, prepared: &Prepared, pool: PoolId) {
        self.tell(|done| Command::Endpoints { pool, done });
        forget_unknown(shared, prepared);
        self.check_anew(None);
    }

    /// Has all workers cut what is not to outlive the change, after endpoints of a pool went up or down.
    pub(crate) fn tell_standing(&self, pool: PoolId, set: &EndpointSet) {
        if set.endpoints.iter().any(|endpoint| !endpoint.cuts.are_none()) {
            self.send(|| Command::Standing(pool));
        }
    }

    /// Has all workers cut their connections to these endpoints.
    pub(crate) fn cut(&self, endpoints: &[EndpointKey]) {
        self.send(|| Command::Cut(endpoints.to_vec()));
    }

    /// Has all workers show the certificates that there are now. Never call it on a worker.
    pub(crate) fn tell_certificates(&self) {
        self.tell(|done| Command::Certificates { done });
    }

    /// What all workers know of single requests; of each list at most so many. A worker that is busy for longer than
    /// [`PATIENCE_TO_LOOK`] is only counted. Never call it on a worker.
    pub(crate) fn requests(&self, most: usize) -> Requests {
        let (tell, told) = mpsc::channel();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = workers
            .iter()
            .filter(|worker| worker.send(Command::Requests(most, tell.clone())).is_ok())
            .count();
        drop(tell);
        let end = Instant::now() + PATIENCE_TO_LOOK;
        let mut all = Requests::default();
        for waiting in (1..=asked as u64).rev() {
            match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(one) => all.join(one, most),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    all.silent = waiting;
                    break;
                }
                // Those that are left have ended.
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        all
    }

    /// Has all workers note single requests, or stop it.
    pub(crate) fn note_requests(&self, on: bool) {
        self.send(|| Command::NoteRequests(on));
    }

    /// Has the endpoints checked, if any are: of this plan, or of the one that is checked.
    pub(crate) fn check_anew(&self, prepared: Option<&Arc<Prepared>>) {
        if let Some(checks) = self.checks.get() {
            let _ = checks.send(prepared.cloned());
        }
    }

    /// Gives a command to all workers.
    fn send(&self, command: impl Fn() -> Command) {
        for worker in self.workers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // One that ended has nothing to obey with.
            let _ = worker.send(command());
        }
    }

    /// Has all workers forget what they counted. Never call it on a worker.
    pub(crate) fn clear_counters(&self, all: bool) {
        self.tell(|done| Command::ClearCounters { all, done });
    }

    /// The connections of clients. Never call it on a worker.
    pub(crate) fn call_roll(&self) -> Vec<RollCall> {
        self.ask(|tell| Command::Roll { tell })
    }

    /// Cuts the connection of a client. False: there is none of this number. Never call it on a worker.
    pub(crate) fn cut_client(&self, serial: u64) -> bool {
        self.ask(|done| Command::CutClient { serial, done }).contains(&true)
    }

    /// Gives a command to all workers, and waits until they have carried it out.
    fn tell(&self, command: impl Fn(mpsc::Sender<()>) -> Command) {
        self.ask(command);
    }

    /// Asks all workers, and waits for what they say.
    fn ask<T>(&self, command: impl Fn(mpsc::Sender<T>) -> Command) -> Vec<T> {
        let (done, is_done) = mpsc::channel();
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let waiting = workers.iter().filter(|worker| worker.send(command(done.clone())).is_ok()).count();
        drop(done);
        let end = Instant::now() + PATIENCE;
        // An error says that all who are left have ended, or that time is up.
        let next = || is_done.recv_timeout(end.saturating_duration_since(Instant::now())).ok();
        std::iter::repeat_with(next).take(waiting).map_while(|said| said).collect()
    }
}
