//! What a request and a session of a TCP service have in common.
//!
//! Owns: the client, the plan that holds, what variables keep, attempts, times, the ending.
//! Never: knows a protocol; [`super::Exchange`] and [`super::Session`] add theirs.
//! Driven by: whatever serves traffic without asking of which kind it is: attempts, limits, logs.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use weir_expr::{KeptIn, KeptValue};
use weir_plan::PoolIx;
use weir_policy::retry::{RetryOn, RetryPolicy};
use weir_rt::Instant;

use super::asking::Asking;
use super::captures::Captured;
use super::client::Client;
use super::ending::Ending;
use super::own::Own;
use super::response::Attempt;
use super::slots::Slots;
use super::sticks::Sticks;
use crate::worker::flights::Flight;
use crate::worker::zones::InZone;
use crate::worker::{Installed, Worker};

/// What a request and a session have in common.
pub(crate) struct Core {
    /// The worker it lives on.
    pub(crate) worker: Rc<Worker>,
    /// The plan it began with; it keeps it to its end, or until it becomes a tunnel or its answer
    /// lasts (see `detach`).
    pub(crate) installed: Rc<Installed>,
    /// The client's connection.
    pub(crate) client: Rc<Client>,
    /// The client's address after real-IP rules, if they changed it.
    pub(crate) real_client: Option<(IpAddr, u16)>,
    /// Where a rule takes this request to want to go.
    pub(crate) meant: Option<(IpAddr, u16)>,
    /// Groups of the last pattern that matched.
    pub(crate) captures: Captured,
    /// Values of user variables.
    pub(crate) slots: Slots,
    /// One record an attempt, in order.
    pub(crate) attempts: Vec<Attempt>,
    /// The first byte of a request, or the beginning of a session, by both clocks.
    pub(crate) started: Instant,
    /// See `started`.
    pub(crate) started_unix: Duration,
    /// Durations of phases.
    pub(crate) times: Times,
    /// How it ended.
    pub(crate) ending: Ending,
    /// The pool of the last attempt.
    pub(crate) pool: Option<PoolIx>,
    /// Outcome word of limits of concurrency.
    pub(crate) limit_conn_status: Option<&'static str>,
    /// Guards of concurrency limits, held to the end.
    pub(crate) guards: Vec<weir_policy::limit::ConnGuard>,
    /// What rules track in stick tables, to the end.
    pub(crate) sticks: Option<Box<Sticks>>,
    /// What rules set for it alone.
    pub(crate) own: Option<Box<Own>>,
    /// The program has to wait.
    pub(crate) asking: Option<Box<Asking>>,
    /// No line is written about it.
    pub(crate) unlogged: bool,
    /// Its place among those in flight.
    pub(crate) flight: Option<Flight>,
    /// Its place in the zone that counts it.
    pub(crate) zone: Option<InZone>,
    id: Cell<Option<u128>>,
    /// Its number among all; 0 while nobody has asked.
    serial: Cell<u64>,
}

/// Durations of phases.
#[derive(Default, Clone, Copy)]
pub(crate) struct Times {
    /// Idle on the connection before the first byte.
    pub(crate) idle: Duration,
    /// First byte to end of head.
    pub(crate) head: Option<Duration>,
    /// First byte of the request to the head of the response; of one that was taken back, to the last.
    pub(crate) first_byte: Option<Duration>,
    /// In queues.
    pub(crate) queued: Option<Duration>,
    /// Its place in the queue when it came, from 1; 0: it did not have to wait.
    pub(crate) queue_position: u32,
    /// It waited for one endpoint, not for any.
    pub(crate) queued_for_one: bool,
}

