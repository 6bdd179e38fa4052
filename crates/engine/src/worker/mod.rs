//! What all connections of one thread share.
//!
//! Owns: the installed plan, kept upstream connections, the file cache, memory to use again, clocks in text.
//! Never: shares anything mutable with another worker but what [`Shared`] holds in atomics; knows what is served with it.
//! Driven by: `entry::run`, which carries out orders; connections, which look things up.
//! Why: a thread per core and nothing contended between them.

pub(crate) mod caches;
pub(crate) mod command;
pub(crate) mod connection_counts;
pub(crate) mod count;
pub(crate) mod dns;
pub(crate) mod endpoints;
pub(crate) mod errands;
pub(crate) mod flights;
pub(crate) mod idle;
pub(crate) mod kept;
pub(crate) mod keyvals;
pub(crate) mod lasting;
pub(crate) mod layer;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod lists;
pub(crate) mod live_tls;
pub(crate) mod memories;
pub(crate) mod memory;
pub(crate) mod named_tls;
pub(crate) mod options;
pub(crate) mod paces;
pub(crate) mod passwords;
pub(crate) mod prepared;
pub(crate) mod quic;
pub(crate) mod race;
pub(crate) mod roll;
pub(crate) mod shared;
pub(crate) mod snapshot;
mod span_queue;
pub(crate) mod spans;
pub(crate) mod staples;
pub(crate) mod state_file;
pub(crate) mod sticks;
pub(crate) mod tls;
pub(crate) mod token_keys;
pub(crate) mod watch;
pub(crate) mod zone_figures;
pub(crate) mod zones;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use weir_control::{ListenerId, PoolId};
use weir_http::RequestHead;
use weir_plan::{ListenerIx, PartOf, Plan, UpstreamKeepalive};
use weir_rt::Instant;

use crate::files::{FileCache, Objects};
use crate::logging::WorkerLogs;
use crate::worker::connection_counts::ConnectionCounts;
use crate::worker::count::CountedIdle;
use crate::worker::endpoints::WorkerPool;
use crate::worker::idle::{IdleConnections, IdleKey, Kept};
use crate::worker::lists::KeyView;
use crate::worker::live_tls::MadeTls;
use crate::worker::prepared::Prepared;
use crate::worker::race::Signal;
use crate::worker::shared::Shared;

/// Between two times that a worker gives free memory back while memory is short.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// Requests of our own that run beside those of clients, at once. What they cost is nobody's turn to wait for, so there
/// has to be a bound.
const MOST_BESIDE: usize = 512;

/// Requests' memory that is kept for the next ones, of each kind.
const KEPT_SPARES: usize = 256;

/// TLS of the process, held by a worker: what uses it counts with its own thread alone.
pub(crate) type Tls = Arc<MadeTls>;

/// A plan as one worker runs it.
pub(crate) struct Installed {
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// What the process made for it.
    pub(crate) prepared: Arc<Prepared>,
    /// Choosing endpoints, by pool.
    pub(crate) pools: Vec<RefCell<WorkerPool>>,
    /// Lists of keys, by the ways in which they are used.
    pub(crate) key_views: Rc<[KeyView]>,
    /// Keys of tokens.
    pub(crate) token_keys: token_keys::TokenKeys,
    /// TLS, as the worker was last told.
    tls: RefCell<Rc<Tls>>,
    /// By stable id, in its order: a request looks its listener up, and most plans have a handful.
    listeners: Box<[(ListenerId, ListenerIx)]>,
    /// What tunnels and lasting answers that began under this plan hold on to.
    pub(crate) parts: RefCell<HashMap<PartOf, Weak<Installed>>>,
}

impl Installed {
    fn new(prepared: Arc<Prepared>, before: Option<&Installed>, seed: u64) -> Self {
        let plan = prepared.plan.clone();
        let pools = plan.pools.iter().zip(&prepared.pools).map(|(pool, live)| {
            let old = before.and_then(|before| before.pool(pool.id)).map(RefCell::borrow);
            RefCell::new(WorkerPool::new(&live.now(), old.as_deref(), seed))
        });
        let tls = RefCell::new(Rc::new(prepared.tls.now()));
        Self {
            pools: pools.collect(),
            key_views: prepared.keys.views(),
            token_keys: token_keys::TokenKeys::default(),
            tls,
            listeners: by_id(&plan),
            parts: RefCell::default(),
            plan: plan.clone(),
            prepared,
        }
    }

