//! Counts that outlive the process.
//!
//! Owns: under which names they are kept.
//! Never: keeps what is of a moment: gauges, rates, averages over the last exchanges.
//! Driven by: the binary: once at the start, and again every few seconds.
//! Why: what an earlier process counted is one more worker's cells, whose worker never counts. So sums need to know nothing
//! of it, and what left the configuration is forgotten as it is for everybody.

use std::sync::Arc;

use weir_control::totals::{Counts, FORMAT, Totals};
use weir_control::{EndpointKey, ListenerId, PoolId, RouteId, SiteId, WorkerId, ZoneId};

use super::front_back::{BackCells, FrontCells};
use super::registry::{BackKey, FrontKey, Registry};
use super::walk::Cells;
use super::worker::WorkerCells;

/// The worker that earlier processes were. No configuration has so many.
pub(super) const FORMER: WorkerId = WorkerId(u16::MAX);

impl Registry {
    /// What was counted so far, by this process and those before it.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let (workers, fronts, backs) = self.cells();
        workers.iter().for_each(|cells| add(&mut totals.process, &**cells));
        for (key, cells) in &fronts {
            add(totals.fronts.entry(front_name(*key)).or_default(), &**cells);
        }
        for (key, cells) in &backs {
            add(totals.backs.entry(back_name(*key)).or_default(), &**cells);
        }
        totals.fronts.retain(|_, counts| !counts.is_empty());
        totals.backs.retain(|_, counts| !counts.is_empty());
        totals
    }

    /// Begins with what earlier processes counted. To be called once, before anybody counts.
    pub fn inherit(&self, totals: &Totals) {
        if totals.format != FORMAT {
            return;
        }
        take_in(&self.worker(FORMER), &totals.process);
        for (name, counts) in &totals.fronts {
            if let Some(key) = front_key(name) {
                take_in(&self.front(FORMER, key), counts);
            }
        }
        for (name, counts) in &totals.backs {
            if let Some(key) = back_key(name) {
                take_in(&self.back(FORMER, key), counts);
            }
        }
    }
}

fn add<C: Cells>(counts: &mut Counts, cells: &C) {
    cells.counters(&mut |name, at, counter| {
        raise(counts, &numbered(name, at), counter.value(), name == "last")
    });
    for (name, distribution) in cells.distributions() {
        distribution.each(|bucket, count| raise(counts, &numbered(name, bucket + 1), count, false));
        raise(counts, &sum_of(name), distribution.sum(), false);
    }
    if let Some(codes) = cells.codes() {
        let mut sum = Vec::new();
        codes.add_to(&mut sum);
        sum.into_iter().for_each(|(code, count)| raise(counts, &numbered(CODE, code.into()), count, false));
    }
}

/// Adds a number under a name; `latest`: it is no sum, but the greatest of all.
fn raise(counts: &mut Counts, name: &str, value: u64, latest: bool) {
    if value == 0 {
        return;
    }
    let sum = counts.entry(name.to_owned()).or_default();
    *sum = if latest { value.max(*sum) } else { sum.saturating_add(value) };
}

fn take_in<C: Cells>(cells: &Arc<C>, counts: &Counts) {
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    cells.counters(&mut |name, at, counter| counter.set(of(&numbered(name, at))));
    for (name, distribution) in cells.distributions() {
        let buckets =
            several(counts, name).filter_map(|(bucket, count)| Some((bucket.checked_sub(1)?, count)));
        distribution.inherit(buckets, of(&sum_of(name)));
    }
    if let Some(codes) = cells.codes() {
        let known =
            several(counts, CODE).filter_map(|(code, count)| Some((u16::try_from(code).ok()?, count)));
        known.for_each(|(code, count)| codes.add(code, count));
    }
}

/// Counts by status are `code.404`.
const CODE: &str = "code";

/// The name of a distribution's sum.
fn sum_of(name: &str) -> String {
    format!("{name}.sum")
}

/// Those called `name.N`, by N.
fn several<'a>(counts: &'a Counts, name: &'a str) -> impl Iterator<Item = (usize, u64)> {
    counts.iter().filter_map(move |(full, count)| {
        let number = full.strip_prefix(name)?.strip_prefix('.')?.parse().ok()?;
        Some((number, *count))
    })
}

/// `name`, or `name.at` of one of several, which are counted from one.
fn numbered(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}.{at}") }
}

fn front_name(key: FrontKey) -> String {
    match key {
        FrontKey::Listener(id) => format!("listener {id}"),
        FrontKey::Site(id) => format!("site {id}"),
        FrontKey::Route(site, route) => format!("route {site} {route}"),
        FrontKey::Zone(id) => format!("zone {id}"),
    }
}

fn front_key(name: &str) -> Option<FrontKey> {
    let (kind, mut id) = kind_and_ids(name)?;
    match kind {
        "listener" => Some(FrontKey::Listener(ListenerId(id()?))),
        "site" => Some(FrontKey::Site(SiteId(id()?))),
        "route" => Some(FrontKey::Route(SiteId(id()?), RouteId(id()?))),
        "zone" => Some(FrontKey::Zone(ZoneId(id()?))),
        _ => None,
    }
}

fn back_name(key: BackKey) -> String {
    match key {
        BackKey::Pool(pool) => format!("pool {pool}"),
        BackKey::Endpoint(pool, endpoint) => format!("endpoint {pool} {endpoint}"),
    }
}

