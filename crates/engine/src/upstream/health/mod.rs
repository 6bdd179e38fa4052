//! Active checks of endpoints, and ejection for what traffic meets there.
//!
//! Owns: a side thread with its own runtime, a task for each endpoint that is checked or has an agent, and for each pool whose
//! endpoints are compared.
//! Never: chooses endpoints: results are written to the pools' shared state, which workers read.
//! Driven by: [`crate::Engine`], at each new plan; `Crew::check_anew`, when endpoints were replaced.
//! Why: `policy::health` decides what a result means; `script` does the talking.

mod agent;
mod application;
mod errors;
mod grpc;
mod http2;
mod judge;
mod outliers;
mod peer;
mod result;
mod script;
mod states;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use weir_control::snapshot::HealthReport;
use weir_control::{EndpointKey, PoolId};
use weir_plan::{Endpoint, HealthCheck};
use weir_policy::Millis;
use weir_policy::health::{Health, HealthConfig, Transition};
use weir_policy::pool::Standing;
use weir_rt::{Receiver, Runtime, Sender};
use weir_telemetry::Level;

use self::outliers::Compared;
use self::result::{Failed, Passed};
use self::states::{Checks, States};
use crate::worker::command::Crew;
use crate::worker::endpoints::Live;
use crate::worker::lasting;
use crate::worker::prepared::Prepared;
use crate::worker::race::{Either, Signal, race};
use crate::worker::shared::{Checked, Shared};

/// Plans, or word that endpoints of the one at hand were replaced.
type Orders = Receiver<Option<Arc<Prepared>>>;

/// Checks the endpoints of a plan, if any are to be. Those that stay keep their state.
///
/// # Errors
/// No thread could be started.
pub(crate) fn follow(shared: &Arc<Shared>, crew: &Arc<Crew>, prepared: &Arc<Prepared>) -> Result<(), String> {
    if crew.checks.get().is_none() && is_any_watched(prepared) {
        let _ = crew.checks.set(start_thread(shared.clone(), Arc::downgrade(crew))?);
    }
    crew.check_anew(Some(prepared));
    Ok(())
}

/// Begins to check endpoints that were given, where there were none to be checked before.
///
/// # Errors
/// No thread could be started.
pub(crate) fn begin_late(
    shared: &Arc<Shared>,
    crew: &Arc<Crew>,
    prepared: &Arc<Prepared>,
) -> Result<(), String> {
    match crew.checks.get().is_none() && is_any_watched(prepared) {
        true => follow(shared, crew, prepared),
        false => Ok(()),
    }
}

fn is_any_watched(prepared: &Prepared) -> bool {
    prepared.plan.pools.iter().any(|pool| pool.outliers.is_some())
        || prepared.pools.iter().any(|pool| pool.now().set.endpoints.iter().any(Endpoint::is_watched))
}

fn start_thread(shared: Arc<Shared>, crew: Weak<Crew>) -> Result<Sender<Option<Arc<Prepared>>>, String> {
    let (orders, mut receiver) = weir_rt::mailbox();
    let (errors, mut met) = weir_rt::mailbox();
    let _ = shared.errors.set(errors);
    std::thread::Builder::new()
        .name("weir-health".into())
        .spawn(move || {
            // Both outlive a panic: an endpoint that was down must be known to be, or it would never come up again.
            let states: States = Rc::default();
            let mut current = None;
            let note = |payload: &_| shared.note_panic("checking endpoints", payload);
            lasting::work(note, || {
                let Ok(runtime) = Runtime::new(shared.runtime_config()) else {
                    return shared.log_process_error("health checks cannot run: no I/O driver");
                };
                runtime.block_on(serve((&shared, &crew), (&mut receiver, &mut met), &states, &mut current));
            });
        })
        .map_err(|error| format!("cannot start the thread of health checks: {error}"))?;
    Ok(orders)
}

