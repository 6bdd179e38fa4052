//! Counts that outlive the process.
//!
//! Owns: which cells are kept, and under which names.
//! Never: keeps what is of a moment: gauges, rates, averages over the last exchanges.
//! Driven by: the binary: once at the start, and again every few seconds.
//! Why: what an earlier process counted is one more worker's cells, whose worker never counts. So sums need to know nothing
//! of it, and what left the configuration is forgotten as it is for everybody.

use std::sync::Arc;

use weir_control::totals::{Counts, FORMAT, Totals};
use weir_control::{EndpointKey, ListenerId, PoolId, SiteId, WorkerId};

use super::cell::Counter;
use super::front_back::{BackCells, FrontCells, TlsCells};
use super::histogram::Distribution;
use super::registry::{BackKey, FrontKey, Registry};
use super::worker::WorkerCells;

/// The worker that earlier processes were. No configuration has so many.
const FORMER: WorkerId = WorkerId(u16::MAX);

/// Cells of which something is kept.
trait Kept: Default {
    /// Shows each counter that is kept: its name, and its number where several have that name.
    fn counters(&self, show: &mut dyn FnMut(&str, usize, &Counter));

    /// Its distribution.
    fn latency(&self) -> Option<&Distribution>;
}

impl Registry {
    /// What was counted so far, by this process and those before it.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let (workers, fronts, backs) = self.cells();
        workers.iter().for_each(|cells| add(&mut totals.process, &**cells));
        for (key, cells) in &fronts {
            if let Some(name) = front_name(*key) {
                add(totals.fronts.entry(name).or_default(), &**cells);
            }
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

fn add<C: Kept>(counts: &mut Counts, cells: &C) {
    cells.counters(&mut |name, at, counter| {
        raise(counts, &numbered(name, at), counter.value(), name == "last")
    });
    if let Some(latency) = cells.latency() {
        latency.each(|bucket, count| raise(counts, &numbered("latency", bucket + 1), count, false));
        raise(counts, "latency.sum", latency.sum(), false);
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

fn take_in<C: Kept>(cells: &Arc<C>, counts: &Counts) {
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    cells.counters(&mut |name, at, counter| counter.set(of(&numbered(name, at))));
    let Some(latency) = cells.latency() else { return };
    let buckets = counts.iter().filter_map(|(name, count)| {
        let bucket: usize = name.strip_prefix("latency.")?.parse().ok()?;
        Some((bucket.checked_sub(1)?, *count))
    });
    latency.inherit(buckets, of("latency.sum"));
}

/// `name`, or `name.at` of one of several, which are counted from one.
fn numbered(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}.{at}") }
}

/// `None`: what is counted there is not kept.
fn front_name(key: FrontKey) -> Option<String> {
    match key {
        FrontKey::Listener(id) => Some(format!("listener {id}")),
        FrontKey::Site(id) => Some(format!("site {id}")),
        FrontKey::Route(..) | FrontKey::Zone(_) => None,
    }
}

fn front_key(name: &str) -> Option<FrontKey> {
    let (kind, id) = name.split_once(' ')?;
    let id = u64::from_str_radix(id, 16).ok()?;
    match kind {
        "listener" => Some(FrontKey::Listener(ListenerId(id))),
        "site" => Some(FrontKey::Site(SiteId(id))),
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
    let mut words = name.split(' ');
    let kind = words.next()?;
    let mut id = || u64::from_str_radix(words.next()?, 16).ok();
    match kind {
        "pool" => Some(BackKey::Pool(PoolId(id()?))),
        "endpoint" => Some(BackKey::Endpoint(PoolId(id()?), EndpointKey(id()?))),
        _ => None,
    }
}

fn all(show: &mut dyn FnMut(&str, usize, &Counter), name: &str, counters: &[Counter]) {
    for (at, counter) in (1..).zip(counters) {
        show(name, at, counter);
    }
}

impl TlsCells {
    fn counters(&self, show: &mut dyn FnMut(&str, usize, &Counter)) {
        show("tls_full", 0, &self.full);
        show("tls_resumed", 0, &self.resumed);
        show("tls_failed", 0, &self.failed);
    }
}

impl Kept for WorkerCells {
    fn counters(&self, show: &mut dyn FnMut(&str, usize, &Counter)) {
        for (name, counter) in [
            ("accepted", &self.accepted),
            ("handled", &self.handled),
            ("requests", &self.requests),
            ("client_in", &self.client_in),
            ("client_out", &self.client_out),
            ("upstream_in", &self.upstream_in),
            ("upstream_out", &self.upstream_out),
            ("panics", &self.panics),
        ] {
            show(name, 0, counter);
        }
        self.tls.counters(show);
    }

    fn latency(&self) -> Option<&Distribution> {
        None
    }
}

impl Kept for FrontCells {
    fn counters(&self, show: &mut dyn FnMut(&str, usize, &Counter)) {
        for (name, counter) in [
            ("opened", &self.opened),
            ("bytes_in", &self.bytes_in),
            ("bytes_out", &self.bytes_out),
            ("passed_on", &self.passed_on),
            ("passed_back", &self.passed_back),
            ("denied_requests", &self.denied_requests),
            ("denied_responses", &self.denied_responses),
            ("request_errors", &self.request_errors),
            ("denied_connections", &self.denied_connections),
            ("denied_sessions", &self.denied_sessions),
            ("intercepted", &self.intercepted),
            ("internal_errors", &self.internal_errors),
            ("failed_rewrites", &self.failed_rewrites),
        ] {
            show(name, 0, counter);
        }
        all(show, "connections_by_version", &self.connections_by_version);
        all(show, "requests_by_version", &self.requests_by_version);
        all(show, "answers", &self.answers);
        all(show, "compression", &self.compression);
        all(show, "cache", &self.cache);
        self.tls.counters(show);
    }

    fn latency(&self) -> Option<&Distribution> {
        Some(&self.latency)
    }
}

impl Kept for BackCells {
    fn counters(&self, show: &mut dyn FnMut(&str, usize, &Counter)) {
        for (name, counter) in [
            ("started", &self.started),
            ("balanced", &self.balanced),
            ("bytes_in", &self.bytes_in),
            ("bytes_out", &self.bytes_out),
            ("taken", &self.taken),
            ("given", &self.given),
            ("denied_requests", &self.denied_requests),
            ("denied_responses", &self.denied_responses),
            ("connect_errors", &self.connect_errors),
            ("response_errors", &self.response_errors),
            ("retries", &self.retries),
            ("redispatches", &self.redispatches),
            ("client_aborts", &self.client_aborts),
            ("server_aborts", &self.server_aborts),
            ("connects", &self.connects),
            ("reuses", &self.reuses),
            ("internal_errors", &self.internal_errors),
            ("failed_rewrites", &self.failed_rewrites),
            ("last", &self.last),
        ] {
            show(name, 0, counter);
        }
        all(show, "answers", &self.answers);
        all(show, "compression", &self.compression);
        all(show, "cache", &self.cache);
        self.tls.counters(show);
    }

    fn latency(&self) -> Option<&Distribution> {
        Some(&self.latency)
    }
}

/// Cells with what they are of.
pub(super) type Cells<K, C> = Vec<(K, Arc<C>)>;

/// Counters of both kinds, to be added up without holding anybody up.
pub(super) type All = (Vec<Arc<WorkerCells>>, Cells<FrontKey, FrontCells>, Cells<BackKey, BackCells>);

#[cfg(test)]
mod tests {
    use super::super::front_back::{AttemptEnd, AttemptPhases, AttemptTimes};
    use super::super::histogram::Detail;
    use super::*;

    const SITE: FrontKey = FrontKey::Site(SiteId(1));
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
        let endpoint = registry.back(WorkerId(worker), ENDPOINT);
        endpoint.attempt(1000 + u64::from(worker), true);
        endpoint.finish(
            AttemptEnd::Answer(200),
            AttemptTimes::default(),
            AttemptPhases { head: Some(700), ..AttemptPhases::default() },
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
        assert_eq!(front.current, 1, "what was open then is closed");
        let (back, _) = next.sum_back(&[ENDPOINT], 1_000_500, Detail::Quantiles);
        assert_eq!((back.total, back.responses.success, back.latency.count), (3, 3, 3));
        assert_eq!(back.last_unix, 1001);
        let mut process = weir_control::snapshot::Process::default();
        next.sum_process(&mut process, 1_000_500);
        assert_eq!((process.connections.accepted, process.connections.active), (3, 1));
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