impl Core {
    /// Nothing has happened yet.
    pub(crate) fn new(worker: Rc<Worker>, installed: Rc<Installed>, client: Rc<Client>) -> Self {
        Self {
            started: worker.now(),
            started_unix: weir_rt::unix_now(),
            worker,
            installed,
            client,
            real_client: None,
            meant: None,
            captures: Captured::default(),
            slots: Slots::default(),
            attempts: Vec::new(),
            times: Times::default(),
            ending: Ending::Normal,
            pool: None,
            limit_conn_status: None,
            guards: Vec::new(),
            sticks: None,
            own: None,
            asking: None,
            unlogged: false,
            flight: None,
            zone: None,
            id: Cell::new(None),
            serial: Cell::new(0),
        }
    }

    /// Begins anew on memory that was used before. Each field is named here, so that none can be forgotten: what is left
    /// of one client's request would be seen by the next.
    pub(super) fn restart(&mut self, new_installed: Rc<Installed>, new_client: Rc<Client>) {
        let Self {
            worker,
            installed,
            client,
            real_client,
            meant,
            captures,
            slots,
            attempts,
            started,
            started_unix,
            times,
            ending,
            pool,
            limit_conn_status,
            guards,
            sticks,
            own,
            asking,
            unlogged,
            flight,
            zone,
            id,
            serial,
        } = self;
        *installed = new_installed;
        *client = new_client;
        *real_client = None;
        *meant = None;
        captures.clear();
        slots.clear();
        attempts.clear();
        *started = worker.now();
        *started_unix = weir_rt::unix_now();
        *times = Times::default();
        *ending = Ending::Normal;
        *pool = None;
        *limit_conn_status = None;
        guards.clear();
        *sticks = None;
        *own = None;
        *asking = None;
        *unlogged = false;
        *flight = None;
        *zone = None;
        id.set(None);
        serial.set(0);
    }

    /// The time of this wake-up.
    pub(crate) fn now(&self) -> Instant {
        self.worker.now()
    }

    /// Time since it started.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(self.started)
    }

    /// Address and port that the client wants to go to: those that it came to, or what a rule says.
    pub(crate) fn destination(&self) -> Option<(IpAddr, u16)> {
        self.meant.or_else(|| self.client.destination())
    }

    /// The client's address and port, after PROXY header and real-IP rules. `None` on unix sockets.
    pub(crate) fn client_source(&self) -> Option<(IpAddr, u16)> {
        self.real_client.or_else(|| self.client.source())
    }

    /// The rules for failed attempts.
    pub(crate) fn retry(&self, configured: RetryPolicy) -> RetryPolicy {
        let Some(own) = self.own.as_deref() else { return configured };
        let on = if own.connect_only { configured.on & RetryOn::CONNECT } else { configured.on };
        let attempts = own.retries.map_or(configured.attempts, |retries| retries.saturating_add(1));
        RetryPolicy { on, attempts, ..configured }
    }

    /// Keeps a value for longer than the exchange or session, or lets go of it.
    pub(crate) fn keep_value(&self, of: KeptIn, name: &str, value: Option<KeptValue>) {
        match of {
            KeptIn::Process => self.worker.shared.kept.set(name, value),
            KeptIn::Connection => {
                let mut kept = self.client.kept.get_or_init(Box::default).borrow_mut();
                kept.retain(|(known, _)| &**known != name);
                kept.extend(value.map(|value| (name.into(), value.text)));
            }
        }
    }

    /// A random number that names it.
    pub(crate) fn id(&self) -> u128 {
        self.id.get().unwrap_or_else(|| {
            let id = u128::from(self.worker.random()) << 64 | u128::from(self.worker.random());
            self.id.set(Some(id));
            id
        })
    }

    /// Its number among all requests and sessions of the process: given when it is asked for.
    pub(crate) fn serial(&self) -> u64 {
        if self.serial.get() == 0 {
            self.serial.set(self.worker.shared.next_request());
        }
        self.serial.get()
    }

    /// Takes the name of another.
    pub(super) fn share_id(&self, other: &Self) {
        self.serial.set(other.serial.get());
        self.id.set(Some(other.id()));
    }
}
