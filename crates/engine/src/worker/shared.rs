//! What all workers share.
//!
//! Owns: the process's clock origin, limits on connections, zones and pool states under their stable names, counters,
//! logs.
//! Never: is locked on the hot path: workers read atomics, and ask the tables only when a plan is installed.
//! Driven by: [`crate::Engine`].

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use weir_control::changes::KeyPair;
use weir_control::snapshot::HealthReport;
use weir_control::{Changes, EndpointKey, ListenerId, PoolId, SiteId};
use weir_plan::{Listener, Plan, Service};
use weir_policy::Millis;
use weir_policy::limit::{ConnZone, Pace, Quota, RateZone};
use weir_rt::{Instant, IoChoice, RuntimeConfig, Sender};
use weir_telemetry::Registry;

use crate::worker::endpoints::LivePool;
use crate::worker::options::{EngineOptions, Issued, Pages};

/// What all workers share.
pub(crate) struct Shared {
    /// Name of the machine.
    pub(crate) hostname: String,
    /// Counters.
    pub(crate) registry: Registry,
    /// Log targets.
    pub(crate) logs: crate::logging::Logs,
    /// Pages that are rendered outside the engine.
    pub(crate) pages: Arc<dyn Pages>,
    /// TLS ticket keys, kept over all plans.
    pub(crate) tickets: Option<weir_rt::Tickets>,
    /// When the engine started.
    pub(crate) started_unix: u64,
    /// Draining.
    pub(crate) stopping: AtomicBool,
    /// Plans installed after the first.
    pub(crate) reloads: AtomicU64,
    /// Plans refused.
    pub(crate) reloads_failed: AtomicU64,
    /// Second since 1970 of the last plan installed after the first; zero: none.
    pub(crate) last_reload: AtomicU64,
    /// Workers that accept.
    pub(crate) workers: AtomicU64,
    /// Driver of the workers' sockets, once one has started.
    pub(crate) driver: OnceLock<String>,
    /// Panics that cost a connection.
    pub(crate) panics: AtomicU64,
    /// Panics that cost a worker its connections.
    pub(crate) worker_deaths: AtomicU64,
    /// The threads that verify passwords.
    pub(crate) passwords: crate::worker::passwords::Passwords,
    /// The threads that change files.
    pub(crate) errands: crate::worker::errands::Errands,
    /// The thread that checks endpoints, once there is one, for word of errors in a row that traffic met at one of them.
    /// At most one word of each waits there.
    pub(crate) errors: OnceLock<Sender<(EndpointKey, &'static str)>>,
    /// Spans of requests on their way to a collector.
    pub(crate) spans: crate::worker::span_queue::Spans,
    /// Single requests are shown, whatever the plan says.
    pub(crate) shows_requests: AtomicBool,
    /// The next health check panics: a test's order.
    pub(crate) panic_next_check: AtomicBool,
    /// What was changed since the configuration was read.
    pub(crate) changes: Arc<Changes>,
    /// Certificates that authorities issue.
    pub(crate) issued: Option<Arc<dyn Issued>>,
    /// Whether memory is short.
    pub(crate) memory: crate::worker::memory::Pressure,
    /// The stores of the cache.
    pub(crate) caches: crate::worker::caches::Caches,
    /// What rules keep in the process.
    pub(crate) kept: crate::worker::kept::Kept,
    /// The caches in memory.
    pub(crate) memories: crate::worker::memories::Memories,
    /// What responders said of own certificates.
    pub(crate) staples: crate::worker::staples::Staples,
    /// Lists of keys that change while running.
    pub(crate) lists: crate::worker::lists::Lists,
    /// Stores of keys and values.
    pub(crate) keyvals: crate::worker::keyvals::Keyvals,
    /// What QUIC's connections have in common in the process.
    pub(crate) quic: crate::worker::quic::Places,
    /// Stick tables.
    pub(crate) sticks: crate::worker::sticks::Sticks,
    io: IoChoice,
    origin: Instant,
    pub(super) seed: u64,
    serial: AtomicU64,
    /// Number of the last request that was asked for one.
    request: AtomicU64,
    connections: Arc<Quota>,
    /// What may begin in a second.
    pub(super) paces: crate::worker::paces::ProcessPaces,
    /// A bound or a pause was given while running.
    pub(super) limited: AtomicBool,
    /// Plans that were installed, for as long as anything holds on to them.
    plans: Mutex<Vec<Weak<Plan>>>,
    state: Mutex<State>,
}

/// What the checks of an endpoint have found so far, for pages.
#[derive(Clone)]
pub(crate) struct Checked {
    /// Its last result, in HAProxy's words.
    pub(crate) report: HealthReport,
    /// When it last went up or down.
    pub(crate) changed: Millis,
    /// Time spent down so far.
    pub(crate) downtime: Duration,
}

/// State under stable names.
#[derive(Default)]
pub(super) struct State {
    pools: HashMap<PoolId, Arc<LivePool>>,
    rates: HashMap<Box<str>, (Zone, Arc<RateZone>)>,
    conns: HashMap<Box<str>, (Zone, Arc<ConnZone>)>,
    pub(super) listeners: HashMap<ListenerId, Quotas>,
    sites: HashMap<SiteId, Arc<Quota>>,
    paces: HashMap<SiteId, Arc<Pace>>,
    checks: HashMap<EndpointKey, Checked>,
}

/// What must stay the same for a zone to keep its state.
#[derive(PartialEq, Eq, Clone)]
struct Zone {
    key: weir_plan::Template,
    size: u64,
}

/// What a connection to a listener counts against.
#[derive(Clone)]
pub(super) struct Quotas {
    pub(super) own: Arc<Quota>,
    /// Of its site, where that has a bound.
    pub(super) site: Option<Arc<Quota>>,
    /// Sessions that its site lets begin in a second, where that has a bound.
    pub(super) pace: Option<Arc<Pace>>,
    /// Nothing is accepted until somebody says so.
    pub(super) held: bool,
}

impl Shared {
    /// For a process that starts.
    pub(crate) fn new(options: EngineOptions, plan: &Plan) -> std::io::Result<Self> {
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self {
            hostname,
            registry: options.registry,
            logs: crate::logging::Logs::start(options.logs, plan)?,
            pages: options.pages,
            tickets: weir_rt::Tickets::new().ok(),
            started_unix: unix_seconds(),
            stopping: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            reloads_failed: AtomicU64::new(0),
            last_reload: AtomicU64::new(0),
            workers: AtomicU64::new(0),
            driver: OnceLock::new(),
            panics: AtomicU64::new(0),
            worker_deaths: AtomicU64::new(0),
            passwords: crate::worker::passwords::Passwords::default(),
            errands: crate::worker::errands::Errands::default(),
            errors: OnceLock::new(),
            spans: crate::worker::span_queue::Spans::default(),
            shows_requests: AtomicBool::new(false),
            panic_next_check: AtomicBool::new(false),
            changes: options.changes,
            issued: options.issued,
            memory: crate::worker::memory::Pressure::default(),
            caches: crate::worker::caches::Caches::default(),
            kept: crate::worker::kept::Kept::default(),
            memories: crate::worker::memories::Memories::default(),
            staples: crate::worker::staples::Staples::default(),
            lists: crate::worker::lists::Lists::default(),
            keyvals: crate::worker::keyvals::Keyvals::default(),
            quic: crate::worker::quic::Places::default(),
            sticks: crate::worker::sticks::Sticks::default(),
            io: options.io,
            // Zero means "never" in policies.
            origin: Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or_else(Instant::now),
            seed: RandomState::new().hash_one(std::process::id()),
            serial: AtomicU64::new(0),
            request: AtomicU64::new(0),
            connections: Arc::new(Quota::new(u64::MAX)),
            paces: crate::worker::paces::ProcessPaces::default(),
            limited: AtomicBool::new(false),
            plans: Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// What is shown in place of a plan's certificate: what was given while running, or issued.
    pub(crate) fn pair_in_place_of(&self, name: &str) -> Option<KeyPair> {
        let issued = || self.issued.as_ref().and_then(|issued| issued.pair(name));
        self.changes.certificate(name).or_else(issued)
    }

    /// Settings of a worker's runtime.
    pub(crate) fn runtime_config(self: &Arc<Self>) -> RuntimeConfig {
        let shared = self.clone();
        RuntimeConfig {
            io: self.io,
            on_panic: Some(Box::new(move |message: &str| {
                shared.panics.fetch_add(1, Ordering::Relaxed);
                shared.log_process_error(&format!("a connection's task panicked and was closed: {message}"));
            })),
            ..RuntimeConfig::default()
        }
    }

    /// Counts and tells of a panic that was caught in what goes on afterwards.
    pub(crate) fn note_panic(&self, doing: &str, payload: &(dyn std::any::Any + Send)) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        let message = panic_message(payload);
        self.log_process_error(&format!("{doing} panicked, and goes on: {message}"));
    }

    /// A seed for choices; not for secrets.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of a request, from 1.
    pub(crate) fn next_request(&self) -> u64 {
        self.request.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of the next connection.
    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An instant for policies.
    pub(crate) fn millis(&self, at: Instant) -> Millis {
        Millis(at.saturating_duration_since(self.origin).as_millis() as u64)
    }

    /// The instant that a policy named.
    pub(crate) fn instant(&self, at: Millis) -> Instant {
        self.origin + Duration::from_millis(at.0)
    }

    /// Writes a line about no particular request to the error log.
    pub(crate) fn log_process_error(&self, message: &str) {
        self.logs.process_error(message);
    }

    /// Says which way files of middling size go out, and what it goes by.
    pub(crate) fn tell_sendfile(&self, cost: std::io::Result<weir_rt::SendfileCost>) {
        let line = match cost {
            Ok(cost) => format!(
                "files of 60 to 128 KB go out by {}: 100 KB cost {:.1} us by sendfile, {:.1} us by a copy",
                if cost.sendfile_pays() { "sendfile" } else { "copies" },
                cost.sendfile.as_secs_f64() * 1e6,
                cost.copy.as_secs_f64() * 1e6,
            ),
            Err(error) => {
                format!("files of 60 to 128 KB go out by copies: cannot compare with sendfile: {error}")
            }
        };
        self.logs.event(weir_telemetry::Level::Debug, &line);
    }

    /// Bounds client connections of the process, until the next plan.
    pub(crate) fn bound_connections(&self, most: u64) {
        self.connections.set_most(most);
    }

    /// The bound on client connections of the process.
    pub(crate) fn most_connections(&self) -> Option<u64> {
        Some(self.connections.most()).filter(|most| *most < u64::MAX)
    }

    /// Whether a limit on client connections is reached.
    pub(crate) fn is_full(&self, plan: &Plan, listener: &Listener) -> bool {
        if self.memory.is_short() {
            return true;
        }
        if self.connections.full() {
            return true;
        }
        let of_site = site_limit(plan, listener).is_some();
        let given = self.limited.load(Ordering::Relaxed);
        if !of_site && !given && listener.max_connections.is_none() {
            return false;
        }
        let state = self.state();
        state.listeners.get(&listener.id).is_some_and(|one| {
            one.held || one.own.full() || one.site.as_ref().is_some_and(|site| site.full())
        })
    }

    /// Client connections of the process.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.used()
    }

    /// What client connections of a listener count against.
    pub(crate) fn connection_quotas(&self, listener: ListenerId) -> Box<[Arc<Quota>]> {
        let own = self.state().listeners.get(&listener).cloned();
        let own = own.into_iter().flat_map(|quotas| [Some(quotas.own), quotas.site]).flatten();
        std::iter::once(self.connections.clone()).chain(own).collect()
    }

    /// The count of client connections of a listener.
    pub(crate) fn listener_quota(&self, listener: ListenerId) -> Option<Arc<Quota>> {
        self.state().listeners.get(&listener).map(|quotas| quotas.own.clone())
    }

    /// The most client connections of a site or TCP service at once, as far as listeners tell.
    pub(crate) fn peak_of_site(&self, plan: &Plan, site: SiteId) -> u64 {
        let state = self.state();
        if let Some(quota) = state.sites.get(&site) {
            return quota.peak();
        }
        let peaks = of_site(plan, site)
            .map(|listener| state.listeners.get(&listener.id).map(|quotas| quotas.own.peak()));
        peaks.sum::<Option<u64>>().unwrap_or(u64::MAX)
    }

    /// What the checks of an endpoint last found.
    pub(crate) fn checked(&self, endpoint: EndpointKey) -> Option<Checked> {
        self.state().checks.get(&endpoint).cloned()
    }

    /// Keeps what the checks of an endpoint found.
    pub(crate) fn set_checked(&self, endpoint: EndpointKey, checked: Checked) {
        self.state().checks.insert(endpoint, checked);
    }

    /// Forgets what was found of endpoints that are checked no more.
    pub(crate) fn keep_checked(&self, keep: impl Fn(EndpointKey) -> bool) {
        self.state().checks.retain(|key, _| keep(*key));
    }

    /// The endpoints of the plan's pools. State is taken over by name.
    pub(crate) fn pools_for(&self, plan: &Plan) -> Vec<Arc<LivePool>> {
        let now = self.millis(Instant::now());
        let mut state = self.state();
        let pools: Vec<_> = plan
            .pools
            .iter()
            .map(|pool| {
                let old = state.pools.get(&pool.id).map(|old| &**old);
                let changed = self.changes.pool(&pool.name);
                (pool.id, Arc::new(LivePool::new(pool, old, changed, now, self.addresses_of())))
            })
            .collect();
        state.pools = pools.iter().cloned().collect();
        pools.into_iter().map(|(_, shared)| shared).collect()
    }

    /// Where names were found.
    pub(crate) fn addresses_of(&self) -> impl Fn(&weir_plan::Resolve) -> Option<Vec<weir_control::Spot>> {
        |resolve| self.changes.addresses(&resolve.described())
    }

    /// Zones of request rates, taken over by name as long as key and size stay.
    pub(crate) fn rates_for(&self, plan: &Plan) -> Vec<Arc<RateZone>> {
        let second = Duration::from_secs(1000);
        let mut state = self.state();
        let zones: Vec<_> = plan
            .req_zones
            .iter()
            .map(|zone| {
                let same = Zone { key: zone.key.clone(), size: zone.size };
                let old = state.rates.get(&zone.name).filter(|(old, _)| *old == same);
                let made = match old {
                    Some((_, old)) => old.retuned(zone.rate_milli, second),
                    None => RateZone::new(zone.size as usize, zone.rate_milli, second, self.seed),
                };
                (zone.name.clone(), (same, Arc::new(made)))
            })
            .collect();
        state.rates = zones.iter().cloned().collect();
        zones.into_iter().map(|(_, (_, zone))| zone).collect()
    }

    /// Zones of concurrency, taken over by name as long as key and size stay.
    pub(crate) fn conns_for(&self, plan: &Plan) -> Vec<Arc<ConnZone>> {
        let mut state = self.state();
        let zones: Vec<_> = plan
            .conn_zones
            .iter()
            .map(|zone| {
                let same = Zone { key: zone.key.clone(), size: zone.size };
                let old =
                    state.conns.get(&zone.name).filter(|(old, _)| *old == same).map(|(_, old)| old.clone());
                let made = old.unwrap_or_else(|| Arc::new(ConnZone::new(zone.size as usize, self.seed)));
                (zone.name.clone(), (same, made))
            })
            .collect();
        state.conns = zones.iter().cloned().collect();
        zones.into_iter().map(|(_, (_, zone))| zone).collect()
    }

    /// Notes a plan that is about to run.
    pub(crate) fn note_plan(&self, plan: &Arc<Plan>) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|plan| plan.strong_count() > 0);
        plans.push(Arc::downgrade(plan));
    }

