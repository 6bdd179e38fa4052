//! Trailers that a route adds to responses.
//!
//! Owns: whether a response gets any, and their values, which are made when its body has ended.
//! Never: changes a body.
//! Driven by: `answer::filters` when a response begins, `respond::end` when it ends.

use weir_http::{HeaderId, Version};

use crate::eval::text;
use crate::exchange::fields::Fields;
use crate::exchange::{BodyFilter, BodySize, Exchange, Then};

/// Stands in the list of filters so that the end of the body is not taken for the end of the response.
struct Follows;

impl BodyFilter for Follows {
    fn pass<'a>(&'a mut self, piece: &'a [u8], _: Then) -> &'a [u8] {
        piece
    }
}

/// Decides on trailers; the size that the body then has: HTTP/1.1 has room for them only behind chunks.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let settings = &installed.plan.route(exchange.route).settings;
    let Some(filters) = settings.filters.as_ref().filter(|filters| !filters.trailers.is_empty()) else {
        return size;
    };
    let version = exchange.request.version;
    let has_room = version > Version::Http11 || version == Version::Http11 && settings.chunked;
    let status = exchange.response.status;
    let any = filters.trailers.iter().any(|trailer| trailer.holds_for(status));
    if size == BodySize::Bodiless || !has_room || !any {
        return size;
    }
    exchange.filters.push(Box::new(Follows));
    if version > Version::Http11 {
        return size;
    }
    exchange.response.fields.remove(HeaderId::ContentLength);
    BodySize::Unknown
}

/// These trailers and the route's, where it has any for this response.
pub(super) fn with_own(exchange: &Exchange, others: &Fields) -> Option<Fields> {
    let installed = exchange.installed.clone();
    let filters = installed.plan.route(exchange.route).settings.filters.as_ref()?;
    let mut all = others.clone();
    for trailer in filters.trailers.iter().filter(|trailer| trailer.holds_for(exchange.response.status)) {
        let value = text(exchange, &trailer.value);
        if !value.is_empty() {
            all.push_known(trailer.name.id, trailer.name.name.as_bytes(), &value);
        }
    }
    Some(all)
}
