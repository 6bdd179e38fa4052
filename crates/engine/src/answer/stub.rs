//! What stands for an answer that has nothing to say: `stub` of a page's `include`.
//!
//! Owns: when there is one, and sending it.
//! Driven by: the walk, for requests of our own.

use weir_http::HeaderId;
use weir_plan::{Respond, RespondBody};

use super::respond;
use crate::exchange::{Downstream, Exchange};

/// Whether something is to be said for an answer without a body of its own, and nothing was said yet.
pub(crate) fn is_wanted(exchange: &Exchange) -> bool {
    let asked_for = exchange.asked_for.as_ref();
    asked_for.is_some_and(|asked| asked.stub.is_some()) && !exchange.response.head_sent
}

/// As [`is_wanted`], for an answer of which only the status is given.
pub(crate) fn is_wanted_for(exchange: &Exchange, respond: &Respond) -> bool {
    respond.status >= 300
        && matches!(respond.body, RespondBody::Standard | RespondBody::Redirect(_))
        && is_wanted(exchange)
}

/// Whether there is a stub for an answer that has no body of its own; it is sent then.
pub(crate) async fn instead<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> bool {
    let Some(stub) = exchange.asked_for.as_mut().and_then(|asked| asked.stub.take()) else { return false };
    exchange.filters.clear();
    exchange.page = None;
    exchange.status_override = None;
    exchange.response.fields.clear();
    (exchange.response.status, exchange.response.reason) = (200, None);
    exchange.response.fields.push_id(HeaderId::ContentType, &stub.content_type);
    respond::whole(exchange, down, &stub.body).await;
    true
}
