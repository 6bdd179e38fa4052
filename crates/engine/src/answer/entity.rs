//! Fields that speak of the bytes of a body, once a filter makes other bytes of them.
//!
//! Owns: which fields go, and how an ETag is weakened.
//! Driven by: the filters of `answer::filters`.

use weir_http::HeaderId;

use crate::exchange::Exchange;
use crate::exchange::fields::Fields;

/// The length is another, and ranges of the old body are not ranges of the new one.
pub(super) fn drop_length(exchange: &mut Exchange) {
    exchange.response.fields.remove(HeaderId::ContentLength);
    exchange.response.fields.remove(HeaderId::AcceptRanges);
}

/// The body may change without its source: nothing says when it did.
pub(super) fn drop_validators(exchange: &mut Exchange) {
    exchange.response.fields.remove(HeaderId::LastModified);
    exchange.response.fields.remove(HeaderId::ETag);
}

/// The bytes differ from what a strong tag stands for.
pub(super) fn weaken(fields: &mut Fields) {
    fields.rewrite(HeaderId::ETag, |tag| (!tag.starts_with(b"W/")).then(|| [b"W/", tag].concat()));
}

/// The media type of the body, with its parameters.
pub(super) fn content_type(exchange: &Exchange) -> Option<&[u8]> {
    exchange.response.fields.first(HeaderId::ContentType)
}
