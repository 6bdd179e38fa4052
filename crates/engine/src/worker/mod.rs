//! One worker: a thread, its runtime, its plan.
//!
//! Owns: what all connections of the thread share: the installed plan, kept upstream connections, the file cache,
//! exchanges to use again, clocks in text.
//! Never: shares anything mutable with another worker but what [`Shared`] holds in atomics.
//! Driven by: [`crate::Engine`], through orders in a mailbox.
//! Why: a thread a core and nothing contended between them; see LIFECYCLE.md for how orders are carried out.

pub(crate) mod count;
pub(crate) mod door;
pub(crate) mod memory;
pub(crate) mod prepared;
pub(crate) mod race;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod watch;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_control::ListenerId;
use weir_http::RequestHead;
use weir_plan::{ListenerIx, PartOf, Plan, PoolIx};
use weir_policy::pool::Pool;
use weir_rt::{Receiver, Sender};

use crate::entry::accept::AcceptLoop;
use crate::exchange::{Client, Exchange};
use crate::logging::WorkerLogs;
use crate::worker::door::Door;
use crate::worker::prepared::Prepared;
use crate::worker::race::Signal;
use crate::worker::shared::Shared;

/// Exchanges, and memory for heads, kept for the next requests.
const KEPT_EXCHANGES: usize = 256;

/// Names one listening socket: its listener, and which of the process's sockets it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// Unique in the process.
    pub(crate) id: u64,
}

/// An order to a worker.
pub(crate) enum Order {
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
        done: std::sync::mpsc::Sender<()>,
    },
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

/// A plan as one worker runs it.
pub(crate) struct Installed {
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// What the process made for it.
    pub(crate) prepared: Arc<Prepared>,
    /// Choosing endpoints, by pool.
    pub(crate) pools: Vec<RefCell<Pool>>,
    listeners: HashMap<ListenerId, ListenerIx>,
    /// Address and name of each endpoint as logs show them, made once rather than for each request.
    labels: Vec<Vec<(Rc<str>, Rc<str>)>>,
    /// What tunnels and lasting answers that began under this plan hold on to.
    pub(crate) residues: RefCell<HashMap<PartOf, Weak<Installed>>>,
}

impl Installed {
    fn new(prepared: Arc<Prepared>, before: Option<&Installed>, seed: u64) -> Self {
        let plan = prepared.plan.clone();
        let pools = plan.pools.iter().zip(&prepared.pools).map(|(pool, shared)| {
            let old = before.and_then(|before| {
                let at = before.plan.pools.iter().position(|old| old.id == pool.id)?;
                before.pools.get(at)
            });
            RefCell::new(match old {
                Some(old) => old.borrow().reconfigured(pool.config.clone(), shared.clone()),
                None => Pool::new(pool.config.clone(), shared.clone(), seed),
            })
        });
        let listeners = plan
            .listeners
            .iter()
            .enumerate()
            .map(|(at, listener)| (listener.id, ListenerIx(at as u32)))
            .collect();
        let labels = plan.pools.iter().map(|pool| pool.endpoints.iter().map(label).collect());
        Self {
            pools: pools.collect(),
            listeners,
            labels: labels.collect(),
            residues: RefCell::default(),
            plan: plan.clone(),
            prepared,
        }
    }

    /// A part of a plan that ran before, with the choosers of its pools.
    pub(crate) fn of_part(prepared: Arc<Prepared>, pools: Vec<Pool>) -> Self {
        let plan = prepared.plan.clone();
        let listeners = plan.listeners.iter().zip(0..).map(|(listener, at)| (listener.id, ListenerIx(at)));
        Self {
            pools: pools.into_iter().map(RefCell::new).collect(),
            listeners: listeners.collect(),
            labels: Vec::new(),
            residues: RefCell::default(),
            plan,
            prepared,
        }
    }

    /// Address and name of an endpoint for logs.
    pub(crate) fn label(&self, pool: PoolIx, at: usize) -> (Rc<str>, Rc<str>) {
        self.labels[pool.at()][at].clone()
    }

    /// A listener by its stable id; `None` if this plan has none.
    pub(crate) fn listener(&self, id: ListenerId) -> Option<ListenerIx> {
        if let [only] = self.plan.listeners.as_slice() {
            return (only.id == id).then_some(ListenerIx(0));
        }
        self.listeners.get(&id).copied()
    }
}

