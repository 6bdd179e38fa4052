//! The state of the whole process at one moment.
//!
//! Owns: the gathering: sums of counters, pools' standing, facts of the process.
//! Never: renders; never changes what it looks at.
//! Driven by: pages, and the binary through [`crate::Engine::snapshot`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use weir_control::snapshot::{
    Back, Connections, Endpoint, EndpointSettings, EndpointState, Front, Group, HealthReport, Listener,
    ListenerState, Pool, Process, Reason, Route, Site, Snapshot,
};
use weir_control::{EndpointKey, PoolId};
use weir_expr::check::FirstState;
use weir_expr::settings::Spread;
use weir_plan::{Address, EndpointSet, Plan, ProxyTarget, Service, TcpAction};
use weir_policy::pool::{Balance, PoolShared, Standing};
use weir_telemetry::{BackKey, Detail, FrontKey};

use crate::logging::unix_millis;
use crate::worker::endpoints::Live;
use crate::worker::prepared::Prepared;
use crate::worker::shared::Shared;
use crate::worker::zone_figures;

/// Endpoints whose distributions are told in full, in all: each may have kilobytes of them.
const MOST_DETAILED: usize = 512;

/// Everything, as a plan names it. In detail: of sites and pools, and of endpoints where there are not many.
pub(crate) fn take(shared: &Shared, prepared: &Prepared, detail: Detail) -> Snapshot {
    let plan = &*prepared.plan;
    let now = unix_millis();
    let mut process = process(shared);
    process.max_connections = shared.most_connections().unwrap_or(0);
    let mut sites = sites(shared, plan, now, detail);
    // HAProxy counts proxies from one, and the first is its own.
    let first_pool = sites.len() as u32 + 2;
    let in_tcp = tcp_pools(plan);
    let endpoints: usize = plan.pools.iter().map(|pool| pool.set.endpoints.len()).sum();
    let of_endpoints = if endpoints > MOST_DETAILED { Detail::Quantiles } else { detail };
    let details = [detail, of_endpoints];
    let pools = (first_pool..).zip(plan.pools.iter().enumerate()).map(|(number, (at, pool))| {
        let live = prepared.pools.get(at).map(|live| (live.now(), live.counted()));
        let mode = if in_tcp.contains(&pool.id) { "tcp" } else { "http" };
        one_pool(shared, pool, live, Facts { number, mode, now, uptime: process.uptime_ms, details })
    });
    let mut pools = pools.collect();
    if !plan.roster.is_empty() {
        roster(shared, prepared, &mut sites, &mut pools, (now, process.uptime_ms));
    }
    let routes = routes(shared, now, detail);
    let zones = zone_figures::take(shared, prepared, now);
    let issued = shared.issued.as_ref().map(|issued| issued.figures()).unwrap_or_default();
    Snapshot { pools, listeners: listeners(shared, plan, now), sites, process, routes, zones, issued }
}

/// Numbers and orders proxies as the configuration lists them, and adds the pools that have no endpoint and so are none.
fn roster(
    shared: &Shared,
    prepared: &Prepared,
    sites: &mut [Site],
    pools: &mut Vec<Pool>,
    (now, uptime): (u64, u64),
) {
    let plan = &*prepared.plan;
    let mut ordered = Vec::with_capacity(pools.len());
    for (place, one) in (0..).zip(&plan.roster) {
        if let Some(site) = sites.iter_mut().find(|site| one.front && site.name == one.name) {
            (site.number, site.place) = (one.number, place);
        }
        if one.back.is_none() {
            continue;
        }
        let known = pools.iter().position(|pool| pool.name == one.name);
        let mode = if one.http { "http" } else { "tcp" };
        let mut pool = match known {
            Some(at) => pools.swap_remove(at),
            None => {
                let details = [Detail::Quantiles; 2];
                nobodys_pool(shared, &one.name, Facts { number: one.number, mode, now, uptime, details })
            }
        };
        (pool.number, pool.place) = (one.number, place);
        pool.mode = mode.to_owned();
        if let Some(at) = plan.pools_by_id.get(&pool.id).filter(|at| at.at() < prepared.pools.len()) {
            let live = prepared.pools[at.at()].now();
            for (endpoint, config) in pool.endpoints.iter_mut().zip(live.set.config.endpoints()) {
                endpoint.number = config.id;
            }
        }
        ordered.push(pool);
    }
    *pools = ordered;
    sites.sort_by_key(|site| site.place);
    let fronts: HashMap<u32, &Front> = sites.iter().map(|site| (site.number, &site.front)).collect();
    for (pool, back) in pools.iter_mut().zip(plan.roster.iter().filter_map(|one| one.back.as_ref())) {
        let feeders = || back.feeders.iter().filter_map(|number| fronts.get(number));
        // Of frontends without a bound there is no tenth.
        let sum = feeders().map(|front| front.limit).sum::<Option<u64>>();
        pool.back.limit = back.full.or(sum.map(|sum| sum.div_ceil(10).max(1)));
        if pool.endpoints.is_empty() {
            pool.back.peak = pool.back.peak.min(feeders().map(|front| front.peak).sum());
        }
    }
}