/// Checks the endpoints of the newest plan, until no newer one can come.
async fn serve(
    (shared, crew): (&Arc<Shared>, &Weak<Crew>),
    (orders, errors): (&mut Orders, &mut Receiver<(EndpointKey, &'static str)>),
    states: &States,
    current: &mut Option<Arc<Prepared>>,
) {
    let begin = |current: &Option<Arc<Prepared>>| match current {
        Some(prepared) => begin((shared, crew), prepared, states),
        None => Running::default(),
    };
    let mut running = begin(current);
    loop {
        match race(orders.recv(), errors.recv()).await {
            Either::Left(Some(order)) => {
                if order.is_some() {
                    *current = order;
                }
                running.stop();
                running = begin(current);
            }
            Either::Right(Some((endpoint, last))) => running.take_errors(shared, states, endpoint, last),
            Either::Left(None) | Either::Right(None) => break,
        }
    }
    running.stop();
}

/// What goes on.
#[derive(Default)]
struct Running {
    tasks: Vec<Rc<Signal>>,
    /// Endpoints whose traffic has a say, each with its task.
    observed: HashMap<EndpointKey, (Rc<Watched>, Rc<Signal>)>,
}

impl Running {
    fn stop(&mut self) {
        self.observed.clear();
        self.tasks.drain(..).for_each(|stop| stop.set());
    }
}

fn begin((shared, crew): (&Arc<Shared>, &Weak<Crew>), prepared: &Arc<Prepared>, states: &States) -> Running {
    let mut running = Running::default();
    let pools: Vec<Live> = prepared.pools.iter().map(|pool| pool.now()).collect();
    let endpoints = pools.iter().flat_map(|pool| &pool.set.endpoints);
    let checked: HashSet<EndpointKey> =
        endpoints.filter(|endpoint| endpoint.check.is_some()).map(|endpoint| endpoint.key).collect();
    shared.keep_checked(|key| checked.contains(&key));
    let mut known = std::mem::take(&mut *states.borrow_mut());
    let seconds = weir_rt::unix_now().as_secs();
    let mut followers = followers(prepared, &pools);
    for (pool, live) in prepared.plan.pools.iter().zip(&pools) {
        // Who was out is compared anew, if anybody still compares.
        let now = shared.millis(weir_rt::now());
        for at in 0..live.set.endpoints.len() {
            live.state.set_ejected(at, false, now);
        }
        if pool.outliers.is_some() {
            let compared = Compared { pool: pool.clone(), live: live.clone(), crew: crew.clone() };
            let shared = shared.clone();
            running.tasks.push(keep_on(shared.clone(), "comparing endpoints", async move |stop: &Signal| {
                compared.watch(&shared, stop).await;
            }));
        }
        for (at, endpoint) in live.set.endpoints.iter().enumerate() {
            let place = Place { pool: pool.name.clone(), live: live.clone(), at };
            let watched = Rc::new(Watched {
                prepared: prepared.clone(),
                crew: crew.clone(),
                followers: followers.remove(&endpoint.key).unwrap_or_default(),
                place,
            });
            if endpoint.check.is_some() {
                let now = shared.millis(weir_rt::now());
                let mut old = known.remove(&endpoint.key).map(Checks::into_each).into_iter().flatten();
                let each = (0u64..).zip(endpoint.checks()).map(|(which, check)| match old.next() {
                    Some(old) => old.reconfigured(config(check)),
                    // Spread over an interval, so that endpoints are not all asked at once.
                    None => {
                        let count = live.set.endpoints.len().max(1);
                        let spread = check.interval.mul_f64((at as f64 / count as f64).min(1.0));
                        let health = Health::new(config(check), now, spread).beginning(check.first);
                        health.seeded(endpoint.key.0 ^ which ^ seconds)
                    }
                });
                let checks = Checks::of(each.collect());
                watched.set_health(checks.are_up(), now);
                states.borrow_mut().insert(endpoint.key, checks);
            }
            // What has no address is down already, and has nobody to be asked.
            if endpoint.address.is_none() {
                continue;
            }
            for (which, check) in endpoint.checks().enumerate() {
                let (shared, one, states) = (shared.clone(), watched.clone(), states.clone());
                let task = keep_on(shared.clone(), "checking an endpoint", async move |stop: &Signal| {
                    watch(&shared, (&*one, which), &states, stop).await;
                });
                if check.observe.is_some() {
                    running.observed.insert(endpoint.key, (watched.clone(), task.clone()));
                }
                running.tasks.push(task);
            }
            if let Some(asked) = &endpoint.agent {
                let (shared, asked) = (shared.clone(), asked.clone());
                running.tasks.push(keep_on(shared.clone(), "asking an agent", async move |stop: &Signal| {
                    agent::watch(&shared, &watched, &asked, stop).await;
                }));
            }
        }
    }
    running
}

/// A task that goes on, also after a panic, until it is told to stop.
fn keep_on(shared: Arc<Shared>, what: &'static str, task: impl AsyncFn(&Signal) + 'static) -> Rc<Signal> {
    let stop = Rc::new(Signal::default());
    let told = stop.clone();
    weir_rt::spawn(async move {
        let note = |payload: &_| shared.note_panic(what, payload);
        lasting::task(note, || task(&told)).await;
    });
    stop
}

fn config(check: &HealthCheck) -> HealthConfig {
    HealthConfig {
        inter: check.interval,
        jitter: check.jitter,
        fast_inter: check.fast_interval,
        down_inter: check.down_interval,
        rise: check.rise,
        fall: check.fall,
    }
}

/// Who takes its health from whom.
fn followers(prepared: &Prepared, pools: &[Live]) -> HashMap<EndpointKey, Vec<Place>> {
    let mut followers: HashMap<EndpointKey, Vec<Place>> = HashMap::new();
    for (pool, live) in prepared.plan.pools.iter().zip(pools) {
        for (at, endpoint) in live.set.endpoints.iter().enumerate() {
            let Some(tracked) = endpoint.tracks else { continue };
            let place = Place { pool: pool.name.clone(), live: live.clone(), at };
            followers.entry(tracked).or_default().push(place);
        }
    }
    followers
}

/// An endpoint of a pool.
struct Place {
    /// Name of its pool.
    pool: Box<str>,
    live: Live,
    at: usize,
}

impl Place {
    fn endpoint(&self) -> &Endpoint {
        &self.live.set.endpoints[self.at]
    }

    /// As logs call it.
    fn name(&self) -> String {
        format!("{}/{}", self.pool, self.endpoint().name)
    }
}

/// An endpoint that is checked, or whose agent is asked.
struct Watched {
    prepared: Arc<Prepared>,
    /// Whom to tell when it goes up or down.
    crew: Weak<Crew>,
    place: Place,
    /// Those that take its health for their own.
    followers: Vec<Place>,
}

impl std::ops::Deref for Watched {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Watched {
    fn set_health(&self, up: bool, now: Millis) {
        for Place { live, at, .. } in self.followers.iter().chain([&self.place]) {
            live.state.set_health(*at, up, now);
        }
        self.tell_standing();
    }

    /// Has the workers cut what is not to outlive that it went up or down, or its followers with it.
    fn tell_standing(&self) {
        let Some(crew) = self.crew.upgrade() else { return };
        for Place { pool, live, .. } in self.followers.iter().chain([&self.place]) {
            crew.tell_standing(PoolId::from_name(pool), &live.set);
        }
    }

    fn set_draining(&self, drains: bool) {
        for Place { live, at, .. } in self.followers.iter().chain([&self.place]) {
            live.state.set_draining(*at, drains);
        }
    }
}

/// Makes one of the checks of an endpoint, the one at `which`, again and again.
async fn watch(shared: &Arc<Shared>, (watched, which): (&Watched, usize), states: &States, stop: &Signal) {
    let endpoint = watched.endpoint();
    let Some(check) = endpoint.checks().nth(which) else { return };
    let mut kept = None;
    loop {
        let due = states.borrow().get(&endpoint.key).and_then(|all| Some(all.one(which)?.poll_timeout()));
        let Some(due) = due else { return };
        let _ = race(stop.next(), weir_rt::sleep_until(shared.instant(due))).await;
        if stop.is_set() {
            return;
        }
        let began = weir_rt::now();
        if began < shared.instant(due) {
            // It was woken because another time may hold.
            continue;
        }
        let state = &watched.live.state;
        let is_checked = state.members().get(watched.at).is_none_or(|member| member.is_checked());
        if !is_checked || state.standing(&watched.live.set.config, watched.at) == Standing::Maintenance {
            // Nobody asks what an operator has taken out.
            if let Some(all) = states.borrow_mut().get_mut(&endpoint.key) {
                all.put_off(which, shared.millis(began));
            }
            continue;
        }
        assert!(!shared.panic_next_check.swap(false, Ordering::Relaxed), "a test asked for this panic");
        let tell = || told(watched, &states.borrow());
        let result = script::play(&watched.prepared, endpoint, check, &mut kept, tell).await;
        if stop.is_set() {
            return;
        }
        let now = shared.millis(weir_rt::now());
        let transition = match states.borrow_mut().get_mut(&endpoint.key) {
            Some(all) => {
                let transition = all.handle_result(which, now, result.is_ok());
                // Of several checks the one is shown that keeps it down.
                if let Some(health) = all.one(which).filter(|health| !health.is_up() || all.are_up()) {
                    let took = weir_rt::now() - began;
                    shared.set_checked(endpoint.key, checked(check, health, &result, now, took));
                }
                transition
            }
            None => return,
        };
        report(shared, watched, transition, result, now);
    }
}

/// Publishes what a check came to, and says what it changed.
fn report(
    shared: &Shared,
    watched: &Watched,
    transition: Transition,
    result: Result<Passed, Failed>,
    now: Millis,
) {
    let log = |level, line: &str| shared.logs.event(level, line);
    let name = watched.name();
    watched.set_draining(result.as_ref().is_ok_and(|passed| passed.drains));
    let (level, up, reason) = match (transition, result) {
        (Transition::WentUp, _) => (Level::Notice, "UP", String::new()),
        (Transition::WentDown, Err(failed)) => (Level::Alert, "DOWN", format!(", reason: {}", failed.why)),
        _ => return,
    };
    watched.set_health(up == "UP", now);
    log(level, &format!("Server {name} is {up}{reason}. {}", census(&watched.live)));
    for follower in &watched.followers {
        log(level, &format!("Server {} is {up} via {name}. {}", follower.name(), census(&follower.live)));
    }
}

/// What an endpoint is told of itself (`http-check send-state`).
fn told(watched: &Watched, states: &HashMap<EndpointKey, Checks>) -> String {
    let Place { pool, live, at } = &watched.place;
    let (members, endpoint) = (live.state.members(), watched.endpoint());
    let health = states.get(&endpoint.key).and_then(|all| all.one(0));
    let state = health.map_or_else(|| "no check".to_owned(), in_words);
    let configured = live.set.config.endpoints();
    let weight_of = |at: usize| {
        let set = members.get(at).and_then(|member| member.weight());
        u64::from(set.unwrap_or_else(|| configured.get(at).map_or(0, |one| one.weight)))
    };
    let up = |at: &usize| live.state.standing(&live.set.config, *at) == Standing::Up;
    let total: u64 = (0..members.len()).filter(up).map(weight_of).sum();
    let flights = |at: usize| members.get(at).map_or(0, |member| member.load().in_flight());
    let all: u32 = (0..members.len()).map(flights).sum();
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!(
        "{state}; name={pool}/{}; node={node}; weight={}/{total}; scur={}/{all}; qcur={}",
        endpoint.name,
        weight_of(*at),
        flights(*at),
        members.get(*at).map_or(0, |member| member.waiting()),
    )
}

/// How many endpoints are left, in HAProxy's words.
fn census(Live { set, state }: &Live) -> String {
    let up = |backup: bool| {
        let endpoints = set.config.endpoints().iter().enumerate();
        let of_tier = endpoints.filter(|(_, endpoint)| endpoint.backup == backup);
        of_tier.filter(|(at, _)| state.standing(&set.config, *at) == Standing::Up).count()
    };
    format!("{} active and {} backup servers left.", up(false), up(true))
}

/// The state of checks, in HAProxy's words.
fn in_words(health: &Health) -> String {
    let (rise, fall, level) = health.counters();
    match (health.is_up(), level) {
        (true, level) if level + 1 < rise + fall => format!("UP {}/{fall}", level + 1 - rise.min(level)),
        (true, _) => "UP".to_owned(),
        (false, 0) => "DOWN".to_owned(),
        (false, level) => format!("DOWN {level}/{rise}"),
    }
}

/// What pages show of an endpoint after a check.
fn checked(
    check: &HealthCheck,
    health: &Health,
    result: &Result<Passed, Failed>,
    now: Millis,
    took: Duration,
) -> Checked {
    let (rise, fall, level) = health.counters();
    let mut state = in_words(health);
    let (word, code, text) = match result {
        Ok(passed) => (&passed.word, passed.code, String::new()),
        Err(failed) => (&failed.word, failed.code, failed.why.clone()),
    };
    // As there: only these come with the code of a response.
    let code = code.filter(|_| matches!(word.as_str(), "L7OK" | "L7OKC" | "L7STS"));
    if result.as_ref().is_ok_and(|passed| passed.drains) {
        state = state.replace("UP", "NOLB");
    }
    let [checks, failures] = health.results();
    let report = HealthReport {
        state,
        checks,
        failures,
        last_status: word.clone(),
        last_code: code,
        last_duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        last_text: text,
        failed: health.failures(),
        errors: check.observe.map(|_| health.errors()),
        went_down: health.transitions_down(),
        rise,
        fall,
        level,
    };
    Checked { report, changed: health.changed(), downtime: health.downtime(now) }
}
