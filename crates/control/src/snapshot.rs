//! The state of the whole process at one moment, as plain numbers.
//!
//! Owns: the figures that HAProxy's statistics, nginx's `stub_status` and `/metrics` are rendered from.
//! Never: renders them; never holds a secret.
//! Driven by: `telemetry` and `policy`, which fill it; `admin`, which renders it.
//! Why: one snapshot for all pages, so that they cannot disagree; plain data, so that a page is a pure function of it.
//!
//! Times are milliseconds unless a name says otherwise. `Option` is "does not apply", which HAProxy's CSV leaves empty.

use serde::Serialize;

use crate::changes::AdminState;
use crate::ids::{EndpointKey, ListenerId, PoolId, SiteId};

/// Everything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// The process.
    pub process: Process,
    /// Listeners, by address.
    pub listeners: Vec<Listener>,
    /// Sites, in the order of the configuration.
    pub sites: Vec<Site>,
    /// Pools, in the order of the configuration.
    pub pools: Vec<Pool>,
    /// Routes that requests have reached, by site and name, where they are counted apart.
    pub routes: Vec<Route>,
    /// What is counted apart under names of its own.
    pub zones: crate::zones::Zones,
    /// Certificates that authorities issue, by name.
    pub issued: Vec<IssuedFigures>,
}

/// A certificate that an authority issues, and renews.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IssuedFigures {
    /// Its name.
    pub name: String,
    /// There is none yet, and one that nobody vouches for is shown.
    pub placeholder: bool,
    /// When the one that is shown is over, in seconds since 1970.
    pub expires: Option<i64>,
    /// Orders that ended with a certificate since the start.
    pub issued: u64,
    /// Orders that failed since the start.
    pub failed: u64,
    /// Why the last order failed, if it did.
    pub failing: Option<String>,
}

/// The process as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Process {
    /// Weir's version.
    pub version: String,
    /// The host's name.
    pub node: String,
    /// Process id.
    pub pid: u32,
    /// Workers running.
    pub workers: u32,
    /// `io_uring` or `epoll`.
    pub driver: String,
    /// Files of middling size go out by sendfile rather than by copies, because that is the cheaper way here. `None`: not
    /// compared (yet).
    pub sendfile_pays: Option<bool>,
    /// Start, in seconds since 1970.
    pub started_unix: u64,
    /// Time since the start, in milliseconds.
    pub uptime_ms: u64,
    /// The plan that runs.
    pub plan: u64,
    /// Plans in memory: the one that runs, and those that requests which began before still need.
    pub plans: u64,
    /// Configuration changes accepted since the start.
    pub reloads: u64,
    /// Configuration changes refused since the start.
    pub reloads_failed: u64,
    /// Seconds since 1970 of the last change that was accepted; zero: none.
    pub last_reload_unix: u64,
    /// True while draining before the end.
    pub stopping: bool,
    /// Client connections.
    pub connections: Connections,
    /// Bound on client connections; zero: none.
    pub max_connections: u64,
    /// Requests begun (nginx's `requests`).
    pub requests: u64,
    /// Bytes from and to clients, and to and from endpoints.
    pub bytes: Bytes,
    /// TLS with clients.
    pub tls: Tls,
    /// Rates over the last second.
    pub rates: Rates,
    /// Panics that cost a connection.
    pub panics: u64,
    /// Panics that cost a worker its connections; it was started again.
    pub worker_deaths: u64,
    /// Bound on memory in use, in bytes; zero: none.
    pub memory_budget: u64,
    /// Memory in use that counts against it, in bytes.
    pub memory_in_use: u64,
    /// Requests turned away for want of memory.
    pub shed: u64,
    /// Log lines dropped because their sink could not take them.
    pub dropped_logs: u64,
    /// Spans that a collector took.
    pub spans_exported: u64,
    /// Spans that were dropped: too many waited.
    pub spans_dropped: u64,
    /// Spans that were lost: the collector did not take them.
    pub spans_failed: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Descriptors open.
    pub descriptors: u64,
    /// Bound on descriptors.
    pub descriptor_limit: u64,
}