fn label(endpoint: &weir_plan::Endpoint) -> (Rc<str>, Rc<str>) {
    let name: Rc<str> = (&*endpoint.name).into();
    let address = endpoint.address.as_ref().map(ToString::to_string);
    let address = address.map_or_else(|| name.clone(), |address| address.as_str().into());
    (address, name)
}

/// What all connections of a worker share.
pub(crate) struct Worker {
    /// What all workers share.
    pub(crate) shared: Arc<Shared>,
    /// Set when no more than what is there is to be served: idle connections close, answers say `close`.
    pub(crate) draining: Signal,
    /// Set while there are more workers than wanted: nothing is accepted and answers say `close`, but no connection is
    /// cut, idle ones included.
    pub(crate) resting: Cell<bool>,
    /// Told when a connection ended: accepting may go on, a drain may be complete.
    pub(crate) ended: Signal,
    /// Kept connections to endpoints.
    pub(crate) idle: crate::upstream::IdleConnections,
    /// Files held in memory.
    pub(crate) files: crate::action::files::FileCache,
    /// Log lines on their way.
    pub(crate) logs: WorkerLogs,
    /// Counters of this worker.
    pub(crate) counters: crate::worker::count::Counters,
    installed: RefCell<Rc<Installed>>,
    /// Plans of listeners that are gone, for the connections that came in through them.
    retired: RefCell<HashMap<ListenerId, (Rc<Installed>, usize)>>,
    connections: RefCell<HashMap<ListenerId, usize>>,
    /// What their connections count in.
    doors: RefCell<HashMap<ListenerId, Rc<Door>>>,
    total: Cell<usize>,
    loops: RefCell<HashMap<SocketKey, Rc<AcceptLoop>>>,
    #[allow(clippy::vec_box, reason = "they are handed out boxed: an exchange is large, and never moved")]
    exchanges: RefCell<Vec<Box<Exchange>>>,
    #[allow(
        clippy::vec_box,
        reason = "they are handed out boxed: a connection holds one while it has a request"
    )]
    heads: RefCell<Vec<Box<RequestHead>>>,
    random: Cell<u64>,
    /// The time of a wake-up, and the same for policies.
    millis: Cell<(Instant, weir_policy::Millis)>,
    clock: RefCell<crate::logging::Clock>,
    panic_next: Cell<bool>,
    panic_next_accept: Cell<bool>,
    text: RefCell<Vec<u8>>,
}

impl Worker {
    fn new(id: u16, shared: Arc<Shared>, prepared: Arc<Prepared>) -> Self {
        let seed = shared.seed().wrapping_add(u64::from(id) << 32) | 1;
        Self {
            draining: Signal::default(),
            resting: Cell::new(false),
            ended: Signal::default(),
            idle: crate::upstream::IdleConnections::default(),
            files: crate::action::files::FileCache::default(),
            logs: WorkerLogs::default(),
            counters: crate::worker::count::Counters::new(&shared, id),
            installed: RefCell::new(Rc::new(Installed::new(prepared, None, seed))),
            retired: RefCell::default(),
            connections: RefCell::default(),
            doors: RefCell::default(),
            total: Cell::new(0),
            loops: RefCell::default(),
            exchanges: RefCell::default(),
            heads: RefCell::default(),
            random: Cell::new(seed),
            millis: Cell::new((shared.instant(weir_policy::Millis(0)), weir_policy::Millis(0))),
            clock: RefCell::default(),
            panic_next: Cell::new(false),
            panic_next_accept: Cell::new(false),
            text: RefCell::default(),
            shared,
        }
    }

    /// The newest plan.
    pub(crate) fn installed(&self) -> Rc<Installed> {
        self.installed.borrow().clone()
    }

    /// The plan and listener for a connection's next request: the newest plan, or the last that had its listener.
    /// The flag says that the listener is gone: this request is the connection's last.
    pub(crate) fn for_listener(&self, id: ListenerId) -> Option<(Rc<Installed>, ListenerIx, bool)> {
        let newest = self.installed();
        if let Some(ix) = newest.listener(id) {
            return Some((newest, ix, false));
        }
        let retired = self.retired.borrow();
        let (installed, _) = retired.get(&id)?;
        let ix = installed.listener(id)?;
        Some((installed.clone(), ix, true))
    }

