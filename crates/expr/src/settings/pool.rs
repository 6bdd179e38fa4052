//! Pools: kept connections, queues, cookies.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Idle connections kept to a pool's endpoints, per worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamKeepalive {
    /// Idle connections kept; 0: each is closed after its answer.
    pub idle: u32,
    /// Requests on one connection.
    pub requests: Option<u64>,
    /// Longest life of one.
    pub time: Option<Duration>,
    /// Longest idle time.
    pub timeout: Duration,
    /// Which requests may use a kept connection (HAProxy `http-reuse`).
    pub reuse: Reuse,
}

impl Default for UpstreamKeepalive {
    /// nginx since 1.29.7: 32 idle connections, 1000 requests, one hour, 60 s idle.
    fn default() -> Self {
        Self {
            idle: 32,
            requests: Some(1000),
            time: Some(Duration::from_secs(3600)),
            timeout: Duration::from_secs(60),
            reuse: Reuse::Always,
        }
    }
}

/// How a pool is named to whoever changes it while running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolGroup {
    /// Its name as written. A pool of requests and one of sessions may have the same.
    pub name: String,
    /// The zone that its state is in.
    pub zone: String,
    /// Bytes of it; 0: not said.
    pub bytes: u64,
    /// It is one of sessions.
    pub tcp: bool,
    /// The file that its endpoints are in, and that changes of them are written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
}

/// Sharing of kept connections among clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// Never.
    Never,
    /// Not for the first request of a client's connection.
    Safe,
    /// As `Safe`, but also for first ones on connections proven to be reusable.
    Aggressive,
    /// Always.
    Always,
}

/// A queue for requests that no endpoint can take yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Most waiting; `None`: the site's connections bound it.
    pub max: Option<u32>,
    /// Longest wait; then 503 (HAProxy) or 502 (nginx).
    pub timeout: Duration,
}

/// When endpoints are left out for what traffic meets there, beside their checks and `max_fails`. Off unless written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outliers {
    /// How often they are compared.
    pub interval: Duration,
    /// How long an endpoint is left out; the second time in a row twice as long, and so on to ten times.
    pub ejection: Duration,
    /// Most of the pool's endpoints that are out at a time, in percent. One may always be, and one always stays.
    pub most_percent: u8,
    /// It is left out if more than so many percent of its exchanges failed; `None`: failures do not count.
    pub failures_percent: Option<u8>,
    /// Or if its mean time to the head of an answer is so many times that of the middle one; `None`: times do not count.
    pub slower: Option<u32>,
    /// Fewer exchanges in an interval say nothing.
    pub requests: u32,
}

impl Default for Outliers {
    /// Ten seconds, ejected for 30, a third of them at most, by no measure.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            ejection: Duration::from_secs(30),
            most_percent: 33,
            failures_percent: None,
            slower: None,
            requests: 20,
        }
    }
}

/// What retries may add to the requests of a pool. Off unless written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Retries of the last ten seconds are at most so many percent of its requests in that time.
    pub percent: u8,
    /// So many a second may always be.
    pub least: u32,
}

/// Endpoints near by are preferred. Off unless written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locality {
    /// The zone that is preferred: where this machine is.
    pub zone: String,
    /// Once fewer than so many percent of its weight are up, the endpoints of all zones serve alike.
    pub least_percent: u8,
}

/// Making of sticky cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickyMode {
    /// Weir sets it.
    Insert,
    /// The endpoint's own is replaced.
    Rewrite,
    /// The endpoint's own is prefixed.
    Prefix,
    /// Nobody sets it here; it is looked at alone.
    Passive,
    /// None: the request names its endpoint in some other way.
    Route,
}

/// What becomes of a name with several addresses that is looked up while running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Each is an endpoint (nginx).
    Each,
    /// The endpoint is at one of them (HAProxy).
    One(AddressChoice),
}

/// Which of several addresses an endpoint takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AddressChoice {
    /// IPv4 rather than IPv6, where there are both.
    pub ipv4_first: bool,
    /// An address may serve several endpoints of a pool that have the same name.
    pub share: bool,
    /// The weights of service records do not count (`resolve-opts ignore-weight`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_weight: bool,
}

/// How long the last addresses of a name serve while it cannot be looked up, by the failure (HAProxy `hold`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NameHolds {
    /// The name does not exist.
    pub missing: Duration,
    /// The name server refuses.
    pub refused: Duration,
    /// Nobody answers.
    pub timeout: Duration,
    /// Any other failure.
    pub other: Duration,
    /// An address that is no longer among those of an answer.
    pub obsolete: Duration,
}

impl Default for NameHolds {
    /// HAProxy's.
    fn default() -> Self {
        let usual = Duration::from_secs(30);
        Self { missing: usual, refused: usual, timeout: usual, other: usual, obsolete: Duration::ZERO }
    }
}

/// Endpoints are told apart by how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Times {
    /// What is measured.
    pub of: Measured,
    /// Those that have not answered yet count with the time that they have taken so far.
    pub in_flight: bool,
}

/// What of an answer is measured, from the beginning of the attempt on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// The time to connect.
    Connect,
    /// The time to the head of the answer, or the first byte.
    First,
    /// The time to its end.
    Last,
}

/// What was asked of an endpoint of an earlier process, and holds at the start of this one (HAProxy's file of server states).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Begins {
    /// It takes nothing.
    pub maintenance: bool,
    /// It takes only exchanges that persistence binds to it.
    pub drain: bool,
    /// Its share, if other than the configuration's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}
