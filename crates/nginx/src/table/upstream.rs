//! Words about pools (nginx.org, ngx_http_upstream_module, ngx_stream_upstream_module).

use super::entry::Kind::{Number, Text, Time};
use super::entry::places::{TU, U};
use super::entry::{Contexts, Entry, MANY};
use crate::take::args::{count, time};
use crate::take::{balance, pool, sticky};

const BOTH: Contexts = U.and(TU);

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("server", BOTH, (1, MANY), "", "An endpoint.").repeats().pool(pool::server),
    Entry::new("zone", BOTH, (1, 2), "", "Counts and failures are shared by workers.").pool(pool::zone),
    Entry::new("least_conn", BOTH, (0, 0), "", "The endpoint with fewest connections.")
        .pool(balance::least_conn),
    Entry::new("ip_hash", U, (0, 0), "", "Clients keep their endpoint by address.").pool(balance::ip_hash),
    Entry::new("hash", BOTH, (1, 2), "", "Requests keep their endpoint by a key.").pool(balance::hash),
    Entry::new("random", BOTH, (0, 2), "", "A random endpoint, or the better of two.").pool(balance::random),
    Entry::new("keepalive", U, (1, 2), "32", "Idle connections kept by a worker.").pool(pool::keepalive),
    Entry::one("keepalive_requests", U, Number, "1000", "Requests on one of them.")
        .pool(|_, p, d| p.pool.keepalive.requests = Some(count(d))),
    Entry::one("keepalive_time", U, Time, "1h", "Longest life of one.")
        .pool(|_, p, d| p.pool.keepalive.time = Some(time(d))),
    Entry::one("keepalive_timeout", U, Time, "60s", "Longest idle time of one.")
        .pool(|_, p, d| p.pool.keepalive.timeout = time(d)),
    Entry::new("resolver", BOTH, (1, MANY), "", "Name servers for endpoints with `resolve`.")
        .pool(pool::resolver),
    Entry::one("resolver_timeout", BOTH, Time, "30s", "Time of a look-up.")
        .pool(|_, p, d| p.resolver_timeout = Some(time(d))),
    Entry::new("least_time", BOTH, (1, 2), "", "The endpoint that answers soonest.")
        .pool(balance::least_time),
    Entry::new("sticky", U, (1, MANY), "", "Keeps clients at their endpoint.").pool(sticky::sticky),
    Entry::new("sticky_cookie_insert", U, (1, MANY), "", "Old form of sticky.")
        .removed("nginx dropped it in 1.5.7; write `sticky cookie …`"),
    Entry::new("queue", U, (1, 2), "", "Requests wait for an endpoint.").pool(pool::queue),
    Entry::new("weir_outliers", BOTH, (1, MANY), "", "Leaves out endpoints that fail or are slow.")
        .pool(pool::outliers),
    Entry::new(
        "weir_panic_threshold",
        BOTH,
        (1, 1),
        "0%",
        "Below this share of live endpoints all are used.",
    )
    .pool(pool::panic_threshold),
    Entry::new(
        "weir_hash_balance_factor",
        BOTH,
        (1, 1),
        "0",
        "Bounds an endpoint's load under `hash … consistent`.",
    )
    .pool(pool::load_percent),
    Entry::new("weir_maglev", BOTH, (1, 1), "", "Requests keep their endpoint by a key, by Maglev.")
        .pool(balance::maglev),
    Entry::new("weir_peak_ewma", BOTH, (0, 1), "", "The better of two endpoints by peaks of their times.")
        .pool(balance::peak_ewma),
    Entry::new("weir_locality", BOTH, (1, 2), "", "Prefers endpoints of a zone.").pool(pool::locality),
    Entry::one("weir_max_pending", BOTH, Number, "", "Most requests that wait for an answer to begin.")
        .pool(pool::max_pending),
    Entry::new("weir_retry_budget", BOTH, (1, 2), "", "Bounds retries by a share of requests.")
        .pool(pool::retry_budget),
    Entry::one("weir_sticky_key", U, Text, "", "Secret of the values of sticky cookies.")
        .pool(|_, p, d| p.sticky_key = Some((d.arg(0).to_owned(), d.span))),
    Entry::one("state", BOTH, Text, "", "File that keeps the endpoints.")
        .pool(|lo, p, d| p.state = Some((lo.conf_path(d.arg(0)), d.span))),
    Entry::new("ntlm", U, (0, 0), "", "NTLM authentication through connections.")
        .not_yet("connections bound to clients are not built"),
    Entry::new("fair", U, (0, MANY), "", "A third-party balancer.")
        .not_yet("the third-party balancer `fair` is not built; `least_conn` is near"),
    Entry::new("check", BOTH, (0, MANY), "", "A third-party health check.")
        .not_yet("the third-party health checks are not built"),
];
