//! A connection that carries many requests at once, and has none.
//!
//! Owns: since when, and how long it may be so.
//! Driven by: the carriers of `h2` and `h3`.

use std::rc::Rc;
use std::time::Duration;

use weir_plan::Service;
use weir_rt::Instant;

use crate::exchange::Client;
use crate::worker::Worker;
use crate::worker::count::Counted;

/// A connection without a request. It counts as waiting.
pub(super) struct Idle {
    pub(super) since: Instant,
    /// So long it may be.
    pub(super) wait: Duration,
    _counted: Counted,
}

impl Idle {
    /// From now on, for so long.
    pub(super) fn new(worker: &Worker, wait: Duration) -> Self {
        Self { since: worker.now(), wait, _counted: worker.counters.waiting() }
    }

    /// Between two requests: as long as the default site of the client's listener keeps connections today.
    pub(super) fn between(worker: &Rc<Worker>, client: &Client) -> Self {
        let wait = worker.for_listener(client.listener).and_then(|(installed, ix, _)| {
            let Service::Http(hosts) = &installed.plan.listener(ix).service else { return None };
            installed.plan.site(hosts.default_value()).client.keepalive_timeout
        });
        Self::new(worker, wait.unwrap_or_default())
    }

    /// When it has been so for long enough.
    pub(super) fn due(&self) -> Instant {
        self.since + self.wait
    }
}