/// Client connections; nginx's `stub_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Of those, not dropped at once for a limit.
    pub handled: u64,
    /// Open now.
    pub active: u64,
    /// Of those, a request's head or body is being read.
    pub reading: u64,
    /// Of those, a response is being made or written.
    pub writing: u64,
    /// Of those, kept and idle.
    pub waiting: u64,
    /// The most open at once.
    pub peak: u64,
}

/// Bytes as they were on the wire, TLS excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Received from clients.
    pub client_in: u64,
    /// Sent to clients.
    pub client_out: u64,
    /// Received from endpoints.
    pub upstream_in: u64,
    /// Sent to endpoints.
    pub upstream_out: u64,
}

/// TLS handshakes as server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// Full handshakes.
    pub full: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Handshakes that failed.
    pub failed: u64,
    /// Connections open now.
    pub current: u64,
}

/// Events of the last second, and the most seen in any second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rates {
    /// Connections.
    pub connections: u64,
    /// The most connections.
    pub connections_max: u64,
    /// Sessions (HAProxy: a connection that passed the connection rules; for pools, requests dispatched).
    pub sessions: u64,
    /// The most sessions.
    pub sessions_max: u64,
    /// Requests.
    pub requests: u64,
    /// The most requests.
    pub requests_max: u64,
}

/// Answers by the first digit of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// 100 to 199.
    pub informational: u64,
    /// 200 to 299.
    pub success: u64,
    /// 300 to 399.
    pub redirect: u64,
    /// 400 to 499.
    pub client_error: u64,
    /// 500 to 599.
    pub server_error: u64,
    /// Anything else, an answer that never came included.
    pub other: u64,
}

/// What clients did to a listener or a site.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Front {
    /// Connections open: HAProxy's `scur`.
    pub current: u64,
    /// The most open at once: `smax`.
    pub peak: u64,
    /// Bound on them: `slim`.
    pub limit: Option<u64>,
    /// Connections in all: `stot`, `conn_tot`.
    pub total: u64,
    /// Bytes received: `bin`.
    pub bytes_in: u64,
    /// Bytes sent: `bout`.
    pub bytes_out: u64,
    /// Bytes passed on to endpoints (`reqbout`), and received from them (`resbin`).
    pub passed_on: u64,
    #[allow(missing_docs)]
    pub passed_back: u64,
    /// Requests in all: `req_tot`.
    pub requests: u64,
    /// Requests by version, 1 to 3: `h1req` …
    pub requests_by_version: [u64; 3],
    /// Connections by version, 1 to 3: `h1sess` …
    pub connections_by_version: [u64; 3],
    /// Requests denied by a rule: `dreq`.
    pub denied_requests: u64,
    /// Responses denied by a rule: `dresp`.
    pub denied_responses: u64,
    /// Malformed, timed-out or aborted requests: `ereq`.
    pub request_errors: u64,
    /// Connections denied by a rule: `dcon`.
    pub denied_connections: u64,
    /// Sessions denied by a rule: `dses`.
    pub denied_sessions: u64,
    /// Requests answered by Weir itself, redirects and statistics: `intercepted`.
    pub intercepted: u64,
    /// Our own faults: `eint`.
    pub internal_errors: u64,
    /// Header edits that failed: `wrew`.
    pub failed_rewrites: u64,
    /// Answers by class: `hrsp_*`.
    pub responses: Classes,
    /// `rate`, `rate_max`, `conn_rate` …, `req_rate` ….
    pub rates: Rates,
    /// Bound on sessions a second: `rate_lim`; zero: none.
    pub rate_limit: u64,
    /// Compression: bytes in and out, bytes let pass, answers compressed.
    pub compression: [u64; 4],
    /// Lookups in the cache, and hits.
    pub cache: [u64; 2],
    /// TLS with clients.
    pub tls: Tls,
    /// Duration of exchanges.
    pub latency: Latency,
    /// Of those, the time from a request's first byte to the head of the response, and from there to its end. Not kept for
    /// listeners.
    pub first_byte: Latency,
    #[allow(missing_docs)]
    pub transfer: Latency,
}

