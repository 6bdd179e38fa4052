//! Pools of endpoints.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_diag::Origin;
use weir_expr::check::{AgentCheck, CheckStep, Cuts, FirstState, Observe};
use weir_expr::settings::{
    BackupUse, Locality, NameHolds, Outliers, PoolGroup, ProxyProtocol, RetryBudget, Spread, Ties, Times,
    Unavailable,
};

use crate::{Queue, StickyMode, Template, UpstreamKeepalive, UpstreamTls};

/// Endpoints that serve the same thing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// Unique name (`upstream` or `backend` name; `host:port` for one that is implicit in a proxy action).
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// In the order written.
    pub endpoints: Vec<Endpoint>,
    /// Idle connections to endpoints.
    pub keepalive: UpstreamKeepalive,
    /// Counts and failures are the process's, not each worker's (nginx `zone`; HAProxy always).
    pub shared: bool,
    /// Requests wait here when all endpoints are at their `max_conns` (HAProxy `timeout queue`).
    pub queue: Option<Queue>,
    /// Rules that name the endpoint, before all others are asked (HAProxy `use-server`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<crate::EndpointRule>,
    /// What becomes of persistence: the first rule that holds decides (HAProxy `force-persist`, `ignore-persist`, `option
    /// persist`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persistence: Vec<crate::PersistenceRule>,
    /// A cookie keeps clients at their endpoint.
    pub sticky: Option<Sticky>,
    /// Stick tables keep keys at their endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stickiness: Option<crate::Stickiness>,
    /// Name servers for endpoints with `resolve`.
    pub resolver: Option<Resolver>,
    /// When backups take over.
    pub backups: BackupUse,
    /// What is answered where no endpoint serves.
    #[serde(skip_serializing_if = "Unavailable::is_default")]
    pub unavailable: Unavailable,
    /// It may have no endpoints at all.
    pub may_be_empty: bool,
    /// When endpoints are left out for what traffic meets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// While fewer than so many percent of its endpoints are up, those that are down are chosen as well; 0: never.
    #[serde(skip_serializing_if = "is_zero")]
    pub panic_percent: u8,
    /// Under consistent hashing: the most that an endpoint has in flight, in percent of its share of all; 0: no bound.
    #[serde(skip_serializing_if = "no_bound")]
    pub load_percent: u16,
    /// Endpoints near by are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality: Option<Locality>,
    /// What retries may add to its requests; `None`: as many as routes say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Exchanges that may wait for an answer to begin; one more is refused with 503. `None`: no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pending: Option<u32>,
    /// How it is named to whoever changes it while running; `None`: by its name alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<PoolGroup>,
    /// What endpoints that are given while running have where nothing else is said; `None`: what the first endpoint has.
    #[serde(skip)]
    pub fresh: Option<Box<Endpoint>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn no_bound(number: &u16) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// Algorithms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Smooth weighted round robin.
    RoundRobin,
    /// Fewest exchanges in flight relative to weight.
    LeastConnections(Ties),
    /// nginx's `ip_hash`.
    IpHash,
    /// nginx's `hash key`.
    Hash {
        /// Key.
        key: Template,
        /// Ketama ring.
        consistent: bool,
    },
    /// Least average time, with those in flight taken into account (nginx Plus `least_time`).
    LeastTime(Times),
    /// Random, or the better of two random ones.
    Random {
        /// Two are drawn and the one with fewer in flight taken.
        two: bool,
        /// The quicker of the two is taken instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        times: Option<Times>,
    },
    /// HAProxy `source`, `uri`, `hdr()`, `url_param`: hash of a key.
    KeyHash {
        /// Key. Where it is empty, endpoints take turns.
        key: Template,
        /// Ring instead of modulo.
        consistent: bool,
        /// Hash function of HAProxy's `hash-type`.
        function: HashFunction,
        /// `avalanche` modifier.
        avalanche: bool,
    },
    /// Maglev: a key has a slot in a table that endpoints share, and few keys move when they change.
    Maglev {
        /// Key. Where it is empty, endpoints take turns.
        key: Template,
    },
    /// The better of two by the time to the head of an answer, in which peaks count at once.
    PeakEwma {
        /// How long a peak is remembered.
        decay: Duration,
    },
    /// HAProxy `static-rr`.
    StaticRoundRobin,
    /// HAProxy `first`: the first with a free slot.
    First,
}

