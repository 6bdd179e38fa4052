//! What a worker is told, and what it tells.
//!
//! Owns: the messages themselves.
//! Never: owns a channel; the binary and `engine` choose one.
//! Driven by: reload, signals and the admin API → workers (`Command`); workers → the supervisor (`Event`).
//! Why: few, idempotent messages. Whatever workers can read from shared atomics (weights, drains, health, counters) is
//! not a message, so that a busy worker delays nobody.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::ids::{EndpointKey, ListenerId, PlanVersion, PoolId, WorkerId};

/// An order to one worker. `P` is the engine's plan; this crate does not look inside.
pub enum Command<P> {
    /// Run this plan from the next request of each connection on. Listeners are opened and closed by difference.
    /// Answered by [`Event::PlanApplied`].
    Swap {
        /// Its number.
        version: PlanVersion,
        /// The plan.
        plan: Arc<P>,
    },
    /// Close and reopen log files (nginx's USR1).
    ReopenLogs,
    /// Accept from this listener until its queue is empty, then close it.
    RetireListener(ListenerId),
    /// Close idle connections to an endpoint that went away.
    DropIdle(PoolId, EndpointKey),
    /// Accept nothing new, finish what is there; at the deadline, if any, cut the rest. Answered by
    /// [`Event::Drained`].
    Drain {
        /// When to cut what is left.
        deadline: Option<Instant>,
    },
    /// Cut everything and end. Answered by [`Event::Stopped`].
    Stop,
    /// Report figures that only the worker itself knows.
    Report(Box<dyn FnOnce(WorkerReport) + Send>),
    /// Panic in the next exchange: only tests send this.
    InjectPanic,
}

impl<P> fmt::Debug for Command<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Swap { version, .. } => write!(f, "Swap({})", version.0),
            Self::ReopenLogs => f.write_str("ReopenLogs"),
            Self::RetireListener(id) => write!(f, "RetireListener({id})"),
            Self::DropIdle(pool, endpoint) => write!(f, "DropIdle({pool}, {endpoint})"),
            Self::Drain { deadline } => write!(f, "Drain({deadline:?})"),
            Self::Stop => f.write_str("Stop"),
            Self::Report(_) => f.write_str("Report"),
            Self::InjectPanic => f.write_str("InjectPanic"),
        }
    }
}

/// What a worker tells its supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It runs, and accepts.
    Started(WorkerId),
    /// It runs this plan now. The old one may go once all have said so and the last exchange under it ended.
    PlanApplied(WorkerId, PlanVersion),
    /// A listener's queue was empty, and its socket is closed.
    ListenerClosed(WorkerId, ListenerId),
    /// A drain is complete; `cut` connections were left at the deadline.
    Drained {
        /// Who.
        worker: WorkerId,
        /// Connections that were cut.
        cut: u64,
    },
    /// A connection's task panicked; it alone was lost.
    ConnectionPanicked(WorkerId, PlanVersion),
    /// The worker has ended as told.
    Stopped(WorkerId),
    /// The worker died; restart it on its sockets.
    Died(WorkerId, String),
}

/// Figures of one worker that are not counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerReport {
    /// The worker.
    pub worker: u16,
    /// `io_uring` or `epoll`.
    pub driver: String,
    /// The plan it runs.
    pub plan: u64,
    /// Plans that some connection of this worker still holds, the present one included.
    pub plans_held: u64,
    /// Connections open.
    pub connections: u64,
    /// Idle connections to endpoints.
    pub idle_upstream: u64,
    /// Bytes in pooled buffers.
    pub buffer_bytes: u64,
}