    /// The time of this wake-up.
    pub(crate) fn now(&self) -> Instant {
        weir_rt::now()
    }

    /// The time of this wake-up for policies: milliseconds of a clock that all workers share.
    pub(crate) fn millis(&self) -> weir_policy::Millis {
        let now = self.now();
        let (at, millis) = self.millis.get();
        if at == now {
            return millis;
        }
        let millis = self.shared.millis(now);
        self.millis.set((now, millis));
        millis
    }

    /// Lets go of what can be had again: memory is short.
    pub(crate) fn relieve(&self) {
        self.files.clear();
        self.idle.clear();
        weir_rt::release_pool();
    }

    /// A random number (xorshift64*): for choices and names, not for secrets.
    pub(crate) fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An exchange for a request, on memory that was used before if there is any.
    pub(crate) fn take_exchange(
        self: &Rc<Self>,
        installed: Rc<Installed>,
        client: Rc<Client>,
    ) -> Box<Exchange> {
        match self.exchanges.borrow_mut().pop() {
            Some(mut exchange) => {
                exchange.restart(installed, client);
                exchange
            }
            None => Box::new(Exchange::new(self.clone(), installed, client)),
        }
    }

    /// Takes an exchange back. It holds on to its plan until it is used again, so none is kept of an older plan.
    pub(crate) fn give_exchange(self: &Rc<Self>, mut exchange: Box<Exchange>) {
        let mut kept = self.exchanges.borrow_mut();
        if kept.len() < KEPT_EXCHANGES && Rc::ptr_eq(&exchange.installed, &self.installed.borrow()) {
            exchange.guards.clear();
            exchange.body.clear();
            kept.push(exchange);
        }
    }

