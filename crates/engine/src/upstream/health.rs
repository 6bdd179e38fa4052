//! Active checks of endpoints.
//!
//! Owns: a side thread with its own runtime, one task an endpoint that is checked, the probes.
//! Never: chooses endpoints: results are written to the pools' shared state, which workers read.
//! Driven by: [`crate::Engine`], at each new plan; `Crew::check_anew`, when endpoints were replaced.
//! Why: `policy::health` decides what a result means; this is only the talking.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_control::EndpointKey;
use weir_control::snapshot::HealthReport;
use weir_http::{Framing, HeadRules, HeadWriter, Method, UnusualNames, Version};
use weir_plan::{Address, Endpoint, Expect, HealthCheck, Pool, Probe, TcpStep};
use weir_policy::Millis;
use weir_policy::health::{Health, HealthConfig, Transition};
use weir_policy::pool::Standing;
use weir_rt::{Buf, Receiver, Runtime, Sender, Timer};
use weir_telemetry::Level;
use weir_wire::{ClientConnection, Conn, SendFraming, Step};

use crate::upstream::{ConnectFailure, ConnectSettings, open};
use crate::worker::command::Crew;
use crate::worker::endpoints::Live;
use crate::worker::lasting;
use crate::worker::prepared::Prepared;
use crate::worker::race::{Signal, race};
use crate::worker::shared::{Checked, Shared};

/// Most bytes of an answer that are looked at.
const MAX_BODY: usize = 64 << 10;

/// What is known of each endpoint that is checked.
type States = Rc<RefCell<HashMap<EndpointKey, Health>>>;

/// What one check came to: HAProxy's word for it, the status of an HTTP answer.
struct Passed {
    word: &'static str,
    code: Option<u16>,
}

/// Why a check failed.
struct Failed {
    word: &'static str,
    code: Option<u16>,
    why: String,
}

impl Failed {
    fn new(word: &'static str, why: impl Into<String>) -> Self {
        Self { word, code: None, why: why.into() }
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::new("L7RSP", why)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Self::new("L7RSP", why)
    }
}

/// Checks the endpoints of a plan, if any are to be. Those that stay keep their state.
///
/// # Errors
/// No thread could be started.
pub(crate) fn follow(shared: &Arc<Shared>, crew: &Crew, prepared: &Arc<Prepared>) -> Result<(), String> {
    let checked = |pool: &Pool| pool.set.endpoints.iter().any(|endpoint| endpoint.check.is_some());
    if crew.checks.get().is_none() && prepared.plan.pools.iter().any(checked) {
        let _ = crew.checks.set(start_thread(shared.clone())?);
    }
    crew.check_anew(Some(prepared));
    Ok(())
}

fn start_thread(shared: Arc<Shared>) -> Result<Sender<Option<Arc<Prepared>>>, String> {
    let (orders, mut receiver) = weir_rt::mailbox();
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
                runtime.block_on(serve(&shared, &mut receiver, &states, &mut current));
            });
        })
        .map_err(|error| format!("cannot start the thread of health checks: {error}"))?;
    Ok(orders)
}

/// Checks the endpoints of the newest plan, until no newer one can come.
async fn serve(
    shared: &Arc<Shared>,
    orders: &mut Receiver<Option<Arc<Prepared>>>,
    states: &States,
    current: &mut Option<Arc<Prepared>>,
) {
    let mut running = current.as_ref().map_or_else(Vec::new, |prepared| begin(shared, prepared, states));
    while let Some(order) = orders.recv().await {
        if order.is_some() {
            *current = order;
        }
        running.drain(..).for_each(|stop| stop.set());
        running = current.as_ref().map_or_else(Vec::new, |prepared| begin(shared, prepared, states));
    }
    running.drain(..).for_each(|stop| stop.set());
}

