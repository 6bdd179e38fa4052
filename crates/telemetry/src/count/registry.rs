//! Who counts what.
//!
//! Owns: every worker's cells, by stable id.
//! Never: touched while counting; only when a worker takes up a plan, and when somebody asks for sums.
//! Driven by: `engine` at each plan (`front`, `back`), the supervisor (`worker`, `retain`), `admin` (sums).
//! Why: cells live under ids, not in plans, so a reload loses no count, and an old plan's last exchange still counts.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use weir_control::snapshot::{Back, Front, Process};
use weir_control::{EndpointKey, ListenerId, PoolId, RouteId, SiteId, WorkerId, ZoneId};

use super::events::{EVENTS, EventCells};
use super::front_back::{BackCells, BackSums, FrontCells, FrontSums};
use super::histogram::Detail;
use super::kept::FORMER;
use super::worker::WorkerCells;

/// What clients reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontKey {
    /// A listening address.
    Listener(ListenerId),
    /// A site.
    Site(SiteId),
    /// A route of a site.
    Route(SiteId, RouteId),
    /// What is counted apart under a name.
    Zone(ZoneId),
}

/// What we reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackKey {
    /// What concerns a pool as a whole: its queue, what found no endpoint.
    Pool(PoolId),
    /// An endpoint of a pool. The same address in two pools counts twice.
    Endpoint(PoolId, EndpointKey),
}

/// All cells of the process. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<Tables>>);

type Table<K, C> = HashMap<(WorkerId, K), Arc<C>, ahash::RandomState>;

#[derive(Debug, Default)]
struct Tables {
    workers: Table<(), WorkerCells>,
    fronts: Table<FrontKey, FrontCells>,
    /// The names of routes.
    routes: HashMap<(SiteId, RouteId), Box<str>, ahash::RandomState>,
    backs: Table<BackKey, BackCells>,
    events: Table<ZoneId, EventCells>,
}

/// What a zone counts beside the figures of a front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneSum {
    /// Under way.
    pub processing: u64,
    /// Ended without any response.
    pub discarded: u64,
    /// Responses by code, in order.
    pub codes: Vec<(u16, u64)>,
}

impl Registry {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cells of worker `id`. A worker asks once, at its start: whatever an earlier one of that number held open
    /// is taken to be gone.
    pub fn worker(&self, id: WorkerId) -> Arc<WorkerCells> {
        let mut tables = self.tables();
        for cells in of_worker(&tables.workers, id) {
            cells.clear_gauges();
        }
        for cells in of_worker(&tables.fronts, id) {
            cells.clear_gauges();
        }
        for cells in of_worker(&tables.backs, id) {
            cells.clear_gauges();
        }
        Arc::clone(tables.workers.entry((id, ())).or_default())
    }

    /// The cells of worker `id` for a listener or site; the same at each call.
    pub fn front(&self, id: WorkerId, key: FrontKey) -> Arc<FrontCells> {
        Arc::clone(self.tables().fronts.entry((id, key)).or_default())
    }

    /// The cells of worker `id` for a route of a site; the same at each call.
    pub fn route(&self, id: WorkerId, site: SiteId, name: &str) -> Arc<FrontCells> {
        let route = RouteId::from_name(name);
        self.tables().routes.entry((site, route)).or_insert_with(|| name.into());
        self.front(id, FrontKey::Route(site, route))
    }

    /// The routes that were asked for, by site and name.
    pub fn routes(&self) -> Vec<(SiteId, RouteId, String)> {
        let tables = self.tables();
        let all = tables.routes.iter().map(|(&(site, route), name)| (site, route, name.to_string()));
        let mut all: Vec<_> = all.collect();
        drop(tables);
        all.sort_unstable_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
        all
    }

    /// The cells of worker `id` for a pool or endpoint; the same at each call.
    pub fn back(&self, id: WorkerId, key: BackKey) -> Arc<BackCells> {
        Arc::clone(self.tables().backs.entry((id, key)).or_default())
    }