/// What an endpoint did, or all of a pool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Back {
    /// Exchanges in flight: `scur`.
    pub current: u64,
    /// The most in flight at once: `smax`.
    pub peak: u64,
    /// Bound on them: `slim`.
    pub limit: Option<u64>,
    /// Exchanges in all: `stot`.
    pub total: u64,
    /// Of those, chosen by balancing rather than persistence: `lbtot`.
    pub balanced: u64,
    /// Waiting for a slot now: `qcur`.
    pub queued: u64,
    /// The most waiting at once: `qmax`.
    pub queued_peak: u64,
    /// Bytes sent to endpoints (HAProxy's `bin`: from the client).
    pub bytes_in: u64,
    /// Bytes received from endpoints (`bout`).
    pub bytes_out: u64,
    /// Bytes received from clients for it (`reqbin`), and sent to them from it (`resbout`).
    pub taken: u64,
    #[allow(missing_docs)]
    pub given: u64,
    /// Requests denied by a rule of the pool: `dreq`.
    pub denied_requests: u64,
    /// Responses denied by a rule: `dresp`.
    pub denied_responses: u64,
    /// Connections that failed: `econ`.
    pub connect_errors: u64,
    /// Answers that failed: `eresp`.
    pub response_errors: u64,
    /// Attempts made again: `wretr`.
    pub retries: u64,
    /// Attempts moved to another endpoint: `wredis`.
    pub redispatches: u64,
    /// Transfers that the client aborted: `cli_abrt`.
    pub client_aborts: u64,
    /// Transfers that the endpoint aborted: `srv_abrt`.
    pub server_aborts: u64,
    /// Connections opened, or tried to: `connect`.
    pub connects: u64,
    /// Kept connections used again: `reuse`.
    pub reuses: u64,
    /// Requests: `req_tot`.
    pub requests: u64,
    /// Our own faults: `eint`.
    pub internal_errors: u64,
    /// Header edits that failed: `wrew`.
    pub failed_rewrites: u64,
    /// Answers by class: `hrsp_*`.
    pub responses: Classes,
    /// `rate` and `rate_max` are `sessions`.
    pub rates: Rates,
    /// Seconds since 1970 of the last exchange; zero: none. `lastsess` counts back from now.
    pub last_unix: u64,
    /// Compression: bytes in and out, bytes let pass, answers compressed.
    pub compression: [u64; 4],
    /// Lookups in the cache, and hits.
    pub cache: [u64; 2],
    /// TLS with endpoints.
    pub tls: Tls,
    /// `qtime`, `ctime`, `rtime`, `ttime`, and their `_max`.
    pub times: Times,
    /// Time to the head of the answer, from the beginning of the attempt.
    pub latency: Latency,
    /// Time to connect, TLS included, where a connection was opened for the attempt.
    pub connect: Latency,
    /// From the head of the answer to its end.
    pub transfer: Latency,
    /// Attempts from their beginning to their end.
    pub whole: Latency,
    /// Answers by code, in order, where somebody asks for them.
    pub codes: Vec<(u16, u64)>,
    /// Times that failures made it unavailable.
    pub made_unavailable: u64,
    /// Exchanges that found the queue full.
    pub overflows: u64,
    /// Exchanges that were refused because too many waited for an answer.
    pub pending_refused: u64,
    /// Retries that the budget had no room for.
    pub retries_withheld: u64,
}

/// Averages over about the last 1,024 exchanges, and the most since the start, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Waiting for a slot.
    pub queue: f64,
    /// Connecting.
    pub connect: f64,
    /// From the request sent to the head of the answer.
    pub response: f64,
    /// The whole exchange.
    pub total: f64,
    /// The most of each, in the same order.
    pub max: [u64; 4],
}

/// A distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their sum in microseconds.
    pub sum_us: u64,
    /// Quantiles in microseconds: 50, 95, 99 in a hundred; within 5%.
    pub p50_us: u64,
    #[allow(missing_docs)]
    pub p95_us: u64,
    #[allow(missing_docs)]
    pub p99_us: u64,
    /// Prometheus buckets: upper bound in microseconds, and how many were at or below it.
    pub buckets: Vec<(u64, u64)>,
    /// All that is known: upper bound in microseconds, and how many were in this bucket alone; empty buckets are left out. What
    /// two moments have apart gives the quantiles of the time between them. Empty unless it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<(u64, u64)>,
}

