//! The document that the dashboard's page and `weir top` read (`status.json`).
//!
//! Owns: its names; which endpoints are in it.
//! Never: makes a rate or a quantile of an interval: whoever reads it twice can.
//! Driven by: `dashboard`.
//! Why not the snapshot itself: that follows what pages need from the inside; this one is read by others, so its names are kept, and
//! what is added is added beside them. `format` says when that was not enough.

use std::collections::HashMap;

use serde::Serialize;
use weir_control::requests::{self, InFlight, Stage};
use weir_control::snapshot::{
    Back, Classes, Endpoint, EndpointState, Front, HealthReport, Latency, ListenerState, Pool, Process, Tls,
};
use weir_control::{AdminState, PoolId, SiteId};

use super::{Observed, USUAL};

/// Changes when something that was there means something else, or is gone.
const FORMAT: u32 = 1;

/// With more endpoints than this in all, only those of pools that were asked for are in it.
const MOST_ENDPOINTS: usize = 2048;

/// What a request asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Entries of each list of requests.
    pub(super) requests: usize,
    /// Pools whose endpoints are wanted in any case.
    pub(super) pools: Vec<String>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { requests: USUAL, pools: Vec::new() }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    now_unix_ms: u64,
    /// Whoever asked may change endpoints.
    write: bool,
    process: &'a Process,
    listeners: Vec<ListenerRow<'a>>,
    sites: Vec<SiteRow<'a>>,
    routes: Vec<RouteRow<'a>>,
    pools: Vec<PoolRow<'a>>,
    requests: RequestLists<'a>,
    certificates: Vec<CertificateRow<'a>>,
    memory_caches: Vec<CacheRow<'a>>,
}

#[derive(Serialize)]
struct ListenerRow<'a> {
    name: &'a str,
    protocol: &'a str,
    state: &'static str,
    connections: u64,
    connections_peak: u64,
    connections_limit: Option<u64>,
    connections_total: u64,
    requests: u64,
    tls: &'a Tls,
}

/// What sites and routes both have.
#[derive(Serialize)]
struct FrontRow<'a> {
    requests: u64,
    /// In the last second.
    requests_per_second: u64,
    responses: ResponseClasses,
    bytes_in: u64,
    bytes_out: u64,
    denied: u64,
    errors: u64,
    cache_lookups: u64,
    cache_hits: u64,
    latency: FrontLatency<'a>,
}

/// In microseconds.
#[derive(Serialize)]
struct FrontLatency<'a> {
    first_byte: Distribution<'a>,
    transfer: Distribution<'a>,
    total: Distribution<'a>,
}

#[derive(Serialize)]
struct SiteRow<'a> {
    name: &'a str,
    mode: &'a str,
    paused: bool,
    connections: u64,
    connections_peak: u64,
    connections_limit: Option<u64>,
    connections_total: u64,
    tls: &'a Tls,
    #[serde(flatten)]
    front: FrontRow<'a>,
}

#[derive(Serialize)]
struct RouteRow<'a> {
    site: &'a str,
    name: &'a str,
    #[serde(flatten)]
    front: FrontRow<'a>,
}

#[derive(Serialize)]
struct BackRow<'a> {
    in_flight: u64,
    in_flight_peak: u64,
    limit: Option<u64>,
    queued: u64,
    attempts: u64,
    /// In the last second.
    attempts_per_second: u64,
    responses: ResponseClasses,
    bytes_in: u64,
    bytes_out: u64,
    connects: u64,
    reuses: u64,
    connect_errors: u64,
    response_errors: u64,
    retries: u64,
    redispatches: u64,
    client_aborts: u64,
    server_aborts: u64,
    latency: BackLatency<'a>,
}

/// In microseconds.
#[derive(Serialize)]
struct BackLatency<'a> {
    connect: Distribution<'a>,
    first_byte: Distribution<'a>,
    transfer: Distribution<'a>,
    total: Distribution<'a>,
}

#[derive(Serialize)]
struct PoolRow<'a> {
    name: &'a str,
    mode: &'a str,
    balance: &'a str,
    active: usize,
    backups: usize,
    last_change_ms: u64,
    downtime_ms: u64,
    #[serde(flatten)]
    back: BackRow<'a>,
    endpoint_count: usize,
    endpoints: Vec<EndpointRow<'a>>,
}

#[derive(Serialize)]
struct EndpointRow<'a> {
    name: &'a str,
    address: &'a str,
    host: &'a Option<String>,
    state: &'static str,
    /// What an operator asked for.
    asked: AdminState,
    backup: bool,
    tls: bool,
    weight: u32,
    weight_configured: u32,
    fails: u32,
    idle: u64,
    last_change_ms: u64,
    downtime_ms: u64,
    check: &'a Option<HealthReport>,
    #[serde(flatten)]
    back: BackRow<'a>,
}