    /// Forgets the most that worker `id` ever had of anything; with `all`, what it counted for listeners, sites, pools and
    /// endpoints, too. What goes on now stays counted. Called by that worker: cells have one writer.
    pub fn clear(&self, id: WorkerId, all: bool) {
        let tables = self.tables();
        of_worker(&tables.workers, id).for_each(|cells| cells.clear_peaks());
        of_worker(&tables.fronts, id).for_each(|cells| cells.clear(all));
        of_worker(&tables.backs, id).for_each(|cells| cells.clear(all));
        // What processes before this one counted has no worker that could forget it.
        if all {
            of_worker(&tables.fronts, FORMER).for_each(|cells| cells.clear(all));
            of_worker(&tables.backs, FORMER).for_each(|cells| cells.clear(all));
        }
    }

    /// The cells of worker `id` for something with a few outcomes; the same at each call.
    pub fn events(&self, id: WorkerId, key: ZoneId) -> Arc<EventCells> {
        Arc::clone(self.tables().events.entry((id, key)).or_default())
    }

    /// Forgets what no configuration knows any more. Call after all workers took up a plan.
    pub fn retain(
        &self,
        front: impl Fn(&FrontKey) -> bool,
        back: impl Fn(&BackKey) -> bool,
        events: impl Fn(&ZoneId) -> bool,
    ) {
        let mut tables = self.tables();
        tables.events.retain(|(_, key), _| events(key));
        tables.fronts.retain(|(_, key), _| front(key));
        tables.routes.retain(|&(site, route), _| front(&FrontKey::Route(site, route)));
        tables.backs.retain(|(_, key), _| back(key));
    }

    /// Adds the workers' counts to `process`. `now_ms`: milliseconds since 1970.
    pub fn sum_process(&self, process: &mut Process, now_ms: u64) {
        for cells in self.tables().workers.values() {
            cells.add_to(process, now_ms);
        }
    }

    /// The sum for a listener or site.
    pub fn sum_front(&self, key: FrontKey, now_ms: u64, detail: Detail) -> Front {
        let (mut front, mut sums) = (Front::default(), FrontSums::default());
        let tables = self.tables();
        for cells in of_key(&tables.fronts, &tables.workers, key) {
            cells.add_to(&mut front, &mut sums, now_ms);
        }
        sums.settle(&mut front, detail);
        front
    }

    /// What a zone counts beside what [`Registry::sum_front`] tells of it.
    pub fn sum_zone(&self, zone: ZoneId) -> ZoneSum {
        let mut sum = ZoneSum::default();
        let tables = self.tables();
        for cells in of_key(&tables.fronts, &tables.workers, FrontKey::Zone(zone)) {
            sum.processing += cells.processing.value();
            sum.discarded += cells.discarded.value();
            cells.codes.add_to(&mut sum.codes);
        }
        sum
    }

    /// The counts of outcomes.
    pub fn sum_events(&self, key: ZoneId) -> [u64; EVENTS] {
        let mut sum = [0; EVENTS];
        let tables = self.tables();
        for cells in of_key(&tables.events, &tables.workers, key) {
            cells.add_to(&mut sum);
        }
        sum
    }