    /// A part of a plan that ran before, with the choosers of its pools.
    pub(crate) fn of_part(prepared: Arc<Prepared>, pools: Vec<WorkerPool>, whole: &Installed) -> Self {
        let plan = prepared.plan.clone();
        Self {
            pools: pools.into_iter().map(RefCell::new).collect(),
            key_views: whole.key_views.clone(),
            token_keys: token_keys::TokenKeys::default(),
            tls: RefCell::default(),
            listeners: by_id(&plan),
            parts: RefCell::default(),
            plan,
            prepared,
        }
    }

    /// A pool by its stable id; `None` if this plan has none.
    fn pool(&self, id: PoolId) -> Option<&RefCell<WorkerPool>> {
        self.pools.get(self.plan.pools_by_id.get(&id)?.at())
    }

    /// Takes up the endpoints that a pool has now.
    fn take_up_endpoints(&self, id: PoolId, idle: &IdleConnections) {
        let Some(ix) = self.plan.pools_by_id.get(&id) else { return };
        let (Some(pool), Some(live)) = (self.pools.get(ix.at()), self.prepared.pools.get(ix.at())) else {
            return;
        };
        let mut pool = pool.borrow_mut();
        let now = WorkerPool::new(&live.now(), Some(&pool), 0);
        idle.follow(id, &pool.links(), &now.links());
        *pool = now;
        pool.call_waiting();
    }

    /// TLS, as it is now.
    pub(crate) fn tls(&self) -> Rc<Tls> {
        self.tls.borrow().clone()
    }

    /// A listener by its stable id; `None` if this plan has none.
    pub(crate) fn listener(&self, id: ListenerId) -> Option<ListenerIx> {
        let at = self.listeners.binary_search_by_key(&id.0, |(known, _)| known.0).ok()?;
        Some(self.listeners[at].1)
    }
}

/// The listeners of a plan in the order of their ids.
fn by_id(plan: &Plan) -> Box<[(ListenerId, ListenerIx)]> {
    let all = plan.listeners.iter().zip(0..).map(|(listener, at)| (listener.id, ListenerIx(at)));
    let mut all: Box<[_]> = all.collect();
    all.sort_unstable_by_key(|(id, _)| id.0);
    all
}

/// What all connections of a worker share.
pub(crate) struct Worker {
    /// Its number, from 0.
    pub(crate) index: u16,
    /// What all workers share.
    pub(crate) shared: Arc<Shared>,
    /// Set when no more than what is there is to be served: idle connections close, answers say `close`.
    pub(crate) draining: Signal,
    /// Set while there are more workers than wanted: nothing is accepted and answers say `close`, but no connection is
    /// cut, idle ones included.
    pub(crate) resting: Cell<bool>,
    /// Told when a connection ended: accepting may go on, a drain may be complete.
    pub(crate) ended: Signal,
    /// The connections of clients, one by one.
    pub(crate) roll: Rc<roll::Roll>,
    /// Kept connections to endpoints.
    pub(crate) idle: IdleConnections,
    /// Files held in memory.
    pub(crate) files: Rc<FileCache>,
    /// Objects of the cache held in memory.
    pub(crate) objects: Objects,
    /// Passwords that were verified lately.
    pub(crate) passwords: passwords::Known,
    /// Log lines on their way.
    pub(crate) logs: WorkerLogs,
    /// Requests and sessions that are served now.
    pub(crate) flights: Rc<flights::Flights>,
    /// Counters of this worker.
    pub(crate) counters: crate::worker::count::Counters,
    installed: RefCell<Rc<Installed>>,
    /// Plans of listeners that are gone, for the connections that came in through them.
    retired: RefCell<HashMap<ListenerId, (Rc<Installed>, usize)>>,
    connections: RefCell<HashMap<ListenerId, usize>>,
    /// What their connections count in.
    connection_counts: RefCell<HashMap<ListenerId, Rc<ConnectionCounts>>>,
    total: Cell<usize>,
    /// Requests of our own that run beside those of clients.
    beside: Cell<usize>,
    /// What is made for each request, and used again: of floors above, which know what it is.
    spares: RefCell<Vec<Box<dyn Any>>>,
    #[allow(
        clippy::vec_box,
        reason = "they are handed out boxed: a connection holds one while it has a request"
    )]
    heads: RefCell<Vec<Box<RequestHead>>>,
    random: Cell<u64>,
    /// The time of a wake-up, and the same for policies.
    millis: Cell<(Instant, weir_policy::Millis)>,
    clock: RefCell<crate::logging::Clock>,
    /// When this thread's free memory was last given back.
    trimmed: Cell<Instant>,
    panic_next: Cell<bool>,
    panic_next_accept: Cell<bool>,
    text: RefCell<Vec<u8>>,
}