/// A listening address.
#[derive(Clone, Debug, Serialize)]
pub struct Listener {
    /// Its id.
    pub id: ListenerId,
    /// Its address as configured.
    pub name: String,
    /// `tcp`, `udp` or `unix`; with `+tls` if it terminates TLS.
    pub protocol: String,
    /// Where it stands.
    pub state: ListenerState,
    /// The sites that it serves.
    pub sites: Vec<SiteId>,
    /// What came in.
    pub front: Front,
}

/// Where a listener stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ListenerState {
    /// Accepting.
    #[default]
    Open,
    /// Accepting paused: a bound was reached.
    Full,
    /// Left the configuration; accepting until its queue is empty.
    Retiring,
    /// Closed.
    Closed,
}

/// A site, or a TCP service.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// Its id.
    pub id: SiteId,
    /// Its name.
    pub name: String,
    /// HAProxy's `iid`.
    pub number: u32,
    /// Its place among all proxies, in the order of the file.
    pub place: u32,
    /// `http` or `tcp`.
    pub mode: String,
    /// An operator has it accept nothing for now.
    pub paused: bool,
    /// What came in.
    pub front: Front,
}

/// A route of a site.
#[derive(Clone, Debug, Serialize)]
pub struct Route {
    /// Its site.
    pub site: SiteId,
    /// Its name: `/images/`, `~ \.php$`, a backend's.
    pub name: String,
    /// What came in. Connections belong to sites.
    pub front: Front,
}

/// A pool.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// Its id.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// HAProxy's `iid`.
    pub number: u32,
    /// Its place among all proxies, in the order of the file.
    pub place: u32,
    /// `http` or `tcp`.
    pub mode: String,
    /// The method, as the configuration spells it.
    pub balance: String,
    /// Persistence cookie, if any.
    pub cookie: Option<String>,
    /// Totals.
    pub back: Back,
    /// Milliseconds since it last went up or down.
    pub last_change_ms: u64,
    /// Milliseconds without any live endpoint.
    pub downtime_ms: u64,
    /// Times it went down.
    pub went_down: u64,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// How it is named to whoever changes it while running; `None`: it is nobody's to change.
    pub group: Option<Group>,
}

/// How a pool is named to whoever changes it while running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its name as written; one may stand for a pool of requests and for one of sessions.
    pub name: String,
    /// The zone that its state is in.
    pub zone: String,
    /// It is one of sessions.
    pub tcp: bool,
    /// Bound on the queue.
    pub queue_limit: Option<u64>,
    /// Bytes of the zone; 0: not said.
    pub bytes: u64,
}

impl Pool {
    /// Primaries that are up and have weight: HAProxy's `act`.
    pub fn active(&self) -> usize {
        self.endpoints.iter().filter(|e| !e.backup && e.state == EndpointState::Up && e.weight > 0).count()
    }

    /// Backups that are up and have weight: `bck`.
    pub fn backups(&self) -> usize {
        self.endpoints.iter().filter(|e| e.backup && e.state == EndpointState::Up && e.weight > 0).count()
    }
}

/// An endpoint.
#[derive(Clone, Debug, Serialize)]
pub struct Endpoint {
    /// Its key.
    pub key: EndpointKey,
    /// Its name.
    pub name: String,
    /// HAProxy's `sid`.
    pub number: u32,
    /// Its address, `host:port` or a path.
    pub address: String,
    /// Persistence cookie value, if any.
    pub cookie: Option<String>,
    /// Where it stands.
    pub state: EndpointState,
    /// Why it takes no work, or not all that it could.
    pub reason: Option<Reason>,
    /// Its weight now: `weight`.
    pub weight: u32,
    /// Its weight as configured or set: `uweight`.
    pub user_weight: u32,
    /// Its weight as configured.
    pub written_weight: u32,
    /// What an operator asked for.
    pub asked: AdminState,
    /// Configured out of service.
    pub disabled: bool,
    /// TLS is spoken with it.
    pub tls: bool,
    /// The name that its address was found by.
    pub host: Option<String>,
    /// A backup.
    pub backup: bool,
    /// Share of its weight that slow start grants, in a hundred, while it lasts: `throttle`.
    pub throttle: Option<u32>,
    /// Bound on its queue: `qlimit`.
    pub queue_limit: Option<u64>,
    /// What it did.
    pub back: Back,
    /// Its checks, if any.
    pub health: Option<HealthReport>,
    /// Milliseconds since it last went up or down: `lastchg`.
    pub last_change_ms: u64,
    /// Milliseconds spent down: `downtime`.
    pub downtime_ms: u64,
    /// Idle connections kept: `srv_icur`.
    pub idle: u64,
    /// Bound on them: `src_ilim`.
    pub idle_limit: Option<u64>,
    /// Connections in use: `used_conn_cur`.
    pub used: u64,
    /// Failures counted against `max_fails` now.
    pub fails: u32,
    /// Its settings, as configured or given.
    pub settings: EndpointSettings,
}

