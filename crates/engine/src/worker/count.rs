//! Counting what passes through a worker.
//!
//! Owns: this worker's cells, looked up once for each listener, site, pool and endpoint.
//! Never: takes a lock while a request is served, but for the first one that touches an id after a plan was installed.
//! Driven by: connections (guards), `exchange::tally` (requests), attempts.
//! Why: cells live in the registry under stable ids, so counts survive every change of the plan; handles to them are
//! kept here because the registry is behind a lock.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_control::{EndpointKey, ListenerId, PoolId, RouteId, SiteId, WorkerId, ZoneId};
use weir_policy::limit::Quota;
use weir_rt::Instant;
use weir_telemetry::{
    AttemptEnd, AttemptPhases, AttemptTimes, BackCells, BackKey, EventCells, FrontCells, FrontKey, Gauge,
    Registry, WorkerCells,
};

use crate::worker::links::{Cut, Links, Seat};
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;

/// A handle that costs no atomic operation to clone: `Arc` is for the registry, which other threads read.
pub(crate) type Cells<T> = Rc<Arc<T>>;

/// Handles by key. Those that were used last are found without a hash: a request counts in four of them, and the next
/// request mostly in the same.
struct Kept<K, T> {
    all: RefCell<HashMap<K, Cells<T>, ahash::RandomState>>,
    recent: [Recent<K, T>; RECENT],
    /// So many are counted apart.
    most: usize,
}

type Recent<K, T> = RefCell<Option<(K, Cells<T>)>>;

/// Places for those used last; of the fronts, half are listeners.
const RECENT: usize = 8;

/// Pools and endpoints counted apart. Targets that requests name are countless: beyond this they go uncounted.
const MOST_BACKS: usize = 16_384;

/// Routes counted apart.
const MOST_ROUTES: usize = 1024;

/// Counters of one worker.
pub(crate) struct Counters {
    registry: Registry,
    id: WorkerId,
    worker: Cells<WorkerCells>,
    fronts: Kept<FrontKey, FrontCells>,
    backs: Kept<BackKey, BackCells>,
    routes: Kept<FrontKey, FrontCells>,
    events: Kept<ZoneId, EventCells>,
    quotas: RefCell<HashMap<ListenerId, Option<Arc<Quota>>, ahash::RandomState>>,
    /// Connections that carry an attempt.
    pub(crate) links: Rc<Links>,
}

/// One more of something, while this lives.
pub(crate) struct Counted {
    cells: Cells<WorkerCells>,
    gauge: fn(&WorkerCells) -> &Gauge,
}

impl Counted {
    fn new(cells: &Cells<WorkerCells>, gauge: fn(&WorkerCells) -> &Gauge) -> Self {
        gauge(cells).enter();
        Self { cells: cells.clone(), gauge }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.gauge)(&self.cells).leave();
    }
}

/// A kept connection to an endpoint, while this lives.
pub(crate) struct CountedIdle(Cells<BackCells>);

impl Drop for CountedIdle {
    fn drop(&mut self) {
        self.0.idle.leave();
    }
}

/// What the connections of a listener count in.
pub(crate) struct Entrance {
    worker: Cells<WorkerCells>,
    /// Of the listener, and of its default site or its TCP service.
    fronts: [Cells<FrontCells>; 2],
}

impl Entrance {
    /// Counts a connection that was accepted.
    pub(crate) fn enter(&self) {
        let second = second();
        self.worker.accepted.bump();
        self.worker.handled.bump();
        self.worker.connection_rate.tick(second);
        self.worker.active.enter();
        self.fronts.iter().for_each(|front| front.open(second));
    }

    /// Counts one among those with TLS.
    pub(crate) fn encrypt(&self) {
        self.worker.tls.current.enter();
    }

    /// Counts one out; `encrypted`: it was among those with TLS.
    pub(crate) fn leave(&self, encrypted: bool) {
        if encrypted {
            self.worker.tls.current.leave();
        }
        self.worker.active.leave();
        self.fronts.iter().for_each(|front| front.close());
    }
}