    /// Memory to parse request heads in; give it back.
    pub(crate) fn take_head(&self) -> Box<RequestHead> {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    /// See [`Worker::take_head`].
    pub(crate) fn give_head(&self, head: Box<RequestHead>) {
        let mut kept = self.heads.borrow_mut();
        if kept.len() < KEPT_EXCHANGES {
            kept.push(head);
        }
    }

    /// Appends `$time_local`.
    pub(crate) fn time_local(&self, out: &mut Vec<u8>) {
        self.clock.borrow_mut().local(weir_rt::unix_now(), out);
    }

    /// Appends `$time_iso8601`.
    pub(crate) fn time_iso8601(&self, out: &mut Vec<u8>) {
        self.clock.borrow_mut().iso8601(weir_rt::unix_now(), out);
    }

    /// Appends HAProxy's date of a time.
    pub(crate) fn haproxy_date(&self, at: Duration, out: &mut Vec<u8>) {
        self.clock.borrow_mut().haproxy(at, out);
    }

    /// A buffer for a head; give it back.
    pub(crate) fn take_text(&self) -> Vec<u8> {
        let mut text = self.text.take();
        text.clear();
        text
    }

    /// See [`Worker::take_text`].
    pub(crate) fn give_text(&self, text: Vec<u8>) {
        if text.capacity() <= 64 << 10 {
            self.text.replace(text);
        }
    }

    /// Appends the Date line.
    pub(crate) fn date_line(&self, out: &mut Vec<u8>) {
        self.clock.borrow_mut().date_line(weir_rt::unix_now(), out);
    }

    /// Name of the machine.
    pub(crate) fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    /// Connections of this worker.
    pub(crate) fn connection_count(&self) -> usize {
        self.total.get()
    }

    /// What connections of a listener count in under the plan that they begin with.
    pub(crate) fn door(&self, installed: &Installed, listener: &weir_plan::Listener) -> Rc<Door> {
        let mut doors = self.doors.borrow_mut();
        doors.entry(listener.id).or_insert_with(|| Rc::new(Door::new(self, installed, listener))).clone()
    }

    /// Counts a connection in.
    pub(crate) fn enter(&self, listener: ListenerId) {
        self.total.set(self.total.get() + 1);
        *self.connections.borrow_mut().entry(listener).or_default() += 1;
    }

    /// Counts a connection out.
    pub(crate) fn leave(&self) {
        self.total.set(self.total.get().saturating_sub(1));
        self.ended.wake_all();
    }

    /// A test asked for a panic; asked once.
    pub(crate) fn takes_injected_panic(&self) -> bool {
        self.panic_next.replace(false)
    }

    /// As [`Worker::takes_injected_panic`], of accepting.
    pub(crate) fn takes_injected_accept_panic(&self) -> bool {
        self.panic_next_accept.replace(false)
    }

    /// A connection of this listener needs no plan any more.
    pub(crate) fn release_plan(&self, listener: ListenerId) {
        if let Some(count) = self.connections.borrow_mut().get_mut(&listener) {
            *count = count.saturating_sub(1);
        }
        let mut retired = self.retired.borrow_mut();
        if let Some((_, left)) = retired.get_mut(&listener) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                retired.remove(&listener);
            }
        }
    }

    fn install(self: &Rc<Self>, prepared: Arc<Prepared>) {
        let before = self.installed();
        let now = Rc::new(Installed::new(prepared, Some(&before), self.random.get()));
        for listener in &before.plan.listeners {
            let left = self.connections.borrow().get(&listener.id).copied().unwrap_or(0);
            if now.listener(listener.id).is_none() && left > 0 {
                self.retired.borrow_mut().entry(listener.id).or_insert_with(|| (before.clone(), left));
            }
        }
        self.retired.borrow_mut().retain(|id, _| now.listener(*id).is_none());
        self.idle.keep_only(&now.plan);
        self.counters.forget_handles();
        self.doors.borrow_mut().clear();
        // Exchanges that wait to be used again would hold the old plan.
        self.exchanges.borrow_mut().clear();
        *self.installed.borrow_mut() = now;
    }

    async fn change_sockets(
        self: &Rc<Self>,
        opened: Vec<(SocketKey, OwnedFd)>,
        held: &[SocketKey],
        closing: &[SocketKey],
    ) {
        let given_up: Vec<_> = {
            let mut loops = self.loops.borrow_mut();
            let keys: Vec<SocketKey> = loops.keys().filter(|key| !held.contains(key)).copied().collect();
            keys.into_iter().filter_map(|key| Some((key, loops.remove(&key)?))).collect()
        };
        for (key, accept) in given_up {
            accept.end(self, closing.contains(&key)).await;
        }
        for (key, fd) in opened {
            match AcceptLoop::start(self, key, fd) {
                Ok(accept) => drop(self.loops.borrow_mut().insert(key, accept)),
                Err(error) => self.shared.log_process_error(&format!("cannot accept on a listener: {error}")),
            }
        }
    }
}

/// A worker's handle for the engine.
pub(crate) struct Handle {
    pub(crate) orders: Sender<Order>,
    pub(crate) thread: std::thread::JoinHandle<()>,
}

/// What a worker is given again should it die: its plan, its sockets, what it was told of its future.
struct Given {
    prepared: Arc<Prepared>,
    /// Duplicates of the sockets it accepts from. While they are open, connections queue and none is refused.
    sockets: HashMap<SocketKey, OwnedFd>,
    resting: bool,
    draining: bool,
}

impl Given {
    /// Notes sockets that changed. Done before the worker acts on it: what goes away must not be held open here.
    fn change_sockets(&mut self, opened: &[(SocketKey, OwnedFd)], held: &[SocketKey]) {
        self.sockets.retain(|key, _| held.contains(key));
        for (key, fd) in opened {
            // Without a duplicate the worker still accepts; only after a death this socket would be lost.
            if let Ok(copy) = fd.try_clone() {
                self.sockets.insert(*key, copy);
            }
        }
    }

    /// Duplicates for a worker that begins anew.
    fn sockets_again(&self) -> Vec<(SocketKey, OwnedFd)> {
        self.sockets.iter().filter_map(|(key, fd)| Some((*key, fd.try_clone().ok()?))).collect()
    }
}

/// Pause before a worker that died is started again, so that one that cannot live costs little.
const AFTER_DEATH: Duration = Duration::from_millis(100);