    /// The counts of each worker by itself, in order.
    pub fn each_worker(&self, now_ms: u64) -> Vec<(WorkerId, Process)> {
        let tables = self.tables();
        let one = |(&(id, ()), cells): (&(WorkerId, ()), &Arc<WorkerCells>)| {
            let mut process = Process::default();
            cells.add_to(&mut process, now_ms);
            (id, process)
        };
        let mut all: Vec<_> = tables.workers.iter().map(one).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Connections and requests of a listener or site in the last second.
    pub fn front_rates(&self, key: FrontKey, now_ms: u64) -> [u64; 2] {
        let tables = self.tables();
        let each = of_key(&tables.fronts, &tables.workers, key);
        each.fold([0, 0], |[connections, requests], cells| {
            [connections + cells.connection_rate.read(now_ms), requests + cells.request_rate.read(now_ms)]
        })
    }

    /// Exchanges that began with a pool or endpoint in the last second.
    pub fn back_rate(&self, key: BackKey, now_ms: u64) -> u64 {
        let tables = self.tables();
        of_key(&tables.backs, &tables.workers, key).map(|cells| cells.rate.read(now_ms)).sum()
    }

    /// The sum for an endpoint, or for a pool: with `keys`, all of its endpoints and its own. Also its idle connections.
    pub fn sum_back(&self, keys: &[BackKey], now_ms: u64, detail: Detail) -> (Back, u64) {
        let (mut back, mut sums) = (Back::default(), BackSums::default());
        let tables = self.tables();
        for &key in keys {
            for cells in of_key(&tables.backs, &tables.workers, key) {
                cells.add_to(&mut back, &mut sums, now_ms);
            }
        }
        sums.settle(&mut back, detail);
        (back, sums.idle)
    }

    /// Handles of all cells.
    pub(super) fn cells(&self) -> super::kept::All {
        let tables = self.tables();
        let fronts = tables.fronts.iter().map(|((_, key), cells)| (*key, cells.clone())).collect();
        let backs = tables.backs.iter().map(|((_, key), cells)| (*key, cells.clone())).collect();
        (tables.workers.values().cloned().collect(), fronts, backs)
    }

    /// How many cells are held, for tests of leaks.
    pub fn len(&self) -> usize {
        let tables = self.tables();
        tables.workers.len() + tables.fronts.len() + tables.backs.len() + tables.events.len()
    }

    /// True if nothing was ever asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Maps of handles: a panic cannot have left them inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_worker<K: Eq + Hash, C>(table: &Table<K, C>, id: WorkerId) -> impl Iterator<Item = &Arc<C>> {
    table.iter().filter(move |((worker, _), _)| *worker == id).map(|(_, cells)| cells)
}

fn of_key<'a, K: Copy + Eq + Hash, C>(
    table: &'a Table<K, C>,
    workers: &'a Table<(), WorkerCells>,
    key: K,
) -> impl Iterator<Item = &'a Arc<C>> {
    workers.keys().filter_map(move |&(worker, ())| table.get(&(worker, key)))
}

#[cfg(test)]
mod tests {
    use super::super::front_back::{AttemptEnd, AttemptPhases, AttemptTimes};
    use super::*;

    const SITE: FrontKey = FrontKey::Site(SiteId(1));
    const POOL: PoolId = PoolId(2);

    #[test]
    fn workers_add_up() {
        let registry = Registry::new();
        for id in 0..3 {
            let worker = registry.worker(WorkerId(id));
            worker.accepted.bump();
            worker.active.enter();
            let site = registry.front(WorkerId(id), SITE);
            site.open(1000);
            site.request(1, 1000);
            site.answer(204, 1500);
            site.answer(0, 10);
            site.phases(1000, 500);
        }
        let front = registry.sum_front(SITE, 1_000_500, Detail::Steps);
        assert_eq!((front.current, front.total, front.requests), (3, 3, 3));
        assert_eq!((front.responses.success, front.responses.other), (3, 3));
        assert_eq!((front.rates.requests, front.latency.count), (3, 6));
        assert_eq!(front.latency.steps.iter().map(|(_, count)| count).collect::<Vec<_>>(), [&3, &3]);
        assert_eq!((front.first_byte.count, front.transfer.sum_us), (3, 1500));
        let mut process = Process::default();
        registry.sum_process(&mut process, 1_000_500);
        assert_eq!((process.connections.accepted, process.connections.active), (3, 3));
    }

