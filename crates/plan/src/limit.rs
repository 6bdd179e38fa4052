//! Request-rate and concurrency limits, stick tables.

use serde::Serialize;
use weir_expr::settings::LogLevel;
use weir_policy::limit::RateRule;

use crate::{ConnZoneIx, ReqZoneIx, Template};

/// Use of a request-rate zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LimitReq {
    /// Zone.
    pub zone: ReqZoneIx,
    /// Requests beyond the rate that may wait or pass, and which of them wait.
    #[serde(serialize_with = "crate::show::debug")]
    pub rule: RateRule,
    /// Status of refusals.
    pub status: u16,
    /// Level of log lines about refusals; delays are one lower.
    pub log_level: LogLevel,
    /// Count, but let pass.
    pub dry_run: bool,
}

/// Use of a concurrency zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LimitConn {
    /// Zone.
    pub zone: ConnZoneIx,
    /// Most at once.
    pub limit: u32,
    /// Status of refusals.
    pub status: u16,
    /// Level of log lines.
    pub log_level: LogLevel,
    /// Count, but let pass.
    pub dry_run: bool,
}

/// A stick table. Its entries are kept under its name as long as the rest stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StickTable {
    /// Name.
    pub name: Box<str>,
    /// The rest.
    pub config: weir_expr::StickTableConfig,
}

/// A zone of request rates. State is kept under its name as long as key and size stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReqZone {
    /// Name.
    pub name: Box<str>,
    /// Key; requests with an empty one are not counted.
    pub key: Template,
    /// Memory in bytes; bounds the number of keys.
    pub size: u64,
    /// Requests a second, in thousandths.
    pub rate_milli: u64,
}

/// A zone of concurrent requests. State is kept under its name as long as key and size stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnZone {
    /// Name.
    pub name: Box<str>,
    /// Key; requests with an empty one are not counted.
    pub key: Template,
    /// Memory in bytes; bounds the number of keys.
    pub size: u64,
    /// It is for sessions, not for requests.
    pub tcp: bool,
}

/// What counts apart under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountedZone {
    /// Under which it counts.
    pub id: weir_control::ZoneId,
    /// Its name.
    pub name: Box<str>,
    /// What it counts.
    pub kind: CountedKind,
}

/// What a zone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedKind {
    /// Requests of sites.
    Sites,
    /// Requests of routes.
    Routes,
    /// Sessions of TCP services.
    Services,
    /// Limits of rates: what became of requests.
    Rates,
    /// Limits of concurrency.
    Concurrency,
    /// What became of requests that the cache was asked for.
    Cache,
    /// Questions to name servers.
    Resolver,
}

impl CountedKind {
    /// The id of a zone of this kind.
    pub const fn id(self, name: &str) -> weir_control::ZoneId {
        weir_control::ZoneId::of(
            match self {
                Self::Sites => "site",
                Self::Routes => "route",
                Self::Services => "service",
                Self::Rates => "rate",
                Self::Concurrency => "concurrency",
                Self::Cache => "cache",
                Self::Resolver => "resolver",
            },
            name,
        )
    }
}
