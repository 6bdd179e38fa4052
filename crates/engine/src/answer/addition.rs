//! Bodies of other requests around the body of a response: nginx's addition module.
//!
//! Owns: deciding on them.
//! Never: asks for them; `answer::include` does.
//! Driven by: `answer::filters`.

use super::entity;
use crate::exchange::{AtJoint, BodySize, Exchange, Joint};

/// Decides on what is added; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(addition) = filters.as_ref().and_then(|filters| filters.addition.as_ref()) else { return size };
    let applies = exchange.response.status == 200
        && exchange.asked_for.is_none()
        && addition.types.take(entity::content_type(exchange));
    if !applies {
        return size;
    }
    entity::drop_length(exchange);
    entity::weaken(&mut exchange.response.fields);
    if size == BodySize::Bodiless {
        return size;
    }
    let joint = Joint::Around { before: addition.before.clone(), after: addition.after.clone() };
    exchange.filters.push(Box::new(AtJoint(joint)));
    BodySize::Unknown
}