impl Counters {
    /// Counters for worker `id`, which begins with nothing open.
    pub(crate) fn new(shared: &Shared, id: u16) -> Self {
        let (registry, id) = (shared.registry.clone(), WorkerId(id));
        let worker = Rc::new(registry.worker(id));
        Self {
            registry,
            id,
            worker,
            fronts: Kept::new(usize::MAX),
            backs: Kept::new(MOST_BACKS),
            routes: Kept::new(MOST_ROUTES),
            events: Kept::new(usize::MAX),
            quotas: RefCell::default(),
            links: Rc::default(),
        }
    }

    /// Forgets all handles: called when a plan is installed, so that none outlives what the registry forgets.
    pub(crate) fn forget_handles(&self) {
        self.fronts.clear();
        self.backs.clear();
        self.routes.clear();
        self.events.clear();
        self.quotas.borrow_mut().clear();
    }

    /// Forgets the most that there ever was of anything; with `all`, what was counted, too.
    pub(crate) fn clear(&self, all: bool) {
        self.registry.clear(self.id, all);
    }

    /// What connections of a listener count in; `site` is its default site or its TCP service.
    pub(crate) fn entrance(&self, listener: ListenerId, site: SiteId) -> Entrance {
        Entrance { worker: self.worker.clone(), fronts: [self.listener(listener), self.site(site)] }
    }

    /// What is counted for the worker as a whole.
    pub(crate) fn whole(&self) -> &WorkerCells {
        &self.worker
    }

    /// A connection waits for a request while the guard lives.
    pub(crate) fn waiting(&self) -> Counted {
        Counted::new(&self.worker, |cells| &cells.waiting)
    }

    /// A request's head is being read while the guard lives.
    pub(crate) fn reading(&self) -> Counted {
        Counted::new(&self.worker, |cells| &cells.reading)
    }

    /// A request has begun.
    pub(crate) fn request(&self) {
        self.worker.requests.bump();
        self.worker.request_rate.tick(second());
    }

    /// A request has begun, and is being answered while the guard lives.
    pub(crate) fn writing(&self) -> Counted {
        self.request();
        Counted::new(&self.worker, |cells| &cells.writing)
    }

    /// A request that has begun goes on as a tunnel while the guard lives.
    pub(crate) fn tunnelling(&self) -> Counted {
        Counted::new(&self.worker, |cells| &cells.writing)
    }

    /// A TLS handshake succeeded.
    pub(crate) fn handshake(&self, listener: ListenerId, resumed: bool) {
        let front = self.listener(listener);
        for tls in [&self.worker.tls, &front.tls] {
            if resumed { tls.resumed.bump() } else { tls.full.bump() }
        }
    }

    /// A TLS handshake failed.
    pub(crate) fn handshake_failed(&self, listener: ListenerId) {
        self.worker.tls.failed.bump();
        self.listener(listener).tls.failed.bump();
    }

    /// Counts a session of a TCP service that is over, beside its connection.
    pub(crate) fn session(&self, site: SiteId, session: &SessionTotals) {
        self.worker.client_in.add(session.received);
        self.worker.client_out.add(session.sent);
        for front in [self.site(site), self.listener(session.listener)] {
            front.bytes_in.add(session.received);
            front.bytes_out.add(session.sent);
            front.passed_on.add(session.received);
            front.passed_back.add(session.sent);
            front.answer(session.status, micros(session.duration));
        }
    }

    /// An attempt at an endpoint begins.
    pub(crate) fn attempt(&self, pool: PoolId, endpoint: EndpointKey, began: Instant) -> Attempting {
        let cells = self.back(BackKey::Endpoint(pool, endpoint));
        cells.attempt(second(), true);
        Attempting {
            cells,
            worker: self.worker.clone(),
            began,
            answered: None,
            opened: Cell::new(false),
            ended: false,
            seat: None,
        }
    }

    /// Client connections of a listener, over all workers.
    pub(crate) fn listener_connections(&self, shared: &Shared, listener: ListenerId) -> u64 {
        let mut quotas = self.quotas.borrow_mut();
        quotas
            .entry(listener)
            .or_insert_with(|| shared.listener_quota(listener))
            .as_ref()
            .map_or(0, |q| q.used())
    }

    /// What is counted for this.
    pub(crate) fn listener(&self, id: ListenerId) -> Cells<FrontCells> {
        self.fronts.find(FrontKey::Listener(id), id.0 % 4, |key| self.registry.front(self.id, key))
    }