/// Settings of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointSettings {
    /// Its number in its pool, which it keeps.
    pub id: u32,
    /// Failures within `fail_timeout_ms` that make it unavailable; 0: never.
    pub max_fails: u32,
    /// Window of failures, and how long it then is unavailable.
    pub fail_timeout_ms: u64,
    /// Exchanges at once; 0: no limit.
    pub max_connections: u32,
    /// Its weight rises over this time after recovery.
    pub slow_start_ms: u64,
    /// Failures of late make it unavailable now.
    pub failed: bool,
    /// It waits for its first check.
    pub unchecked: bool,
    /// It is drained by its settings, which otherwise give it this weight.
    pub drains: Option<u32>,
    /// It is one of the addresses that a name has now; they share the name's number.
    pub resolved: bool,
}

/// Why an endpoint takes no work, or not all that it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its checks failed: [`Endpoint::health`] says how. Or they say that it drains.
    Check,
    /// Its agent says so.
    Agent,
    /// It was ejected for what traffic met there.
    Traffic,
    /// Failures in a row, within `fail_timeout`.
    Failures,
    /// An operator asked for it.
    Operator,
    /// The configuration says so.
    Configured,
    /// Its name has no address.
    Unresolved,
}

impl Reason {
    /// As pages and logs call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Agent => "agent",
            Self::Traffic => "traffic",
            Self::Failures => "failures",
            Self::Operator => "operator",
            Self::Configured => "configured",
            Self::Unresolved => "unresolved",
        }
    }
}

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum EndpointState {
    /// Takes work.
    #[default]
    Up,
    /// Health checks, or failures within `fail_timeout`, took it out.
    Down,
    /// Takes only bound work.
    Draining,
    /// Out of service by configuration or operator.
    Maintenance,
}

/// Health checks of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// HAProxy's word for the state: `UP`, `DOWN`, `UP 1/3`, `DOWN 1/2`.
    pub state: String,
    /// HAProxy's word for the last result: `L4OK`, `L4CON`, `L4TOUT`, `L6OK`, `L7OK`, `L7STS`, `INI` …
    pub last_status: String,
    /// Status code of the last check: `check_code`.
    pub last_code: Option<u16>,
    /// Its duration: `check_duration`.
    pub last_duration_ms: u64,
    /// What it said, in words: `last_chk`.
    pub last_text: String,
    /// Checks made.
    pub checks: u64,
    /// Of those, the ones that failed.
    pub failures: u64,
    /// Checks that failed while up: `chkfail`.
    pub failed: u64,
    /// Times that errors of traffic had a say: `hanafail`. `None`: traffic is not watched.
    pub errors: Option<u64>,
    /// Times it went down: `chkdown`.
    pub went_down: u64,
    /// `check_rise`, `check_fall`, `check_health`.
    pub rise: u32,
    #[allow(missing_docs)]
    pub fall: u32,
    #[allow(missing_docs)]
    pub level: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializes_with_ids_as_numbers() {
        let site = Site {
            id: SiteId(7),
            name: "www".into(),
            number: 2,
            place: 0,
            mode: "http".into(),
            paused: false,
            front: Front::default(),
        };
        let snapshot = Snapshot { sites: vec![site], ..Snapshot::default() };
        let json = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(json["sites"][0]["id"], 7);
        assert_eq!(json["sites"][0]["front"]["responses"]["success"], 0);
    }
}
