//! What an answer of an endpoint becomes for the client once its fields have passed, whatever protocol brought it.
//!
//! Owns: whether something of ours takes its place, and how its body is announced.
//! Never: carries the body.
//! Driven by: the actions that ask endpoints, and the cache.

use weir_expr::settings::UpstreamSettings;
use weir_http::HeaderId;
use weir_plan::{HeaderSet, StoreFiles};

use super::cached::{keep, slice};
use super::stored;
use crate::answer::respond;
use crate::exchange::{BodySize, Downstream, Exchange, Next};

/// Whether an error page is shown in the place of an answer with this status.
pub(super) fn intercepts(exchange: &Exchange, settings: &UpstreamSettings, status: u16) -> bool {
    settings.intercept_errors && status >= 300 && exchange.route().settings.error_pages.find(status).is_some()
}

/// What takes the place of an answer: where `X-Accel-Redirect` sends it, or an error page.
pub(super) fn instead<L>(
    exchange: &mut Exchange,
    redirected: Option<Next<L>>,
    intercepted: bool,
    ignored: &HeaderSet,
) -> Option<Next<L>> {
    if redirected.is_some() || !intercepted {
        return redirected;
    }
    if exchange.caching.is_some() {
        keep::intercepted(exchange, ignored);
    }
    Some(Next::Status(exchange.response.status))
}

/// Forgets the fields of an answer that is not sent, but for the challenges of 401, which its page shows.
pub(super) fn forget_fields(exchange: &mut Exchange) {
    let challenges = exchange.response.status == 401;
    exchange.response.fields.retain(|field| challenges && field.id == HeaderId::WwwAuthenticate);
}

/// Begins the answer with a body of `size`, which is stored if it may be.
pub(super) fn start<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    size: BodySize,
    (ignored, settings, store): (&HeaderSet, &UpstreamSettings, Option<&StoreFiles>),
) {
    if let Some(store) = store {
        stored::begin(exchange, store, &settings.temp_path, size);
    }
    let size = match &exchange.caching {
        Some(_) => keep::begin_storing(exchange, ignored, size),
        None if settings.force_ranges => keep::cut(exchange, size),
        None => size,
    };
    let size = slice::open(exchange, size);
    respond::start(exchange, down, size);
}
