//! What is counted apart, under names that a configuration gives for that.
//!
//! Owns: the figures of such zones: of sites, routes and services, of limits, caches and resolvers.
//! Never: says which zone counts what; the plan does.
//! Driven by: `engine`, which fills them; `admin`, which renders them.

use serde::Serialize;

use crate::snapshot::{Connections, Front};

/// All zones.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Zones {
    /// Of sites.
    pub sites: Vec<Zone>,
    /// Of routes.
    pub routes: Vec<Zone>,
    /// Of TCP services.
    pub services: Vec<Zone>,
    /// Of limits of rates.
    pub rates: Vec<LimitZone>,
    /// Of limits of concurrency, for requests and for sessions.
    pub concurrency: Vec<LimitZone>,
    /// Of the cache.
    pub caches: Vec<CacheZone>,
    /// Of resolvers.
    pub resolvers: Vec<ResolverZone>,
    /// Each worker by itself.
    pub workers: Vec<Worker>,
}

/// What clients did to a zone.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// It counts TLS.
    pub tls: bool,
    /// What came in.
    pub front: Front,
    /// Under way.
    pub processing: u64,
    /// Ended without any response.
    pub discarded: u64,
    /// Responses by code, in order.
    pub codes: Vec<(u16, u64)>,
}

/// A zone of limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitZone {
    /// Its name.
    pub name: String,
    /// It limits sessions, not requests.
    pub tcp: bool,
    /// Let pass.
    pub passed: u64,
    /// Delayed.
    pub delayed: u64,
    /// Turned down.
    pub rejected: u64,
    /// Would have been delayed.
    pub delayed_dry_run: u64,
    /// Would have been turned down.
    pub rejected_dry_run: u64,
    /// Bytes of memory that it may have.
    pub bytes: u64,
    /// Keys in it, where that is known.
    pub keys: u64,
}

/// What became of requests that the cache was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCount {
    /// Responses.
    pub responses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of those responses, the ones that were written to the cache.
    pub responses_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
}

/// A zone of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheZone {
    /// Its name.
    pub name: String,
    /// Bytes that it has.
    pub size: u64,
    /// The most that it may have; `None`: no bound.
    pub max_size: Option<u64>,
    /// What is in the folder is still being read.
    pub cold: bool,
    /// Served from it.
    pub hit: CacheCount,
    /// Served from it though too old, since the endpoint failed.
    pub stale: CacheCount,
    /// Served from it though too old, since a newer one was on its way.
    pub updating: CacheCount,
    /// Served from it after the endpoint said that it still holds.
    pub revalidated: CacheCount,
    /// Not in it.
    pub miss: CacheCount,
    /// Too old.
    pub expired: CacheCount,
    /// The cache was not asked.
    pub bypass: CacheCount,
}

/// A zone of a resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResolverZone {
    /// Its name.
    pub name: String,
    /// Questions for the addresses of names.
    pub names: u64,
    /// Questions for services.
    pub services: u64,
    /// Questions for the names of addresses.
    pub addresses: u64,
    /// Answers, by [`ResolverZone::WORDS`].
    pub answers: [u64; 8],
}

impl ResolverZone {
    /// What may come of a question (RFC 1035 §4.1.1), or does not come.
    pub const WORDS: [&str; 8] =
        ["noerror", "formerr", "servfail", "nxdomain", "notimp", "refused", "timedout", "unknown"];
}

/// A worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its number, from zero.
    pub id: u16,
    /// Client connections.
    pub connections: Connections,
    /// Requests begun.
    pub requests: u64,
    /// Requests under way.
    pub current: u64,
}