    /// Plans in memory: the one that runs, and those that requests which began before still need.
    pub(crate) fn live_plans(&self) -> u64 {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.iter().filter(|plan| plan.strong_count() > 0).count() as u64
    }

    /// Whether workers that run this plan note single requests.
    pub(crate) fn shows_requests(&self, plan: &Plan) -> bool {
        plan.process.shows_requests || self.shows_requests.load(Ordering::Relaxed)
    }

    /// Sets the limits that a plan names.
    pub(crate) fn set_limits(&self, plan: &Plan) {
        self.connections.set_most(plan.process.max_connections.unwrap_or(u64::MAX));
        self.memory.set_budget(plan.process.memory_budget);
        self.limited.store(false, Ordering::Relaxed);
        let mut state = self.state();
        state.listeners.retain(|id, _| plan.listeners.iter().any(|listener| listener.id == *id));
        for listener in &plan.listeners {
            let most = listener.max_connections.unwrap_or(u64::MAX);
            // A site with a bound of its own shares it among its listeners; connections that began without one count
            // for nobody's.
            let site = site_limit(plan, listener).map(|(site, most)| {
                let quota = state.sites.entry(site).or_insert_with(|| Arc::new(Quota::new(most))).clone();
                quota.set_most(most);
                quota
            });
            let pace = session_rate(plan, listener).map(|(site, most)| {
                let pace = state.paces.entry(site).or_default().clone();
                pace.set_most(most);
                pace
            });
            let quotas = state.listeners.entry(listener.id).or_insert_with(|| Quotas {
                own: Arc::new(Quota::new(most)),
                site: None,
                pace: None,
                held: false,
            });
            quotas.own.set_most(most);
            (quotas.site, quotas.pace, quotas.held) = (site, pace, false);
        }
        self.paces.set(&plan.process.paces, state.listeners.values().any(|one| one.pace.is_some()));
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bound of the site or service that a listener leads to, where there is just one.
fn site_limit(plan: &Plan, listener: &Listener) -> Option<(SiteId, u64)> {
    match &listener.service {
        Service::Http(hosts) => {
            let site = plan.site(hosts.default_value());
            site.max_connections.map(|most| (site.id, most))
        }
        Service::Tcp(tcp) => {
            let service = plan.tcp_service(*tcp);
            service.max_connections.map(|most| (service.id, most))
        }
    }
}

/// Sessions that the site or service of a listener lets begin in a second.
fn session_rate(plan: &Plan, listener: &Listener) -> Option<(SiteId, u32)> {
    match &listener.service {
        Service::Http(hosts) => {
            let site = plan.site(hosts.default_value());
            site.session_rate.map(|most| (site.id, most))
        }
        Service::Tcp(tcp) => {
            let service = plan.tcp_service(*tcp);
            service.session_rate.map(|most| (service.id, most))
        }
    }
}

/// Listeners that lead to a site.
pub(super) fn of_site(plan: &Plan, site: SiteId) -> impl Iterator<Item = &Listener> {
    plan.listeners.iter().filter(move |listener| match &listener.service {
        Service::Http(hosts) => plan.site(hosts.default_value()).id == site,
        Service::Tcp(service) => plan.tcp_service(*service).id == site,
    })
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without message")
}