/// Hash functions of HAProxy's `hash-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// Default.
    #[default]
    Sdbm,
    /// Bernstein.
    Djb2,
    /// CRC-32.
    Crc32,
    /// Wang's.
    Wt6,
    /// None: the key is a number.
    None,
}

/// One endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// Unique in its pool: the address as written, or a name given.
    pub name: String,
    /// Where it was written.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
    /// Where it is.
    pub address: EndpointAddress,
    /// What of its address is the client's to say, in place of the one above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<weir_expr::Follows>,
    /// Connections to it go through a proxy of SOCKS 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks: Option<weir_expr::Socks>,
    /// Share, 1 by default; 0: no new exchanges (HAProxy).
    pub weight: u32,
    /// Exchanges at once; `None`: no limit.
    pub max_connections: Option<u32>,
    /// Exchanges that may wait for this endpoint.
    pub max_queue: Option<u32>,
    /// Failures within `fail_timeout` that make it unavailable; 0: never.
    pub max_fails: u32,
    /// Window of failures, and how long it then is unavailable.
    pub fail_timeout: Duration,
    /// Used only when no other can be.
    pub backup: bool,
    /// Not used until enabled.
    pub down: bool,
    /// Only for exchanges that persistence binds to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drain: bool,
    /// Weight rises over this time after recovery.
    pub slow_start: Option<Duration>,
    /// TLS to this endpoint.
    pub tls: Option<UpstreamTls>,
    /// PROXY header sent first.
    pub send_proxy: Option<ProxyProtocol>,
    /// Active checks.
    pub check: Option<HealthCheck>,
    /// Further ones: it is up while all of them have it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more_checks: Vec<HealthCheck>,
    /// A program beside it that says how it is.
    pub agent: Option<AgentCheck>,
    /// Pool and name of the endpoint whose health is its own.
    pub tracks: Option<(String, String)>,
    /// What is cut when it goes up or down.
    #[serde(skip_serializing_if = "Cuts::are_none")]
    pub cuts: Cuts,
    /// Value of the sticky cookie.
    pub cookie: Option<String>,
    /// Its name is looked up while running (nginx `resolve`, HAProxy `resolvers`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Resolving>,
    /// Where it is at first, if it has a name.
    #[serde(skip_serializing_if = "Initially::is_default")]
    pub initially: Initially,
    /// What was asked of it before this process began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins: Option<weir_expr::settings::Begins>,
    /// HAProxy numeric id.
    pub id: Option<u32>,
    /// The zone that it is in, for [`Pool::locality`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A name that is looked up while running.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resolving {
    /// What becomes of several addresses.
    pub spread: Spread,
    /// Name servers; `None`: the pool's.
    pub resolver: Option<Resolver>,
    /// Its service records (RFC 2782) are asked for: they say ports, weights and, with `spread: each`, who is a backup.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub services: bool,
}

/// Where an endpoint with a name is at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Initially {
    /// The system is asked for its name at load.
    pub look_up: bool,
    /// Its address, where that is not done or finds nothing.
    pub otherwise: Option<IpAddr>,
    /// It may begin without an address.
    pub may_lack: bool,
}