/// Starts a worker's thread. It runs until it is told to drain or stop. A worker that dies by a panic outside of all
/// connections loses its own, and goes on at once with a new runtime on the same sockets.
pub(crate) fn start(id: u16, shared: Arc<Shared>, prepared: Arc<Prepared>) -> std::io::Result<Handle> {
    let (orders, mut receiver) = weir_rt::mailbox();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let builder = std::thread::Builder::new().name(format!("weir-{id}"));
    let thread = builder.spawn(move || {
        let mut given = Given { prepared, sockets: HashMap::new(), resting: false, draining: false };
        loop {
            match weir_rt::Runtime::new(shared.runtime_config()) {
                Ok(runtime) => {
                    let _ = shared.driver.set(runtime.driver().to_string());
                    let _ = ready.send(Ok(()));
                    let life = main(id, shared.clone(), &mut given, &mut receiver);
                    let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(life)));
                    // Its connections end here, after the unwinding: a drop that panics must find nothing to unwind.
                    drop(runtime);
                    let Err(payload) = lived else { return };
                    shared.worker_deaths.fetch_add(1, Ordering::Relaxed);
                    let why = panic_message(&*payload);
                    shared.log_process_error(&format!("worker {id} died and is started again: {why}"));
                }
                // The first start says so to whoever started us; later ones are tried until one succeeds.
                Err(error) => {
                    if ready.send(Err(error)).is_ok() {
                        return;
                    }
                }
            }
            std::thread::sleep(AFTER_DEATH);
        }
    })?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(Handle { orders, thread }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(std::io::Error::other("a worker thread ended before it began")),
    }
}

pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without message")
}

/// Empties a worker that ends, by whatever way. What it keeps refers to it, and through sockets to the runtime, which
/// would never end then: its ring would hold connections open that nobody serves.
struct Ending(Rc<Worker>);

impl Drop for Ending {
    fn drop(&mut self) {
        let worker = &self.0;
        if let Ok(mut exchanges) = worker.exchanges.try_borrow_mut() {
            exchanges.clear();
        }
        if let Ok(mut loops) = worker.loops.try_borrow_mut() {
            loops.clear();
        }
        if !std::thread::panicking() {
            worker.idle.clear();
        }
    }
}

async fn main(id: u16, shared: Arc<Shared>, given: &mut Given, orders: &mut Receiver<Order>) {
    let worker = Rc::new(Worker::new(id, shared, given.prepared.clone()));
    let _ending = Ending(worker.clone());
    crate::logging::keep_flushing(&worker);
    let held: Vec<SocketKey> = given.sockets.keys().copied().collect();
    worker.change_sockets(given.sockets_again(), &held, &[]).await;
    worker.resting.set(given.resting);
    if given.draining {
        worker.draining.set();
    }
    loop {
        let order = if worker.draining.is_set() {
            if worker.total.get() == 0 {
                break;
            }
            match crate::worker::race::race(orders.recv(), worker.ended.next()).await {
                crate::worker::race::Either::Left(order) => order,
                crate::worker::race::Either::Right(()) => continue,
            }
        } else {
            orders.recv().await
        };
        match order {
            None | Some(Order::Stop) => break,
            Some(Order::Install { prepared, opened, held, closing, done }) => {
                given.prepared = prepared.clone();
                (given.resting, given.draining) = (false, false);
                given.change_sockets(&opened, &held);
                worker.draining.clear();
                worker.resting.set(false);
                worker.install(prepared);
                worker.change_sockets(opened, &held, &closing).await;
                let _ = done.send(());
            }
            Some(Order::ReopenLogs) => worker.logs.flush(&worker),
            Some(Order::Rest) => {
                given.resting = true;
                worker.resting.set(true);
            }
            Some(Order::Drain) => {
                given.draining = true;
                given.sockets.clear();
                worker.change_sockets(Vec::new(), &[], &worker.loops_keys()).await;
                worker.draining.set();
            }
            Some(Order::InjectPanic) => worker.panic_next.set(true),
            Some(Order::InjectAcceptPanic) => worker.panic_next_accept.set(true),
            Some(Order::InjectDeath) => panic!("a test asked for this death"),
        }
    }
    worker.logs.flush(&worker);
}

impl Worker {
    /// Answers are the last ones of their connections.
    pub(crate) fn is_leaving(&self) -> bool {
        self.resting.get() || self.draining.is_set()
    }

    fn loops_keys(&self) -> Vec<SocketKey> {
        self.loops.borrow().keys().copied().collect()
    }
}
