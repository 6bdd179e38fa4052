//! The plain answer: a file, whole, whose head was written before.
//!
//! Owns: when an answer is plain, and for which requests the first lines of an earlier one hold.
//! Driven by: `files::send`, before anything else is looked at.
//! Why: writing five fields and copying them into a head is a tenth of what such an answer costs here. It is plain if
//! nothing edits, compresses or slows it down, and no log shows its fields: then nobody asks for them one by one.

use std::sync::Arc;

use weir_http::Method;
use weir_plan::RouteFeatures;

use super::send;
use crate::answer::{filters, respond};
use crate::exchange::{Downstream, Exchange};
use crate::files::{Head, StaticFile};

/// What may change an answer or ask for its fields.
const NOT_PLAIN: RouteFeatures = RouteFeatures::RESPONSE_EDITS
    .union(RouteFeatures::EXPIRES)
    .union(filters::OF_FILES)
    .union(RouteFeatures::LIMIT_RATE)
    .union(RouteFeatures::LOGS_ANSWER);

/// Whether the answer to this request is plain. Conditions and ranges are for the caller to look for.
pub(super) fn applies(exchange: &Exchange) -> bool {
    let features = exchange.route().features;
    features.contains(RouteFeatures::PLAIN_STATIC)
        && !features.intersects(NOT_PLAIN)
        && exchange.request.method == Method::Get
        && exchange.status_override.is_none()
        && exchange.after.is_empty()
        && exchange.redirect_fields.is_empty()
        && exchange.captured.wanted.is_empty()
        && exchange.limit_rate.is_none()
        && !exchange.slots.in_doubt()
}

/// Begins the answer with the lines of an earlier one, or keeps its own for later ones.
pub(super) fn begin<D: Downstream>(exchange: &mut Exchange, down: &mut D, file: &StaticFile) {
    let installed = exchange.installed.clone();
    let files = &installed.plan.route(exchange.route).files;
    let server = installed.plan.site(exchange.site).server_header.as_deref();
    // One file may be reached by paths of several types.
    let content_type = files.types.of(&exchange.request.path);
    let is_current = |head: &Head| {
        Arc::ptr_eq(&head.files, files)
            && head.server.as_deref() == server
            && Arc::ptr_eq(&head.content_type, content_type)
    };
    exchange.response.status = 200;
    exchange.response.fields.clear();
    let mut known = file.head.borrow_mut();
    let known = match &mut *known {
        Some(head) if is_current(head) => head,
        other => other.insert(Head {
            files: files.clone(),
            server: server.map(Box::from),
            content_type: content_type.clone(),
            lines: Vec::new(),
        }),
    };
    down.begin_known(exchange, &mut known.lines, file.size, |exchange| {
        send::put_fields(exchange, file, 200, None, false);
        respond::put_server(exchange);
    });
}