/// A pool without endpoints: what was answered in its name.
fn nobodys_pool(shared: &Shared, name: &str, facts: Facts) -> Pool {
    let id = PoolId::from_name(name);
    let (back, _) = shared.registry.sum_back(&[BackKey::Pool(id)], facts.now, facts.details[0]);
    Pool {
        id,
        name: name.to_owned(),
        number: facts.number,
        place: facts.number,
        mode: facts.mode.to_owned(),
        balance: "roundrobin".to_owned(),
        cookie: None,
        back,
        last_change_ms: facts.uptime,
        downtime_ms: 0,
        went_down: 0,
        endpoints: Vec::new(),
        group: None,
    }
}

/// The process alone.
pub(crate) fn process(shared: &Shared) -> Process {
    let now = unix_millis();
    let reloads = shared.reloads.load(Relaxed);
    let [spans_exported, spans_dropped, spans_failed] = shared.spans.totals();
    let mut process = Process {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        node: shared.hostname.clone(),
        pid: std::process::id(),
        workers: shared.workers.load(Relaxed) as u32,
        driver: shared.driver.get().cloned().unwrap_or_default(),
        sendfile_pays: weir_rt::sendfile_cost().map(weir_rt::SendfileCost::sendfile_pays),
        started_unix: shared.started_unix,
        uptime_ms: now.saturating_sub(shared.started_unix * 1000),
        plan: reloads + 1,
        reloads,
        reloads_failed: shared.reloads_failed.load(Relaxed),
        last_reload_unix: shared.last_reload.load(Relaxed),
        stopping: shared.stopping.load(Relaxed),
        dropped_logs: shared.logs.dropped(),
        spans_exported,
        spans_dropped,
        spans_failed,
        resident_bytes: resident_bytes(),
        plans: shared.live_plans(),
        worker_deaths: shared.worker_deaths.load(Relaxed),
        memory_budget: shared.memory.budget(),
        memory_in_use: crate::worker::memory::in_use(),
        shed: shared.memory.shed.load(Relaxed),
        descriptors: descriptors(),
        descriptor_limit: rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(0),
        ..Process::default()
    };
    shared.registry.sum_process(&mut process, now);
    process.panics += shared.panics.load(Relaxed);
    process
}

/// The connections of clients alone.
pub(crate) fn connections(shared: &Shared) -> Connections {
    let mut process = Process::default();
    shared.registry.sum_process(&mut process, unix_millis());
    process.connections
}

/// Second number of `/proc/self/statm`, in pages (proc(5)); zero where there is no `/proc`.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn descriptors() -> u64 {
    // One of them is the folder being read.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| (entries.count() as u64).saturating_sub(1))
}

fn sites(shared: &Shared, plan: &Plan, now: u64, detail: Detail) -> Vec<Site> {
    let front = |id, limit: Option<u64>, rate: Option<u32>| {
        let limit = shared.bound_of_site(plan, id).or(limit).or(plan.process.max_connections);
        let front = shared.registry.sum_front(FrontKey::Site(id), now, detail);
        // The most of each worker may have been at other times than that of the others.
        let at_most = shared.peak_of_site(plan, id);
        let peak = front.peak.min(at_most).max(front.current);
        Front { limit, peak, rate_limit: rate.unwrap_or(0).into(), ..front }
    };
    let http = plan
        .sites
        .iter()
        .map(|site| (site.id, &site.name, "http", (site.max_connections, site.session_rate)));
    let tcp = plan.tcp.iter().map(|tcp| (tcp.id, &tcp.name, "tcp", (tcp.max_connections, tcp.session_rate)));
    (2..)
        .zip(http.chain(tcp))
        .map(|(number, (id, name, mode, (limit, rate)))| Site {
            id,
            name: name.to_string(),
            number,
            place: number,
            mode: mode.to_owned(),
            paused: shared.is_site_held(plan, id),
            front: front(id, limit, rate),
        })
        .collect()
}

fn routes(shared: &Shared, now: u64, detail: Detail) -> Vec<Route> {
    let all = shared.registry.routes().into_iter();
    all.map(|(site, route, name)| {
        let front = shared.registry.sum_front(FrontKey::Route(site, route), now, detail);
        Route { site, name, front }
    })
    .collect()
}