    #[test]
    fn endpoints_add_up_to_their_pool() {
        let registry = Registry::new();
        registry.worker(WorkerId(0));
        let keys = [1, 2].map(|n| BackKey::Endpoint(POOL, EndpointKey(n)));
        for (key, status) in keys.into_iter().zip([200, 503]) {
            let cells = registry.back(WorkerId(0), key);
            cells.attempt(1000, true);
            let times = AttemptTimes { connect: 2, response: 10, total: 20, ..AttemptTimes::default() };
            let phases = AttemptPhases { connect: Some(2_000), head: Some(10_000), whole: Some(20_000) };
            cells.finish(AttemptEnd::Answer(status), times, phases);
        }
        registry.back(WorkerId(0), BackKey::Pool(POOL)).queued.enter();
        let (one, _) = registry.sum_back(&keys[..1], 1_000_000, Detail::Quantiles);
        assert_eq!((one.total, one.responses.success, one.queued), (1, 1, 0));
        let (all, _) =
            registry.sum_back(&[keys[0], keys[1], BackKey::Pool(POOL)], 1_000_000, Detail::Quantiles);
        assert_eq!((all.total, all.responses.server_error, all.queued, all.current), (2, 1, 1, 0));
        assert_eq!((all.times.response, all.times.max), (10.0, [0, 2, 10, 20]));
        assert!(all.latency.p50_us.abs_diff(10_000) < 500 && all.latency.steps.is_empty());
        assert_eq!((all.connect.count, all.transfer.sum_us, all.whole.sum_us), (2, 20_000, 40_000));
        // What came to nothing has a time to connect at most, and that of a tunnel is the client's.
        let cells = registry.back(WorkerId(0), keys[0]);
        cells.finish(AttemptEnd::ConnectError, AttemptTimes::default(), AttemptPhases::default());
        let tunnel = AttemptPhases { head: Some(1), ..AttemptPhases::default() };
        cells.finish(AttemptEnd::Answer(101), AttemptTimes::default(), tunnel);
        let (one, _) = registry.sum_back(&keys[..1], 1_000_000, Detail::Quantiles);
        assert_eq!((one.connect.count, one.latency.count, one.whole.count), (1, 2, 1));
    }

    #[test]
    fn cleared_counts_begin_anew_and_what_goes_on_stays() {
        let registry = Registry::new();
        registry.worker(WorkerId(0));
        let site = registry.front(WorkerId(0), SITE);
        (0..3).for_each(|_| site.open(1000));
        site.close();
        site.answer(200, 1500);
        let back = registry.back(WorkerId(0), BackKey::Pool(POOL));
        back.attempt(1000, true);
        let of = |registry: &Registry| {
            let front = registry.sum_front(SITE, 5_000_000, Detail::Quantiles);
            let (back, _) = registry.sum_back(&[BackKey::Pool(POOL)], 5_000_000, Detail::Quantiles);
            [front.current, front.peak, front.total, front.responses.success, back.current, back.total]
        };
        registry.clear(WorkerId(0), false);
        assert_eq!(of(&registry), [2, 2, 3, 1, 1, 1], "the most is what there is");
        registry.clear(WorkerId(0), true);
        assert_eq!(of(&registry), [2, 2, 0, 0, 1, 0]);
        let front = registry.sum_front(SITE, 5_000_000, Detail::Quantiles);
        assert_eq!((front.latency.count, front.rates.connections_max), (0, 0));
    }

    #[test]
    fn a_restarted_worker_holds_nothing_and_keeps_its_counts() {
        let registry = Registry::new();
        registry.worker(WorkerId(0)).active.enter();
        let site = registry.front(WorkerId(0), SITE);
        site.open(1);
        let again = registry.worker(WorkerId(0));
        assert_eq!(again.active.value(), 0);
        let front = registry.sum_front(SITE, 1000, Detail::Quantiles);
        assert_eq!((front.current, front.total), (0, 1));
    }

    #[test]
    fn what_left_is_forgotten_and_the_rest_stays() {
        let registry = Registry::new();
        registry.worker(WorkerId(0));
        registry.front(WorkerId(0), SITE).opened.bump();
        registry.front(WorkerId(0), FrontKey::Site(SiteId(9)));
        registry.back(WorkerId(0), BackKey::Pool(POOL));
        registry.retain(|key| *key == SITE, |_| false, |_| false);
        assert_eq!(registry.len(), 2);
        assert_eq!(registry.sum_front(SITE, 0, Detail::Quantiles).total, 1);
    }
}