fn begin(shared: &Arc<Shared>, prepared: &Arc<Prepared>, states: &States) -> Vec<Rc<Signal>> {
    let mut running = Vec::new();
    let pools: Vec<Live> = prepared.pools.iter().map(|pool| pool.now()).collect();
    let endpoints = pools.iter().flat_map(|pool| &pool.set.endpoints);
    let checked: HashSet<EndpointKey> =
        endpoints.filter(|endpoint| endpoint.check.is_some()).map(|endpoint| endpoint.key).collect();
    shared.keep_checked(|key| checked.contains(&key));
    let mut known = std::mem::take(&mut *states.borrow_mut());
    for (pool, live) in prepared.plan.pools.iter().zip(pools) {
        for (at, endpoint) in live.set.endpoints.iter().enumerate() {
            let Some(check) = &endpoint.check else { continue };
            let config = HealthConfig {
                inter: check.interval,
                fast_inter: check.fast_interval,
                down_inter: check.down_interval,
                rise: check.rise,
                fall: check.fall,
            };
            let now = shared.millis(weir_rt::now());
            // Spread over an interval, so that endpoints are not all asked at once.
            let count = live.set.endpoints.len().max(1);
            let spread = check.interval.mul_f64((at as f64 / count as f64).min(1.0));
            let health = match known.remove(&endpoint.key) {
                Some(old) => old.reconfigured(config),
                None => Health::new(config, now, spread),
            };
            states.borrow_mut().insert(endpoint.key, health);
            // What has no address is down already, and has nobody to be asked.
            if endpoint.address.is_none() {
                continue;
            }
            let stop = Rc::new(Signal::default());
            running.push(stop.clone());
            let watched =
                Watched { prepared: prepared.clone(), pool: pool.name.clone(), live: live.clone(), at };
            let (shared, states) = (shared.clone(), states.clone());
            weir_rt::spawn(async move {
                let note = |payload: &_| shared.note_panic("checking an endpoint", payload);
                lasting::task(note, || watch(&shared, &watched, &states, &stop)).await;
            });
        }
    }
    running
}

/// An endpoint that is checked.
struct Watched {
    prepared: Arc<Prepared>,
    /// Name of its pool.
    pool: Box<str>,
    live: Live,
    at: usize,
}

