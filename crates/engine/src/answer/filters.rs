//! The filters of bodies, and which routes have them.
//!
//! Owns: their list, in the order in which a body passes through them.
//! Never: changes a body; each filter does, in a file of its own.
//! Driven by: `respond::start`, which asks once whether a route has any of them.

use weir_plan::RouteFeatures;

use super::{addition, charset, commands, compress, replace, trailers, unpack};
use crate::exchange::{BodySize, Exchange};

/// One filter.
struct Declared {
    /// A route without this has no use for it.
    feature: RouteFeatures,
    /// Decides whether it applies to an answer, and joins the exchange's filters then; the size that the body has now.
    begin: fn(&mut Exchange, BodySize) -> BodySize,
}

/// All of them, in nginx's order. Compression comes last: it reads what the others write.
const FILTERS: [Declared; 7] = [
    Declared { feature: RouteFeatures::FILTERS, begin: unpack::begin },
    Declared { feature: RouteFeatures::FILTERS, begin: replace::begin },
    Declared { feature: RouteFeatures::CHARSET, begin: charset::begin },
    Declared { feature: RouteFeatures::FILTERS, begin: commands::begin },
    Declared { feature: RouteFeatures::FILTERS, begin: addition::begin },
    Declared { feature: RouteFeatures::FILTERS, begin: trailers::begin },
    Declared { feature: RouteFeatures::COMPRESSION, begin: compress::begin },
];

/// What routes with any filter have.
pub(crate) const ANY: RouteFeatures = {
    let (mut any, mut at) = (RouteFeatures::empty(), 0);
    while at < FILTERS.len() {
        any = any.union(FILTERS[at].feature);
        at += 1;
    }
    any
};

/// What routes have whose files are not sent as they are: a charset that is known at load stands with their media types.
pub(crate) const OF_FILES: RouteFeatures = ANY.difference(RouteFeatures::CHARSET);

/// Asks each filter of the route whether it applies to the answer that begins.
pub(crate) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let features = exchange.route().features;
    let of_route = FILTERS.iter().filter(|filter| features.intersects(filter.feature));
    of_route.fold(size, |size, filter| (filter.begin)(exchange, size))
}

/// Whether the body of an answer of this Content-Type will be another than the file that it is made of: ranges of that
/// file are no ranges of it.
pub(crate) fn rewrite(exchange: &Exchange, content_type: &[u8]) -> bool {
    let route = exchange.route();
    if !route.features.intersects(RouteFeatures::FILTERS) {
        return false;
    }
    let Some(filters) = &route.settings.filters else { return false };
    let content_type = Some(content_type).filter(|value| !value.is_empty());
    filters.replace.as_ref().is_some_and(|replace| replace.types.take(content_type))
        || filters.commands.as_ref().is_some_and(|commands| commands.types.take(content_type))
        || filters.addition.as_ref().is_some_and(|addition| addition.types.take(content_type))
        || filters.charset.as_ref().is_some_and(|one| charset::may_convert(one, content_type))
}