impl Initially {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Initially {
    fn default() -> Self {
        Self { look_up: true, otherwise: None, may_lack: false }
    }
}

impl Endpoint {
    /// The name that the system is asked for when the configuration is loaded.
    pub fn name_at_load(&self) -> Option<&str> {
        let running = self.resolve.as_ref().is_some_and(|resolving| resolving.spread == Spread::Each);
        match &self.address {
            EndpointAddress::Name { host, .. } if self.initially.look_up && !running => Some(host),
            _ => None,
        }
    }
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointAddress {
    /// An address.
    Ip(SocketAddr),
    /// A name, looked up at start; every address of it becomes an endpoint of its own (nginx) or the first is used
    /// (HAProxy), see `all_addresses`.
    Name {
        /// Host name.
        host: String,
        /// Port.
        port: u16,
        /// Each address is an endpoint.
        all_addresses: bool,
    },
    /// Unix stream socket; a leading `@` names an abstract one.
    Unix(PathBuf),
}

/// Keeping clients at their endpoint by a cookie, or by what the request says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sticky {
    /// Cookie name.
    pub cookie: String,
    /// The first of these that is not empty names the endpoint, where the mode is [`StickyMode::Route`].
    pub route: Vec<Template>,
    /// How it is made.
    pub mode: StickyMode,
    /// What stands in the cookie for an endpoint without a value of its own is made by this secret, and tells nothing of it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "weir_expr::form::secret")]
    pub key: Option<String>,
    /// The cookie does not reach the endpoint.
    pub indirect: bool,
    /// Forbid shared caching when it is set.
    pub no_cache: bool,
    /// Only on POST answers.
    pub post_only: bool,
    /// How long a client may stay away before its cookie counts no more (HAProxy `maxidle`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_idle: Option<Duration>,
    /// How long its cookie counts in all (HAProxy `maxlife`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_life: Option<Duration>,
    /// A cookie that the endpoint sets itself is left as it is (HAProxy `preserve`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preserve: bool,
    /// `HttpOnly`.
    pub http_only: bool,
    /// `Secure`.
    pub secure: bool,
    /// `Domain` attributes.
    pub domains: Vec<String>,
    /// Further attributes.
    pub attributes: Vec<String>,
}

impl Sticky {
    /// By a cookie of this name that is set for the client, without attributes.
    #[must_use]
    pub fn by(cookie: &str) -> Self {
        Self {
            cookie: cookie.to_owned(),
            route: Vec::new(),
            mode: StickyMode::Insert,
            key: None,
            indirect: false,
            no_cache: false,
            post_only: false,
            max_idle: None,
            max_life: None,
            preserve: false,
            http_only: false,
            secure: false,
            domains: Vec::new(),
            attributes: Vec::new(),
        }
    }
}

/// Active checks of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// What is done. Only connecting, or more.
    pub steps: Vec<CheckStep<crate::Pattern>>,
    /// Time between checks.
    pub interval: Duration,
    /// Each is put off by a random part of this.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// While it changes state.
    pub fast_interval: Option<Duration>,
    /// While it is down.
    pub down_interval: Option<Duration>,
    /// One check's time.
    pub timeout: Option<Duration>,
    /// Successes that bring it up.
    pub rise: u32,
    /// Failures that take it down.
    pub fall: u32,
    /// TLS of the connections that have it.
    pub tls: Option<UpstreamTls>,
    /// Before the first check.
    pub first: FirstState,
    /// A 404 drains it, and is no failure.
    pub drains_on_404: bool,
    /// Traffic has a say, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
}

/// Name servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resolver {
    /// Addresses; empty: the system's.
    pub servers: Vec<SocketAddr>,
    /// Servers given by name, with port.
    pub named_servers: Vec<(String, u16)>,
    /// Overrides the TTL of answers.
    pub valid: Option<Duration>,
    /// Whole look-up.
    pub timeout: Duration,
    /// Questions in that time.
    pub attempts: u32,
    /// Longest time from a failure to the next look-up of an endpoint's name.
    pub again: Duration,
    /// How long endpoints keep the last addresses of a name that cannot be looked up; `None`: until there are others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<NameHolds>,
    /// Look up A.
    pub ipv4: bool,
    /// Look up AAAA.
    pub ipv6: bool,
    /// What is asked of it is counted under this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}