fn listeners(shared: &Shared, plan: &Plan, now: u64) -> Vec<Listener> {
    let one = |listener: &weir_plan::Listener| {
        let mut front = shared.registry.sum_front(FrontKey::Listener(listener.id), now, Detail::Quantiles);
        front.limit = listener.max_connections;
        let full = listener.max_connections.is_some_and(|most| front.current >= most);
        let transport = match &listener.address {
            Address::Tcp(_) => "tcp",
            Address::Udp(_) => "udp",
            Address::Unix(_) => "unix",
            Address::Inherited(_) => "inherited",
        };
        Listener {
            id: listener.id,
            name: listener.name.to_string(),
            protocol: format!("{transport}{}", if listener.tls.is_some() { "+tls" } else { "" }),
            state: if full { ListenerState::Full } else { ListenerState::Open },
            sites: match &listener.service {
                Service::Http(hosts) => {
                    let all: HashSet<_> = hosts.values().chain([hosts.default_value()]).collect();
                    let mut ids: Vec<_> = all.into_iter().map(|site| plan.site(site).id).collect();
                    ids.sort_unstable();
                    ids
                }
                Service::Tcp(service) => vec![plan.tcp_service(*service).id],
            },
            front,
        }
    };
    plan.listeners.iter().map(one).collect()
}

fn tcp_pools(plan: &Plan) -> HashSet<PoolId> {
    let mut pools = HashSet::new();
    plan.tcp.iter().for_each(|tcp| note_pools(plan, &tcp.action, &mut pools));
    pools
}

fn note_pools(plan: &Plan, action: &TcpAction, pools: &mut HashSet<PoolId>) {
    match action {
        TcpAction::Proxy(proxy) => {
            if let ProxyTarget::Pool(pool) = proxy.target {
                pools.insert(plan.pool(pool).id);
            }
        }
        TcpAction::Choose(cases) => cases.iter().for_each(|case| note_pools(plan, &case.action, pools)),
        TcpAction::Respond(_) | TcpAction::Pass(_) | TcpAction::Nobody => {}
    }
}

/// What a pool's endpoints have in common.
#[derive(Clone, Copy)]
struct Facts {
    number: u32,
    mode: &'static str,
    now: u64,
    uptime: u64,
    /// Of pools, and of endpoints.
    details: [Detail; 2],
}

fn one_pool(
    shared: &Shared,
    pool: &weir_plan::Pool,
    live: Option<(Live, Vec<EndpointKey>)>,
    facts: Facts,
) -> Pool {
    let (live, counted) = live.unzip();
    let set = live.as_ref().map_or(&pool.set, |live| &live.set);
    let state = live.as_ref().map(|live| &*live.state);
    let endpoints: Vec<Endpoint> =
        (0..set.endpoints.len()).map(|at| one_endpoint(shared, pool, (set, state), at, facts)).collect();
    let keys = counted.unwrap_or_default().into_iter().map(|key| BackKey::Endpoint(pool.id, key));
    let keys: Vec<BackKey> = keys.chain([BackKey::Pool(pool.id)]).collect();
    let (mut back, _) = shared.registry.sum_back(&keys, facts.now, facts.details[0]);
    let peaks: u64 = endpoints.iter().map(|endpoint| endpoint.back.peak).sum();
    if !endpoints.is_empty() {
        back.peak = back.peak.min(peaks).max(back.current);
    }
    if let Some(state) = state {
        back.queued = state.waiting() as u64;
        back.queued_peak = state.waiting_peak() as u64;
    }
    let last_up = |endpoint: &&Endpoint| endpoint.state == EndpointState::Up;
    Pool {
        id: pool.id,
        name: pool.name.to_string(),
        number: facts.number,
        place: facts.number,
        mode: facts.mode.to_owned(),
        balance: balance(set.config.balance()).to_owned(),
        cookie: pool.sticky.as_ref().map(|sticky| sticky.cookie.to_string()),
        back,
        last_change_ms: endpoints
            .iter()
            .map(|endpoint| endpoint.last_change_ms)
            .max()
            .unwrap_or(facts.uptime),
        // The pool was down only while all of its endpoints were.
        downtime_ms: endpoints.iter().map(|endpoint| endpoint.downtime_ms).min().unwrap_or(0),
        went_down: u64::from(endpoints.iter().find(last_up).is_none() && !endpoints.is_empty()),
        endpoints,
        group: pool.group.as_ref().map(|group| Group {
            name: group.name.clone(),
            zone: group.zone.clone(),
            tcp: group.tcp,
            queue_limit: pool.queue.map(|queue| queue.max.map_or(0, u64::from)),
            bytes: group.bytes,
        }),
    }
}