#[derive(Serialize)]
struct Distribution<'a> {
    count: u64,
    sum_us: u64,
    p50_us: u64,
    p95_us: u64,
    p99_us: u64,
    /// Upper bound in microseconds and how many were in this bucket alone, since the start.
    steps: &'a [(u64, u64)],
}

#[derive(Serialize)]
struct ResponseClasses {
    #[serde(rename = "1xx")]
    informational: u64,
    #[serde(rename = "2xx")]
    success: u64,
    #[serde(rename = "3xx")]
    redirect: u64,
    #[serde(rename = "4xx")]
    client_error: u64,
    #[serde(rename = "5xx")]
    server_error: u64,
    other: u64,
}

#[derive(Serialize)]
struct RequestLists<'a> {
    /// Served now, shown or not; without those of this page.
    total: u64,
    in_flight: Vec<InFlightRow<'a>>,
    slowest: Vec<FinishedRow<'a>>,
    failed: Vec<FinishedRow<'a>>,
    /// Workers that were too busy to answer.
    silent_workers: u64,
}

#[derive(Serialize)]
struct AskedRow<'a> {
    method: &'a str,
    target: &'a str,
    client: &'a str,
    site: &'a str,
    pool: Option<&'a str>,
    endpoint: &'a str,
}

#[derive(Serialize)]
struct InFlightRow<'a> {
    worker: u16,
    age_us: u64,
    stage: Stage,
    #[serde(flatten)]
    asked: AskedRow<'a>,
}

#[derive(Serialize)]
struct FinishedRow<'a> {
    ended_unix_ms: u64,
    took_us: u64,
    status: u16,
    ending: &'static str,
    attempts: u32,
    #[serde(flatten)]
    asked: AskedRow<'a>,
}

#[derive(Serialize)]
struct CertificateRow<'a> {
    name: &'a str,
    /// It was given while running, in place of the configuration's.
    given: bool,
}

#[derive(Serialize)]
struct CacheRow<'a> {
    name: &'a str,
    bytes: u64,
    bytes_limit: u64,
    responses: usize,
}

pub(super) fn render(observed: &Observed, asked: &Asked, write: bool) -> String {
    let snapshot = &observed.snapshot;
    let sites: HashMap<SiteId, &str> =
        snapshot.sites.iter().map(|site| (site.id, site.name.as_str())).collect();
    let pools: HashMap<PoolId, &str> =
        snapshot.pools.iter().map(|pool| (pool.id, pool.name.as_str())).collect();
    let names = Names { sites, pools };
    let few = snapshot.pools.iter().map(|pool| pool.endpoints.len()).sum::<usize>() <= MOST_ENDPOINTS;
    let with_endpoints = |pool: &Pool| few || asked.pools.contains(&pool.name);
    let document = Document {
        format: FORMAT,
        now_unix_ms: observed.now_unix_ms,
        write,
        process: &snapshot.process,
        listeners: snapshot.listeners.iter().map(listener).collect(),
        sites: snapshot.sites.iter().map(site).collect(),
        routes: snapshot
            .routes
            .iter()
            .map(|route| RouteRow {
                site: names.site(route.site),
                name: &route.name,
                front: front(&route.front),
            })
            .collect(),
        pools: snapshot.pools.iter().map(|one| pool(one, with_endpoints(one))).collect(),
        requests: lists(&observed.requests, &names),
        certificates: observed
            .certificates
            .iter()
            .map(|(name, given)| CertificateRow { name, given: *given })
            .collect(),
        memory_caches: observed
            .caches
            .iter()
            .map(|cache| CacheRow {
                name: &cache.name,
                bytes: cache.used,
                bytes_limit: cache.total,
                responses: cache.responses.len(),
            })
            .collect(),
    };
    // Plain figures and texts: there is nothing in it that JSON cannot say.
    serde_json::to_string(&document).unwrap_or_else(|_| "{}".to_owned())
}

struct Names<'a> {
    sites: HashMap<SiteId, &'a str>,
    pools: HashMap<PoolId, &'a str>,
}

impl<'a> Names<'a> {
    /// Empty where the configuration that runs has it no more.
    fn site(&self, id: SiteId) -> &'a str {
        self.sites.get(&id).copied().unwrap_or_default()
    }

    fn asked(&self, asked: &'a requests::Asked) -> AskedRow<'a> {
        AskedRow {
            method: &asked.method,
            target: &asked.target,
            client: &asked.client,
            site: self.site(asked.site),
            pool: asked.pool.and_then(|id| self.pools.get(&id).copied()),
            endpoint: &asked.endpoint,
        }
    }
}

