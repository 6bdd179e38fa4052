//! Where the connections of a listener come in: what they count in while they live.
//!
//! Owns: the handles of a listener's counts under one plan; that a connection is counted once, and until it ends.
//! Never: refuses anybody. Limits are looked at before accepting; what was accepted is served, so it is counted.
//! Driven by: `accept`, which makes a [`CountedConnection`] of each connection; it goes where the connection goes.
//! Why: the handles are the same for all connections of a listener. Looked up by each they cost it a lock of the process
//! and three hash tables, kept by each a hundred bytes for as long as it is idle.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use weir_control::ListenerId;
use weir_plan::Service;
use weir_policy::limit::Quota;
use weir_rt::Cutter;

use crate::worker::count::Entrance;
use crate::worker::roll::{Caller, Entry};
use crate::worker::{Installed, Worker};

/// What all connections of a listener count in.
pub(crate) struct ConnectionCounts {
    listener: ListenerId,
    /// Of the process, the listener, and its site where that has a bound.
    quotas: Box<[Arc<Quota>]>,
    entrance: Entrance,
}

impl ConnectionCounts {
    /// Looks up what connections of a listener count in under this plan.
    pub(crate) fn new(worker: &Worker, installed: &Installed, listener: &weir_plan::Listener) -> Self {
        Self {
            listener: listener.id,
            quotas: worker.shared.connection_quotas(listener.id),
            entrance: worker.counters.entrance(listener.id, site_of(installed, &listener.service)),
        }
    }
}

/// The site or service that a connection belongs to before anything is read.
fn site_of(installed: &Installed, service: &Service) -> weir_control::SiteId {
    match service {
        Service::Http(hosts) => installed.plan.site(hosts.default_value()).id,
        Service::Tcp(tcp) => installed.plan.tcp_service(*tcp).id,
    }
}

/// A connection that is counted while this lives.
pub(crate) struct CountedConnection {
    worker: Rc<Worker>,
    counts: Rc<ConnectionCounts>,
    needs_plan: Cell<bool>,
    encrypted: bool,
    entry: Cell<Option<Entry>>,
}

impl CountedConnection {
    /// Counts a connection in.
    pub(crate) fn new(worker: &Rc<Worker>, counts: Rc<ConnectionCounts>) -> Self {
        worker.enter(counts.listener);
        counts.quotas.iter().for_each(|quota| quota.enter());
        counts.entrance.enter();
        Self {
            worker: worker.clone(),
            counts,
            needs_plan: Cell::new(true),
            encrypted: false,
            entry: Cell::default(),
        }
    }

    /// Enters it in the roll of connections, by which it can be seen and ended from outside.
    pub(crate) fn enrol(&self, caller: Rc<dyn Caller>, cutter: Cutter) {
        self.entry.set(Some(self.worker.roll.enter(caller, cutter)));
    }

    /// Takes it off the roll, which then holds nothing of its client.
    pub(crate) fn strike_off(&self) {
        self.entry.take();
    }

    /// Counts it among those with TLS.
    pub(crate) fn encrypt(&mut self) {
        if !std::mem::replace(&mut self.encrypted, true) {
            self.counts.entrance.encrypt();
        }
    }

    /// The connection became a tunnel: it looks at no plan any more, so none is kept for its sake.
    pub(crate) fn release_plan(&self) {
        if self.needs_plan.replace(false) {
            self.worker.release_plan(self.counts.listener);
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.release_plan();
        self.counts.entrance.leave(self.encrypted);
        self.counts.quotas.iter().for_each(|quota| quota.leave());
        self.worker.leave();
    }
}