    /// What is counted for this.
    pub(crate) fn site(&self, id: SiteId) -> Cells<FrontCells> {
        self.fronts.find(FrontKey::Site(id), 4 + id.0 % 4, |key| self.registry.front(self.id, key))
    }

    /// What is counted for this route of a site, by its name.
    pub(crate) fn route(&self, site: SiteId, name: &str) -> Cells<FrontCells> {
        let route = RouteId::from_name(name);
        let key = FrontKey::Route(site, route);
        self.routes.find(key, site.0 ^ route.0, |_| self.registry.route(self.id, site, name))
    }

    /// What is counted for this.
    pub(crate) fn zone(&self, id: ZoneId) -> Cells<FrontCells> {
        self.fronts.find(FrontKey::Zone(id), id.0 % 8, |key| self.registry.front(self.id, key))
    }

    /// What is counted for this.
    pub(crate) fn events(&self, id: ZoneId) -> Cells<EventCells> {
        self.events.find(id, id.0, |key| self.registry.events(self.id, key))
    }

    /// What is counted for this.
    pub(crate) fn back(&self, key: BackKey) -> Cells<BackCells> {
        let spread = match key {
            BackKey::Pool(pool) => pool.0,
            BackKey::Endpoint(_, endpoint) => endpoint.0,
        };
        self.backs.find(key, spread, |key| self.registry.back(self.id, key))
    }
}

impl<K: Copy + Eq + Hash, T: Default> Kept<K, T> {
    fn new(most: usize) -> Self {
        Self { all: RefCell::default(), recent: Default::default(), most }
    }

    /// The handle for a key, looked up at its first use. `spread`: a number that differs between keys.
    #[inline]
    fn find(&self, key: K, spread: u64, look_up: impl FnOnce(K) -> Arc<T>) -> Cells<T> {
        let mut recent = self.recent[spread as usize % RECENT].borrow_mut();
        if let Some((known, cells)) = &*recent
            && *known == key
        {
            return cells.clone();
        }
        let cells = self.find_by_hash(key, look_up);
        *recent = Some((key, cells.clone()));
        cells
    }

    fn find_by_hash(&self, key: K, look_up: impl FnOnce(K) -> Arc<T>) -> Cells<T> {
        let mut all = self.all.borrow_mut();
        if all.len() >= self.most && !all.contains_key(&key) {
            return Rc::default();
        }
        all.entry(key).or_insert_with(|| Rc::new(look_up(key))).clone()
    }

    fn clear(&self) {
        self.all.borrow_mut().clear();
        self.recent.iter().for_each(|place| drop(place.take()));
    }
}

/// What a TCP session came to.
pub(crate) struct SessionTotals {
    /// Where it arrived.
    pub(crate) listener: ListenerId,
    /// Bytes from the client.
    pub(crate) received: u64,
    /// Bytes to the client.
    pub(crate) sent: u64,
    /// nginx's session status: 200, 403, 502 …
    pub(crate) status: u16,
    /// From accept to close.
    pub(crate) duration: Duration,
}

/// What an attempt came to.
pub(crate) struct CameTo {
    /// Time in queues before it.
    pub(crate) queued: Duration,
    /// Time to connect, if it did.
    pub(crate) connect: Option<Duration>,
    /// Time to the answer's head.
    pub(crate) header: Option<Duration>,
    /// Bytes sent to the endpoint.
    pub(crate) sent: u64,
    /// Bytes received from it.
    pub(crate) received: u64,
    /// Bytes that the client had sent for it.
    pub(crate) taken: u64,
}

/// An attempt at an endpoint, in flight until it is closed. One that is dropped before ended with its client.
pub(crate) struct Attempting {
    cells: Cells<BackCells>,
    worker: Cells<WorkerCells>,
    began: Instant,
    answered: Option<u16>,
    /// A connection was opened for it, or tried to.
    opened: Cell<bool>,
    ended: bool,
    seat: Option<Seat>,
}

impl Attempting {
    /// It goes over a connection, which may be cut from now on.
    pub(crate) fn goes_over(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// Why its connection was cut, if it was.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.seat.as_ref().and_then(Seat::cut)
    }

    /// The head of an answer came, and more is to follow for long: a tunnel.
    pub(crate) fn answered(&mut self, status: u16) {
        self.answered = Some(status);
    }