fn lists<'a>(requests: &'a requests::Requests, names: &Names<'a>) -> RequestLists<'a> {
    let in_flight = |one: &'a InFlight| InFlightRow {
        worker: one.worker,
        age_us: one.age_us,
        stage: one.stage,
        asked: names.asked(&one.asked),
    };
    let finished = |one: &'a requests::Finished| FinishedRow {
        ended_unix_ms: one.ended_unix_ms,
        took_us: one.took_us,
        status: one.status,
        ending: one.ending,
        attempts: one.attempts,
        asked: names.asked(&one.asked),
    };
    RequestLists {
        total: requests.total,
        in_flight: requests.in_flight.iter().map(in_flight).collect(),
        slowest: requests.slowest.iter().map(finished).collect(),
        failed: requests.failed.iter().map(finished).collect(),
        silent_workers: requests.silent,
    }
}

fn listener(listener: &weir_control::snapshot::Listener) -> ListenerRow<'_> {
    let front = &listener.front;
    ListenerRow {
        name: &listener.name,
        protocol: &listener.protocol,
        state: match listener.state {
            ListenerState::Open => "open",
            ListenerState::Full => "full",
            ListenerState::Retiring => "retiring",
            ListenerState::Closed => "closed",
        },
        connections: front.current,
        connections_peak: front.peak,
        connections_limit: front.limit,
        connections_total: front.total,
        requests: front.requests,
        tls: &front.tls,
    }
}

fn site(site: &weir_control::snapshot::Site) -> SiteRow<'_> {
    SiteRow {
        name: &site.name,
        mode: &site.mode,
        paused: site.paused,
        connections: site.front.current,
        connections_peak: site.front.peak,
        connections_limit: site.front.limit,
        connections_total: site.front.total,
        tls: &site.front.tls,
        front: front(&site.front),
    }
}

fn front(front: &Front) -> FrontRow<'_> {
    FrontRow {
        requests: front.requests,
        requests_per_second: front.rates.requests,
        responses: classes(&front.responses),
        bytes_in: front.bytes_in,
        bytes_out: front.bytes_out,
        denied: front.denied_requests + front.denied_responses,
        errors: front.request_errors + front.internal_errors,
        cache_lookups: front.cache[0],
        cache_hits: front.cache[1],
        latency: FrontLatency {
            first_byte: distribution(&front.first_byte),
            transfer: distribution(&front.transfer),
            total: distribution(&front.latency),
        },
    }
}

fn pool(pool: &Pool, with_endpoints: bool) -> PoolRow<'_> {
    let endpoints = pool.endpoints.iter().filter(|_| with_endpoints);
    PoolRow {
        name: &pool.name,
        mode: &pool.mode,
        balance: &pool.balance,
        active: pool.active(),
        backups: pool.backups(),
        last_change_ms: pool.last_change_ms,
        downtime_ms: pool.downtime_ms,
        back: back(&pool.back),
        endpoint_count: pool.endpoints.len(),
        endpoints: endpoints.map(endpoint).collect(),
    }
}

fn endpoint(endpoint: &Endpoint) -> EndpointRow<'_> {
    EndpointRow {
        name: &endpoint.name,
        address: &endpoint.address,
        host: &endpoint.host,
        state: match endpoint.state {
            EndpointState::Up => "up",
            EndpointState::Down => "down",
            EndpointState::Draining => "draining",
            EndpointState::Maintenance => "maintenance",
        },
        asked: endpoint.asked,
        backup: endpoint.backup,
        tls: endpoint.tls,
        weight: endpoint.weight,
        weight_configured: endpoint.written_weight,
        fails: endpoint.fails,
        idle: endpoint.idle,
        last_change_ms: endpoint.last_change_ms,
        downtime_ms: endpoint.downtime_ms,
        check: &endpoint.health,
        back: back(&endpoint.back),
    }
}

fn back(back: &Back) -> BackRow<'_> {
    BackRow {
        in_flight: back.current,
        in_flight_peak: back.peak,
        limit: back.limit,
        queued: back.queued,
        attempts: back.total,
        attempts_per_second: back.rates.sessions,
        responses: classes(&back.responses),
        bytes_in: back.bytes_in,
        bytes_out: back.bytes_out,
        connects: back.connects,
        reuses: back.reuses,
        connect_errors: back.connect_errors,
        response_errors: back.response_errors,
        retries: back.retries,
        redispatches: back.redispatches,
        client_aborts: back.client_aborts,
        server_aborts: back.server_aborts,
        latency: BackLatency {
            connect: distribution(&back.connect),
            first_byte: distribution(&back.latency),
            transfer: distribution(&back.transfer),
            total: distribution(&back.whole),
        },
    }
}

fn distribution(latency: &Latency) -> Distribution<'_> {
    Distribution {
        count: latency.count,
        sum_us: latency.sum_us,
        p50_us: latency.p50_us,
        p95_us: latency.p95_us,
        p99_us: latency.p99_us,
        steps: &latency.steps,
    }
}

fn classes(classes: &Classes) -> ResponseClasses {
    ResponseClasses {
        informational: classes.informational,
        success: classes.success,
        redirect: classes.redirect,
        client_error: classes.client_error,
        server_error: classes.server_error,
        other: classes.other,
    }
}