async fn watch(shared: &Arc<Shared>, watched: &Watched, states: &States, stop: &Signal) {
    let Watched { prepared, pool, live, at } = watched;
    let endpoint = &live.set.endpoints[*at];
    let Some(check) = &endpoint.check else { return };
    loop {
        let due = states.borrow().get(&endpoint.key).map(Health::poll_timeout);
        let Some(due) = due else { return };
        let _ = race(stop.wait(), weir_rt::sleep_until(shared.instant(due))).await;
        if stop.is_set() {
            return;
        }
        let began = weir_rt::now();
        assert!(!shared.panic_next_check.swap(false, Ordering::Relaxed), "a test asked for this panic");
        let result = probe(prepared, endpoint, check).await;
        if stop.is_set() {
            return;
        }
        let now = shared.millis(weir_rt::now());
        let transition = match states.borrow_mut().get_mut(&endpoint.key) {
            Some(health) => {
                let transition = health.handle_result(now, result.is_ok());
                shared.set_checked(endpoint.key, checked(health, &result, now, weir_rt::now() - began));
                transition
            }
            None => return,
        };
        let name = format!("{pool}/{}", endpoint.name);
        match (transition, result) {
            (Transition::WentUp, _) => {
                live.state.set_health(*at, true, now);
                shared.logs.event(Level::Notice, &format!("Server {name} is UP. {}", census(live)));
            }
            (Transition::WentDown, Err(failed)) => {
                live.state.set_health(*at, false, now);
                let line = format!("Server {name} is DOWN, reason: {}. {}", failed.why, census(live));
                shared.logs.event(Level::Alert, &line);
            }
            _ => {}
        }
    }
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

/// What pages show of an endpoint after a check.
fn checked(health: &Health, result: &Result<Passed, Failed>, now: Millis, took: Duration) -> Checked {
    let (rise, fall, level) = health.counters();
    let up = health.is_up();
    let state = match (up, level) {
        (true, level) if level + 1 < rise + fall => format!("UP {}/{fall}", level + 1 - rise.min(level)),
        (true, _) => "UP".to_owned(),
        (false, 0) => "DOWN".to_owned(),
        (false, level) => format!("DOWN {level}/{rise}"),
    };
    let (word, code, text) = match result {
        Ok(passed) => (passed.word, passed.code, String::new()),
        Err(failed) => (failed.word, failed.code, failed.why.clone()),
    };
    let report = HealthReport {
        state,
        last_status: word.to_owned(),
        last_code: code,
        last_duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        last_text: text,
        failed: health.failures(),
        went_down: health.transitions_down(),
        rise,
        fall,
        level,
    };
    Checked { report, changed: health.changed(), downtime: health.downtime(now) }
}

/// One check.
async fn probe(prepared: &Prepared, endpoint: &Endpoint, check: &HealthCheck) -> Result<Passed, Failed> {
    let timeout = check.timeout.unwrap_or(check.interval);
    let deadline = weir_rt::now() + timeout;
    match weir_rt::timeout(deadline, Box::pin(talk(prepared, endpoint, check, timeout))).await {
        Ok(result) => result,
        Err(_) => Err(Failed::new(
            if matches!(check.probe, Probe::Connect) { "L4TOUT" } else { "L7TOUT" },
            "timed out",
        )),
    }
}

async fn talk(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    timeout: Duration,
) -> Result<Passed, Failed> {
    let address = address(endpoint, check, None).ok_or("its name did not resolve")?;
    match &check.probe {
        Probe::Connect => {
            connect(prepared, endpoint, check, &address, timeout).await?;
            Ok(Passed { word: if check.tls.is_some() { "L6OK" } else { "L4OK" }, code: None })
        }
        Probe::Http { method, target, version, headers, body, expect } => {
            let conn = connect(prepared, endpoint, check, &address, timeout).await?;
            let mut head = Vec::new();
            let old = &**version == "HTTP/1.0" || version.is_empty();
            let version = if old { Version::Http10 } else { Version::Http11 };
            let mut writer = HeadWriter::request(&mut head, method.as_bytes(), target.as_bytes(), version)
                .map_err(|_| "the check's request is not valid")?;
            for (name, value) in headers {
                let _ = writer.field(name.name.as_bytes(), value.as_bytes());
            }
            let _ = writer.field(b"Connection", b"close");
            if !body.is_empty() {
                writer.number(weir_http::HeaderId::ContentLength, body.len() as u64);
            }
            writer.end();
            http(conn, &head, body.as_bytes(), Method::of(method.as_bytes()), expect, timeout).await
        }
        Probe::Tcp(steps) => {
            tcp(prepared, endpoint, check, steps, timeout).await?;
            Ok(Passed { word: "L7OK", code: None })
        }
    }
}

fn address(endpoint: &Endpoint, check: &HealthCheck, port: Option<u16>) -> Option<Address> {
    Some(match endpoint.address.as_ref()? {
        Address::Tcp(to) => Address::Tcp(SocketAddr::new(
            check.address.unwrap_or(to.ip()),
            port.or(check.port).unwrap_or(to.port()),
        )),
        unix => unix.clone(),
    })
}

async fn connect(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    address: &Address,
    timeout: Duration,
) -> Result<Conn, Failed> {
    let made = prepared.tls.now();
    let tls = check.tls.as_ref().map(|tls| made.client(tls.config));
    let own =
        || endpoint.host.as_ref().map_or_else(|| endpoint.name.to_string(), |host| host.host.to_string());
    // A check belongs to no request, so a name that is computed from one is not known here.
    let name = check.tls.as_ref().and_then(|tls| tls.name.as_ref()?.as_literal());
    let name = name.map_or_else(own, str::to_owned);
    let settings = ConnectSettings {
        timeout,
        local: None,
        keepalive: false,
        proxy: None,
        tls: tls.map(|tls| (tls, &*name)),
    };
    open(address, &settings, &Timer::new()).await.map_err(|failure| {
        let word = if matches!(failure, ConnectFailure::Timeout) { "L4TOUT" } else { "L4CON" };
        let why = match failure {
            ConnectFailure::Timeout => "no connection in time".to_owned(),
            ConnectFailure::Failed(why) | ConnectFailure::Resources(why) => why,
        };
        Failed::new(word, why)
    })
}

async fn http(
    conn: Conn,
    head: &[u8],
    body: &[u8],
    method: Method,
    expect: &[Expect],
    timeout: Duration,
) -> Result<Passed, Failed> {
    let timer = Timer::new();
    let mut conn = ClientConnection::new(conn);
    conn.outgoing.buffer().extend(head);
    conn.outgoing.begin(if body.is_empty() {
        SendFraming::None
    } else {
        SendFraming::Length(body.len() as u64)
    });
    conn.outgoing.send(body, &timer, timeout).await.map_err(|error| error.to_string())?;
    conn.outgoing.finish(b"", &timer, timeout).await.map_err(|error| error.to_string())?;
    let rules =
        HeadRules { head: 64 << 10, fields: 1000, unusual_names: UnusualNames::Keep, ..HeadRules::default() };
    loop {
        conn.receive_head(&rules, &timer, timeout)
            .await
            .map_err(|failure| format!("no answer: {failure:?}"))?;
        if !conn.response().is_interim() {
            break;
        }
        conn.skip_head();
    }
    let status = conn.response().status();
    let wants_body = expect.iter().any(looks_at_body);
    let framing = conn.response().framing(method);
    conn.begin_body(method);
    let mut text = Vec::new();
    while wants_body && framing != Framing::None && text.len() < MAX_BODY {
        match conn.incoming.step().map_err(|error| error.to_string())? {
            Step::Piece(start, end) => text.extend_from_slice(conn.incoming.slice(start, end)),
            Step::End => break,
            Step::Wait => {
                conn.incoming
                    .fill(&timer, timeout, weir_rt::MEDIUM)
                    .await
                    .map_err(|error| error.to_string())?;
            }
        }
    }
    let fine = if expect.is_empty() {
        (200..400).contains(&status)
    } else {
        let mut fine = true;
        for expect in expect {
            fine &= meets(expect, status, &text).map_err(|why| why.to_string())?;
        }
        fine
    };
    if fine {
        return Ok(Passed { word: "L7OK", code: Some(status) });
    }
    let why = format!("answered {status}, which is not what is expected");
    Err(Failed { word: "L7STS", code: Some(status), why })
}

fn looks_at_body(expect: &Expect) -> bool {
    match expect {
        Expect::Body(_) | Expect::BodyMatches(_) => true,
        Expect::Not(inner) => looks_at_body(inner),
        Expect::Status(..) | Expect::StatusMatches(_) => false,
    }
}

fn meets(expect: &Expect, status: u16, body: &[u8]) -> Result<bool, weir_plan::MatchFailed> {
    Ok(match expect {
        Expect::Status(low, high) => (*low..=*high).contains(&status),
        Expect::StatusMatches(pattern) => pattern.is_match(status.to_string().as_bytes())?,
        Expect::Body(text) => memchr::memmem::find(body, text.as_bytes()).is_some(),
        Expect::BodyMatches(pattern) => pattern.is_match(body)?,
        Expect::Not(inner) => !meets(inner, status, body)?,
    })
}

async fn tcp(
    prepared: &Prepared,
    endpoint: &Endpoint,
    check: &HealthCheck,
    steps: &[TcpStep],
    timeout: Duration,
) -> Result<(), Failed> {
    let mut conn = None;
    let mut received = Buf::new();
    if !matches!(steps.first(), Some(TcpStep::Connect(_))) {
        let address = address(endpoint, check, None).ok_or("its name did not resolve")?;
        conn = Some(connect(prepared, endpoint, check, &address, timeout).await?);
    }
    for step in steps {
        if let TcpStep::Connect(port) = step {
            let address = address(endpoint, check, *port).ok_or("its name did not resolve")?;
            conn = Some(connect(prepared, endpoint, check, &address, timeout).await?);
            received.clear();
            continue;
        }
        let Some(conn) = &conn else { return Err("not connected".into()) };
        match step {
            TcpStep::Connect(_) => {}
            TcpStep::Send(bytes) => conn.write_slice(bytes).await.map_err(|error| error.to_string())?,
            TcpStep::Expect(bytes) => {
                wait_for(conn, &mut received, |seen| Ok(memchr::memmem::find(seen, bytes).is_some())).await?;
            }
            TcpStep::ExpectMatches(pattern) => {
                wait_for(conn, &mut received, |seen| pattern.is_match(seen).map_err(|why| why.to_string()))
                    .await?
            }
        }
    }
    Ok(())
}

async fn wait_for(
    conn: &Conn,
    received: &mut Buf,
    found: impl Fn(&[u8]) -> Result<bool, String>,
) -> Result<(), String> {
    while !found(received)? {
        if received.len() > MAX_BODY {
            return Err("the expected bytes did not come".into());
        }
        match conn.read(received).await {
            Ok(0) => return Err("closed before the expected bytes came".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    received.clear();
    Ok(())
}