    /// A kept connection is used again for it.
    pub(crate) fn reused(&self) {
        self.cells.reuses.bump();
    }

    /// A connection is being opened for it.
    pub(crate) fn connecting(&self) {
        self.cells.connects.bump();
        self.opened.set(true);
    }

    /// Its connection is kept while the guard lives.
    pub(crate) fn keeps(&self) -> CountedIdle {
        self.cells.idle.enter();
        CountedIdle(self.cells.clone())
    }

    /// The code of its response, where somebody asks for codes.
    pub(crate) fn code(&self, status: u16) {
        self.cells.codes.bump(status);
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended
    }

    /// It is over, and came to this.
    pub(crate) fn close(&mut self, end: AttemptEnd, now: Instant, came_to: &CameTo) {
        self.ended = true;
        let total = now.saturating_duration_since(self.began);
        let CameTo { queued, connect, header, sent, received, taken } = *came_to;
        self.cells.bytes_in.add(sent);
        self.cells.bytes_out.add(received);
        self.worker.upstream_out.add(sent);
        self.worker.upstream_in.add(received);
        if matches!(end, AttemptEnd::Answer(_)) {
            self.cells.taken.add(taken);
            self.cells.given.add(received);
        }
        let phases = AttemptPhases {
            connect: connect.filter(|_| self.opened.get()).map(micros),
            head: header.map(micros),
            whole: Some(micros(total)),
        };
        let connect = connect.unwrap_or_default();
        let times = AttemptTimes {
            queue: millis(queued),
            connect: millis(connect),
            response: millis(header.unwrap_or_default().saturating_sub(connect)),
            total: millis(total),
        };
        self.cells.finish(end, times, phases);
    }

    /// It is over, and was never an attempt: a kept connection that its endpoint had just closed.
    pub(crate) fn cancel(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.cells.in_flight.leave();
        }
    }

    /// It is over by a fault of our own.
    pub(crate) fn own_fault(&mut self) {
        self.cancel();
        self.cells.internal_errors.bump();
    }

    /// Another attempt follows: at the same endpoint, or at another one.
    pub(crate) fn retried(&self, same: bool) {
        if same { self.cells.retries.bump() } else { self.cells.redispatches.bump() }
    }
}

impl Drop for Attempting {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let end = self.answered.map_or(AttemptEnd::ClientAbort, AttemptEnd::Answer);
        let times = AttemptTimes {
            total: millis(weir_rt::now().saturating_duration_since(self.began)),
            ..AttemptTimes::default()
        };
        self.cells.finish(end, times, AttemptPhases::default());
    }
}

/// Makes the registry forget what there is no longer. Called after all workers took up a plan, or the endpoints of a pool.
pub(crate) fn forget_unknown(shared: &Shared, prepared: &Prepared) {
    let plan = &*prepared.plan;
    let sites = plan.sites.iter().map(|site| site.id).chain(plan.tcp.iter().map(|tcp| tcp.id));
    let fronts: HashSet<FrontKey> = sites
        .map(FrontKey::Site)
        .chain(plan.listeners.iter().map(|listener| FrontKey::Listener(listener.id)))
        .chain(plan.zones.iter().map(|zone| FrontKey::Zone(zone.id)))
        .collect();
    let routes: HashSet<RouteId> = plan.routes.iter().map(|route| RouteId::from_name(&route.name)).collect();
    let is_known = |key: &FrontKey| match key {
        FrontKey::Route(site, route) => fronts.contains(&FrontKey::Site(*site)) && routes.contains(route),
        _ => fronts.contains(key),
    };
    let backs: HashSet<BackKey> = plan
        .pools
        .iter()
        .zip(&prepared.pools)
        .flat_map(|(pool, live)| {
            let endpoints = live.counted().into_iter().map(|key| BackKey::Endpoint(pool.id, key));
            endpoints.chain([BackKey::Pool(pool.id)])
        })
        .chain(plan.roster.iter().map(|one| BackKey::Pool(PoolId::from_name(&one.name))))
        .collect();
    let known = |key: &ZoneId| plan.zones.iter().any(|zone| zone.id == *key);
    shared.registry.retain(is_known, |key| backs.contains(key), known);
}

/// The second since 1970, as rates count.
pub(crate) fn second() -> u64 {
    weir_rt::unix_now().as_secs()
}

/// As counters have it.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