fn back_key(name: &str) -> Option<BackKey> {
    let (kind, mut id) = kind_and_ids(name)?;
    match kind {
        "pool" => Some(BackKey::Pool(PoolId(id()?))),
        "endpoint" => Some(BackKey::Endpoint(PoolId(id()?), EndpointKey(id()?))),
        _ => None,
    }
}

/// The first word of a name, and what gives the ids behind it, one after the other.
fn kind_and_ids(name: &str) -> Option<(&str, impl FnMut() -> Option<u64>)> {
    let mut words = name.split(' ');
    let kind = words.next()?;
    Some((kind, move || u64::from_str_radix(words.next()?, 16).ok()))
}

/// Cells with what they are of.
pub(super) type Keyed<K, C> = Vec<(K, Arc<C>)>;

/// Counters of both kinds, to be added up without holding anybody up.
pub(super) type All = (Vec<Arc<WorkerCells>>, Keyed<FrontKey, FrontCells>, Keyed<BackKey, BackCells>);

#[cfg(test)]
mod tests {
    use super::super::front_back::{AttemptEnd, AttemptPhases, AttemptTimes};
    use super::super::histogram::Detail;
    use super::*;

    const SITE: FrontKey = FrontKey::Site(SiteId(1));
    const ZONE: FrontKey = FrontKey::Zone(ZoneId(4));
    const ENDPOINT: BackKey = BackKey::Endpoint(PoolId(2), EndpointKey(3));

    fn counted(registry: &Registry, worker: u16) {
        let process = registry.worker(WorkerId(worker));
        process.accepted.bump();
        process.active.enter();
        let site = registry.front(WorkerId(worker), SITE);
        site.open(1000);
        site.request(2, 1000);
        site.answer(404, 1500);
        site.bytes_out.add(100);
        site.phases(700, 800);
        let zone = registry.front(WorkerId(worker), ZONE);
        zone.request(1, 1000);
        zone.codes.bump(404);
        zone.processing.enter();
        registry.route(WorkerId(worker), SiteId(1), "/a").answer(200, 10);
        let endpoint = registry.back(WorkerId(worker), ENDPOINT);
        endpoint.overflows.bump();
        endpoint.attempt(1000 + u64::from(worker), true);
        endpoint.finish(
            AttemptEnd::Answer(200),
            AttemptTimes::default(),
            AttemptPhases { head: Some(700), whole: Some(900), ..AttemptPhases::default() },
        );
    }

    #[test]
    fn another_process_goes_on_from_where_one_ended() {
        let first = Registry::new();
        counted(&first, 0);
        counted(&first, 1);
        let kept = first.totals();
        let next = Registry::new();
        next.inherit(&kept);
        assert_eq!(next.totals(), kept, "nothing is counted twice");
        counted(&next, 0);
        let front = next.sum_front(SITE, 1_000_500, Detail::Quantiles);
        assert_eq!((front.total, front.requests, front.requests_by_version[1]), (3, 3, 3));
        assert_eq!((front.responses.client_error, front.bytes_out), (3, 300));
        assert_eq!((front.latency.count, front.latency.sum_us), (3, 4500));
        assert_eq!((front.first_byte.count, front.transfer.sum_us), (3, 2400));
        assert_eq!(front.current, 1, "what was open then is closed");
        let zone = next.sum_zone(ZoneId(4));
        assert_eq!((zone.processing, zone.codes), (1, vec![(404, 3)]));
        let route = FrontKey::Route(SiteId(1), RouteId::from_name("/a"));
        assert_eq!(next.sum_front(route, 1_000_500, Detail::Quantiles).responses.success, 3);
        let (back, _) = next.sum_back(&[ENDPOINT], 1_000_500, Detail::Quantiles);
        assert_eq!((back.total, back.responses.success, back.latency.count), (3, 3, 3));
        assert_eq!((back.last_unix, back.overflows, back.whole.sum_us), (1001, 3, 2700));
        let mut process = weir_control::snapshot::Process::default();
        next.sum_process(&mut process, 1_000_500);
        assert_eq!((process.connections.accepted, process.connections.active), (3, 1));
        // An order to forget reaches what was counted before, too.
        next.clear(WorkerId(0), true);
        let front = next.sum_front(SITE, 1_000_500, Detail::Quantiles);
        assert_eq!((front.total, front.latency.count, next.sum_zone(ZoneId(4)).codes.len()), (0, 0, 0));
        let (back, _) = next.sum_back(&[ENDPOINT], 1_000_500, Detail::Quantiles);
        assert_eq!((back.total, back.last_unix, back.overflows), (0, 0, 0));
        // What left the configuration is forgotten.
        next.retain(|_| false, |_| false, |_| false);
        let left = next.totals();
        assert!(left.fronts.is_empty() && left.backs.is_empty());
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        let next = Registry::new();
        let mut kept = Totals::default();
        kept.process.insert("requests".into(), 5);
        kept.process.insert("of a later version".into(), 5);
        kept.fronts.insert("galaxy 1".into(), Counts::new());
        kept.backs.insert("endpoint 1".into(), Counts::new());
        kept.fronts.insert("site 0000000000000001".into(), [("latency.9999".to_owned(), 7)].into());
        next.inherit(&kept);
        assert_eq!(next.totals().process, [("requests".to_owned(), 5)].into());
        assert_eq!(next.sum_front(SITE, 0, Detail::Quantiles).latency.count, 0);
        let later = Registry::new();
        later.inherit(&Totals { format: FORMAT + 1, ..kept });
        assert_eq!(later.totals(), Totals::default());
    }
}