impl Worker {
    /// A worker that begins with a plan.
    pub(crate) fn new(id: u16, shared: Arc<Shared>, prepared: Arc<Prepared>) -> Self {
        let flights = Rc::new(flights::Flights::default());
        flights.set(shared.shows_requests(&prepared.plan));
        let seed = shared.seed().wrapping_add(u64::from(id) << 32) | 1;
        Self {
            index: id,
            draining: Signal::default(),
            resting: Cell::new(false),
            ended: Signal::default(),
            roll: Rc::default(),
            idle: IdleConnections::default(),
            files: Rc::default(),
            objects: Objects::default(),
            passwords: passwords::Known::default(),
            logs: WorkerLogs::default(),
            flights,
            counters: crate::worker::count::Counters::new(&shared, id),
            installed: RefCell::new(Rc::new(Installed::new(prepared, None, seed))),
            retired: RefCell::default(),
            connections: RefCell::default(),
            connection_counts: RefCell::default(),
            total: Cell::new(0),
            beside: Cell::new(0),
            spares: RefCell::default(),
            heads: RefCell::default(),
            random: Cell::new(seed),
            millis: Cell::new((shared.instant(weir_policy::Millis(0)), weir_policy::Millis(0))),
            clock: RefCell::default(),
            trimmed: Cell::new(shared.instant(weir_policy::Millis(0))),
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

    /// Whether this is the newest plan.
    pub(crate) fn is_newest(&self, installed: &Rc<Installed>) -> bool {
        Rc::ptr_eq(&self.installed.borrow(), installed)
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
        self.objects.clear();
        self.idle.clear();
        self.shared.memories.clear();
        weir_rt::release_pool();
        // The allocator keeps what a thread freed until that thread asks for memory again, which one that accepts
        // nothing does not: without this, memory would stay short for good.
        let now = self.now();
        if now.saturating_duration_since(self.trimmed.get()) >= TRIM_EVERY {
            self.trimmed.set(now);
            weir_rt::trim_heap();
        }
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

    /// What one request was made of, for the next. The floor that made it knows its type.
    pub(crate) fn take_spare(&self) -> Option<Box<dyn Any>> {
        self.spares.borrow_mut().pop()
    }

    /// Whether what belonged to a request under this plan is kept.
    pub(crate) fn keeps_spare(&self, installed: &Rc<Installed>) -> bool {
        self.spares.borrow().len() < KEPT_SPARES && Rc::ptr_eq(installed, &self.installed.borrow())
    }

    /// See [`Worker::take_spare`].
    pub(crate) fn give_spare(&self, spare: Box<dyn Any>) {
        self.spares.borrow_mut().push(spare);
    }

    /// Keeps a connection to an endpoint for another request, if the bounds of its pool allow.
    pub(crate) fn park(
        self: &Rc<Self>,
        pool: PoolId,
        bounds: &UpstreamKeepalive,
        key: IdleKey,
        kept: (Kept, CountedIdle),
    ) {
        if bounds.idle == 0 || self.is_leaving() {
            return;
        }
        self.idle.park(self.millis(), pool, bounds, key, kept);
        if self.idle.wants_sweep() {
            let worker = self.clone();
            weir_rt::spawn(async move {
                let note = |payload: &_| worker.shared.note_panic("closing idle connections", payload);
                lasting::task(note, || sweep(&worker)).await;
            });
        }
    }

    /// Memory to parse request heads in; give it back.
    pub(crate) fn take_head(&self) -> Box<RequestHead> {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    /// See [`Worker::take_head`].
    pub(crate) fn give_head(&self, head: Box<RequestHead>) {
        let mut kept = self.heads.borrow_mut();
        if kept.len() < KEPT_SPARES {
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

    /// The time in a form of strftime(3); `None` if that is none.
    pub(crate) fn time_in_form(&self, form: &str, gmt: bool) -> Option<String> {
        self.clock.borrow().in_form(weir_rt::unix_now(), form, gmt)
    }

    /// Appends HAProxy's date of a time.
    pub(crate) fn haproxy_date(&self, at: Duration, out: &mut Vec<u8>) {
        self.clock.borrow_mut().haproxy(at, out);
    }

    /// A moment in a format of `strftime`; `None`: it has none.
    pub(crate) fn date(&self, format: &str, second: i64, nanos: i32, utc: bool) -> Option<String> {
        self.clock.borrow().formatted(format, second, nanos, utc)
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

    /// Uses the value of a Date field.
    pub(crate) fn with_date(&self, use_it: impl FnOnce(&[u8])) {
        use_it(self.clock.borrow_mut().date(weir_rt::unix_now()));
    }

    /// Name of the machine.
    pub(crate) fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    /// Connections of this worker.
    pub(crate) fn connection_count(&self) -> usize {
        self.total.get()
    }

    /// Nothing is being served.
    pub(crate) fn serves_nothing(&self) -> bool {
        self.total.get() == 0 && self.beside.get() == 0
    }

    /// Begins a request of our own that runs beside those of clients, counted while the answer lives; `None`: there are
    /// too many.
    pub(crate) fn begin_beside(self: &Rc<Self>) -> Option<Beside> {
        let free = self.beside.get() < MOST_BESIDE;
        free.then(|| {
            self.beside.set(self.beside.get() + 1);
            Beside(self.clone())
        })
    }

    /// What connections of a listener count in under the plan that they begin with.
    pub(crate) fn connection_counts(
        &self,
        installed: &Installed,
        listener: &weir_plan::Listener,
    ) -> Rc<ConnectionCounts> {
        let mut connection_counts = self.connection_counts.borrow_mut();
        connection_counts
            .entry(listener.id)
            .or_insert_with(|| Rc::new(ConnectionCounts::new(self, installed, listener)))
            .clone()
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

    /// The next request is to panic: a test's order.
    pub(crate) fn inject_panic(&self) {
        self.panic_next.set(true);
    }

    /// As [`Worker::inject_panic`], of accepting.
    pub(crate) fn inject_accept_panic(&self) {
        self.panic_next_accept.set(true);
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

    /// Serves another plan, from the next request of each connection on.
    pub(crate) fn install(self: &Rc<Self>, prepared: Arc<Prepared>) {
        let before = self.installed();
        let now = Rc::new(Installed::new(prepared, Some(&before), self.random.get()));
        for listener in &before.plan.listeners {
            let left = self.connections.borrow().get(&listener.id).copied().unwrap_or(0);
            if now.listener(listener.id).is_none() && left > 0 {
                self.retired.borrow_mut().entry(listener.id).or_insert_with(|| (before.clone(), left));
            }
        }
        self.retired.borrow_mut().retain(|id, _| now.listener(*id).is_none());
        self.idle.keep_only(&now.plan, now.tls().clients());
        for (pool, live) in now.plan.pools.iter().zip(&now.pools) {
            if let Some(before) = before.pool(pool.id) {
                self.idle.follow(pool.id, &before.borrow().links(), &live.borrow().links());
            }
        }
        self.counters.forget_handles();
        self.flights.set(self.shared.shows_requests(&now.plan));
        self.connection_counts.borrow_mut().clear();
        // What waits to be used again would hold the old plan.
        self.spares.borrow_mut().clear();
        *self.installed.borrow_mut() = now;
    }
}

impl Worker {
    /// Chooses among the endpoints that a pool has now: at once, for requests that have begun, too.
    pub(crate) fn take_up_endpoints(&self, pool: PoolId) {
        for (retired, _) in self.retired.borrow().values() {
            retired.take_up_endpoints(pool, &self.idle);
        }
        self.installed().take_up_endpoints(pool, &self.idle);
        self.counters.forget_handles();
    }

    /// Cuts what is not to outlive that endpoints of a pool went up or down.
    pub(crate) fn follow_standing(&self, pool: PoolId) {
        let installed = self.installed();
        let Some(members) = installed.pool(pool) else { return };
        let cut = members.borrow().cut_now();
        self.counters.links.cut(|endpoint| cut.get(&endpoint).copied());
    }

    /// Shows the certificates that there are now, from the next handshake on.
    pub(crate) fn take_up_certificates(&self) {
        let installed = self.installed();
        *installed.tls.borrow_mut() = Rc::new(installed.prepared.tls.now());
        // Connections to endpoints that know another certificate of ours are not used again.
        self.idle.keep_only(&installed.plan, installed.tls().clients());
    }

    /// Answers are the last ones of their connections.
    pub(crate) fn is_leaving(&self) -> bool {
        self.resting.get() || self.draining.is_set()
    }

    /// Lets go of what refers to it, and through sockets to the runtime, which would never end then: its ring would hold
    /// connections open that nobody serves.
    pub(crate) fn let_go(&self) {
        if let Ok(mut spares) = self.spares.try_borrow_mut() {
            spares.clear();
        }
        if !std::thread::panicking() {
            self.idle.clear();
        }
    }
}

/// A request of our own beside those of clients. A drain waits for it.
pub(crate) struct Beside(Rc<Worker>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.beside.set(self.0.beside.get().saturating_sub(1));
        self.0.ended.wake_all();
    }
}

/// Closes kept connections that are too old or were closed by their endpoint, once a second while there are any.
async fn sweep(worker: &Worker) {
    while worker.idle.len() > 0 {
        weir_rt::sleep(Duration::from_secs(1)).await;
        worker.idle.expire(worker.millis());
        if worker.is_leaving() {
            worker.idle.clear();
        }
    }
    worker.idle.end_sweep();
}
