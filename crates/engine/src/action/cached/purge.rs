//! Requests that remove what is stored (`proxy_cache_purge`).
//!
//! Owns: which objects of a zone such a request means, and what it is answered.
//! Never: asks an upstream.
//! Driven by: the cache, where a condition of the configuration says that a request removes.

use std::time::Instant;

use super::find::{self, Found};
use crate::action::later::Later;
use crate::exchange::{Exchange, Next};

/// Removes the objects of a request's key with all their variants: with `*` at its end, those of all keys that begin so.
/// 204: they are gone. 404: there was no such object.
pub(super) async fn run(exchange: &mut Exchange) -> Next<Later> {
    let Some(caching) = &mut exchange.caching else { return Next::Status(500) };
    (caching.stores, caching.whole, caching.invalidates) = (false, false, false);
    if let Some(beginning) = caching.name.strip_suffix(b"*") {
        let taken = caching.store.purge(beginning, Instant::now());
        return Next::Status(if taken { 204 } else { 503 });
    }
    let found = find::one(exchange).await;
    let Some(caching) = &exchange.caching else { return Next::Status(500) };
    // What could not be read in time, or is being fetched, goes as well.
    caching.store.remove(&caching.main, Instant::now());
    Next::Status(if matches!(found, Found::Missing { .. }) { 404 } else { 204 })
}
