//! Pools of endpoints.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_control::PoolId;
use weir_expr::check::{CheckStep, FirstState, Observe};
use weir_expr::settings::{NameHolds, Outliers, PoolGroup, RetryBudget, Unavailable};
use weir_policy::pool::PoolConfig;

use crate::{EndpointSet, Pattern, Queue, StickyMode, Template, UpstreamKeepalive, UpstreamTlsUse};

/// Endpoints that serve the same thing.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// Stable id, from the name: what counters and health are kept under.
    pub id: PoolId,
    /// For people and metrics.
    pub name: Box<str>,
    /// Its endpoints as they were written. Those that there are now the engine keeps beside the plan.
    #[serde(flatten)]
    pub set: Arc<EndpointSet>,
    /// What the method hashes.
    pub key: BalanceKey,
    /// Idle connections to endpoints.
    pub keepalive: UpstreamKeepalive,
    /// Requests wait here when all endpoints are full.
    pub queue: Option<Queue>,
    /// Rules that name the endpoint: the first that holds and whose endpoint can be used.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub assigned: Box<[EndpointRule]>,
    /// What becomes of persistence: the first rule that holds decides.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub persistence: Box<[PersistenceRule]>,
    /// A cookie keeps clients at their endpoint.
    pub sticky: Option<Sticky>,
    /// Stick tables keep keys at their endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stickiness: Option<Box<Stickiness>>,
    /// What is answered where no endpoint serves.
    #[serde(skip_serializing_if = "Unavailable::is_default")]
    pub unavailable: Unavailable,
    /// When endpoints are left out for what traffic meets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// What bounds the work that is made of trouble.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guards: Option<Box<Guards>>,
    /// How it is named to whoever changes it while running; `None`: by its name alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<PoolGroup>>,
}

/// What bounds the work that is made of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guards {
    /// Exchanges that may wait for an answer to begin; 0: no bound.
    pub max_pending: u32,
    /// What retries may add to requests.
    pub retry_budget: Option<RetryBudget>,
}

/// Names the endpoint of a request.
#[derive(Clone, Debug, Serialize)]
pub struct EndpointRule {
    /// The endpoint's name.
    pub endpoint: Template,
    /// Only if this holds.
    pub condition: Option<crate::Condition>,
}

/// Says what becomes of persistence.
#[derive(Clone, Debug, Serialize)]
pub struct PersistenceRule {
    /// An endpoint that is down is used all the same; if not, cookies are ignored.
    pub force: bool,
    /// Only if this holds.
    pub condition: Option<crate::Condition>,
}

/// How a pool keeps keys at its endpoints by stick tables.
#[derive(Clone, Debug, Serialize)]
pub struct Stickiness {
    /// In order: the first that knows a key decides.
    pub rules: Box<[StickRule]>,
    /// Numbers of endpoints that are never learnt.
    pub never: Box<[u32]>,
    /// Entries hold what an endpoint is called, not its number; an empty key is none.
    pub by_name: bool,
}

/// One way to know an endpoint again.
#[derive(Clone, Debug, Serialize)]
pub struct StickRule {
    /// The table.
    pub table: Box<str>,
    /// The key.
    pub key: Template,
    /// Only if this holds.
    pub condition: Option<crate::Condition>,
    /// Known keys go to their endpoint.
    pub matches: bool,
    /// The endpoint that serves is learnt.
    pub stores: bool,
    /// By the response, rather than by the request.
    pub response: bool,
}

/// What a balancing method hashes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BalanceKey {
    /// Nothing.
    None,
    /// The client's address.
    Client,
    /// A computed text, be it empty.
    Text(Template),
    /// A computed text; where it is empty endpoints take turns.
    TextOrTurns(Template),
}

/// A host name and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HostPort {
    /// Host name.
    pub host: Box<str>,
    /// Port.
    pub port: u16,
}

/// Keeping clients at their endpoint by a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sticky {
    /// Cookie name.
    pub cookie: Box<str>,
    /// What names the endpoint, in [`StickyMode::Route`].
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub route: Box<[Template]>,
    /// How it is made.
    pub mode: StickyMode,
    /// The cookie does not reach the endpoint.
    pub indirect: bool,
    /// Forbid shared caching when it is set.
    pub no_cache: bool,
    /// Only on POST answers.
    pub post_only: bool,
    /// How long a client may stay away before its cookie counts no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_idle: Option<Duration>,
    /// How long its cookie counts in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_life: Option<Duration>,
    /// A cookie that the endpoint sets itself is left as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preserve: bool,
    /// What follows the value in `Set-Cookie`: `; path=/; HttpOnly …`.
    pub attributes: Box<str>,
}

/// Active checks of an endpoint.
#[derive(Clone, Debug, Serialize)]
pub struct HealthCheck {
    /// What is done. Only connecting, or more.
    pub steps: Vec<CheckStep<Arc<Pattern>>>,
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
    pub tls: Option<UpstreamTlsUse>,
    /// Before the first check.
    pub first: FirstState,
    /// A 404 drains it, and is no failure.
    pub drains_on_404: bool,
    /// Traffic has a say, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
}

/// Name servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Resolver {
    /// Addresses; empty: the system's.
    pub servers: Vec<SocketAddr>,
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
    /// What is asked is counted under this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Box<str>>,
}

pub(crate) fn show_config<S: serde::Serializer>(
    config: &Arc<PoolConfig>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let endpoints: Vec<String> = config
        .endpoints()
        .iter()
        .map(|endpoint| {
            let backup = if endpoint.backup { " backup" } else { "" };
            let down = if endpoint.down { " down" } else { "" };
            format!(
                "{} weight={} max_conns={} max_fails={} fail_timeout={:?} slow_start={:?}{backup}{down}",
                endpoint.name,
                endpoint.weight,
                endpoint.max_conns,
                endpoint.max_fails,
                endpoint.fail_timeout,
                endpoint.slow_start,
            )
        })
        .collect();
    #[derive(Serialize)]
    struct Shown {
        balance: String,
        options: String,
        endpoints: Vec<String>,
    }
    let balance = format!("{:?}", config.balance());
    Shown { balance, options: format!("{:?}", config.options()), endpoints }.serialize(serializer)
}
