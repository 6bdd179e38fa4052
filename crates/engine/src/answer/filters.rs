//! The filters of bodies, and which routes have them.
//!
//! Owns: their list, in the order in which a body passes through them.
//! Never: changes a body; each filter does, in a file of its own.
//! Driven by: `respond::start`, which asks once whether a route has any of them.

use weir_plan::RouteFeatures;

use super::compress;
use crate::exchange::{BodySize, Exchange};

/// One filter.
struct Declared {
    /// A route without this has no use for it.
    feature: RouteFeatures,
    /// Decides whether it applies to an answer, and joins the exchange's filters then; the size that the body has now.
    begin: fn(&mut Exchange, BodySize) -> BodySize,
}

/// All of them. Compression comes last: the others read what it writes.
const FILTERS: [Declared; 1] = [Declared { feature: RouteFeatures::GZIP, begin: compress::begin }];

/// What routes with any filter have.
pub(crate) const ANY: RouteFeatures = {
    let (mut any, mut at) = (RouteFeatures::empty(), 0);
    while at < FILTERS.len() {
        any = any.union(FILTERS[at].feature);
        at += 1;
    }
    any
};

/// Asks each filter of the route whether it applies to the answer that begins.
pub(crate) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let features = exchange.route().features;
    let of_route = FILTERS.iter().filter(|filter| features.intersects(filter.feature));
    of_route.fold(size, |size, filter| (filter.begin)(exchange, size))
}