fn one_endpoint(
    shared: &Shared,
    pool: &weir_plan::Pool,
    (set, state): (&EndpointSet, Option<&PoolShared>),
    at: usize,
    facts: Facts,
) -> Endpoint {
    let endpoint = &set.endpoints[at];
    let configured = &set.config.endpoints()[at];
    let member = state.and_then(|state| state.members().get(at));
    let standing = state.map_or(Standing::Up, |state| state.standing(&set.config, at));
    let key = BackKey::Endpoint(pool.id, endpoint.key);
    let (mut back, idle): (Back, u64) = shared.registry.sum_back(&[key], facts.now, facts.details[1]);
    // Without counts of the process there is only the sum of what each worker had at some time.
    if let Some(load) = member.map(|member| member.load()).filter(|load| load.peak() > 0) {
        back.peak = back.peak.min(u64::from(load.peak())).max(back.current);
    }
    let most = member.and_then(|member| member.max_conns()).unwrap_or(configured.max_conns);
    back.limit = (most > 0).then_some(u64::from(most));
    back.queued = member.map_or(0, |member| u64::from(member.waiting()));
    let checked = shared.checked(endpoint.tracks.unwrap_or(endpoint.key));
    let now = shared.millis(weir_rt::Instant::now());
    let begins_down =
        |check: &weir_plan::HealthCheck| matches!(check.first, FirstState::Down | FirstState::FullyDown);
    let unchecked = checked.is_none() && endpoint.check.as_deref().is_some_and(begins_down);
    let changed = checked.as_ref().map(|checked| now.since(checked.changed));
    let downtime = checked.as_ref().map(|checked| checked.downtime);
    let weight = member.and_then(|member| member.weight()).unwrap_or(configured.weight);
    Endpoint {
        key: endpoint.key,
        name: endpoint.name.to_string(),
        number: at as u32 + 1,
        address: endpoint.address.as_ref().map(ToString::to_string).unwrap_or_default(),
        cookie: endpoint.cookie.as_ref().map(ToString::to_string),
        state: match standing {
            Standing::Up => EndpointState::Up,
            Standing::Draining => EndpointState::Draining,
            Standing::Down => EndpointState::Down,
            Standing::Maintenance => EndpointState::Maintenance,
        },
        reason: match (&endpoint.address, state) {
            (None, _) => Some(Reason::Unresolved),
            (Some(_), None) => None,
            (Some(_), Some(state)) => state.reason(&set.config, at).or_else(|| {
                let max_fails = configured.max_fails;
                let failed = member.is_some_and(|member| max_fails > 0 && member.load().fails() >= max_fails);
                failed.then_some(Reason::Failures)
            }),
        },
        weight,
        user_weight: weight,
        written_weight: configured.weight,
        asked: member.map(|member| member.admin()).unwrap_or_default(),
        disabled: configured.down,
        tls: endpoint.tls.is_some(),
        host: endpoint.resolve.as_ref().map(|resolve| resolve.host.to_string()),
        backup: configured.backup,
        throttle: None,
        queue_limit: endpoint.max_queue.map(u64::from),
        used: back.current,
        back,
        health: match (checked, &endpoint.check) {
            (Some(checked), _) => Some(checked.report),
            (None, Some(check)) => Some(HealthReport {
                last_status: "INI".into(),
                last_text: "the first check is to come".into(),
                rise: check.rise,
                fall: check.fall,
                level: check.rise,
                errors: check.observe.map(|_| 0),
                ..HealthReport::default()
            }),
            (None, None) => None,
        },
        last_change_ms: changed.unwrap_or(facts.uptime),
        downtime_ms: downtime.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        idle,
        idle_limit: Some(u64::from(pool.keepalive.idle)),
        fails: member.map_or(0, |member| member.load().fails()),
        settings: EndpointSettings {
            id: configured.id,
            max_fails: configured.max_fails,
            fail_timeout_ms: u64::try_from(configured.fail_timeout.as_millis()).unwrap_or(u64::MAX),
            max_connections: configured.max_conns,
            slow_start_ms: u64::try_from(configured.slow_start.as_millis()).unwrap_or(u64::MAX),
            failed: state.is_some_and(|state| state.is_failed(&set.config, at, now)),
            unchecked,
            drains: configured.drains,
            resolved: endpoint.resolve.as_ref().is_some_and(|one| one.spread == Spread::Each),
        },
    }
}

/// The method's word in the language that has it.
fn balance(balance: Balance) -> &'static str {
    match balance {
        Balance::RoundRobin => "roundrobin",
        Balance::StaticRoundRobin => "static-rr",
        Balance::LeastConn => "least_conn",
        Balance::LeastConnOldest => "leastconn",
        Balance::LeastTime => "least_time",
        Balance::First => "first",
        Balance::IpHash => "ip_hash",
        Balance::HashModulo => "hash",
        Balance::HashKetama => "hash consistent",
        Balance::Random(_) => "random",
        Balance::Maglev => "maglev",
        Balance::PeakEwma(_) => "peak_ewma",
        Balance::Map(_) => "hash map-based",
        Balance::Ring(_) => "hash ring",
    }
}
