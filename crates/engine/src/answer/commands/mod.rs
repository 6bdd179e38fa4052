//! Commands in pages: nginx's server-side includes.
//!
//! Owns: deciding whether a response is searched for them, and the list of what they are.
//! Never: finds a command in text; `exchange::page` does. Never: walks a request; the walk does.
//! Driven by: `answer::filters`; then `answer::include`, with each piece of a page.
//!
//! | file | holds |
//! |---|---|
//! | `words` | commands, their parameters, what is a mistake |
//! | `perform` | what each of them does |
//! | `text` | values with variables |
//! | `pass` | a piece of a page on its way, and the bodies that come in |

mod pass;
mod perform;
mod text;
mod words;

use std::rc::Rc;

use super::entity;
use crate::exchange::page::Shared;
use crate::exchange::{AtJoint, BodySize, Exchange, Joint, Page};

pub(super) use pass::pass;

/// Decides on the search; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(commands) = filters.as_ref().and_then(|filters| filters.commands.as_ref()) else { return size };
    if size == BodySize::Known(0) || !commands.types.take(entity::content_type(exchange)) {
        return size;
    }
    entity::drop_length(exchange);
    if commands.keeps_validators {
        entity::weaken(&mut exchange.response.fields);
    } else {
        entity::drop_validators(exchange);
    }
    if size == BodySize::Bodiless {
        return size;
    }
    let asked_for = exchange.asked_for.as_ref();
    let shared =
        asked_for.and_then(|asked| asked.pages.clone()).unwrap_or_else(|| Rc::new(Shared::default()));
    exchange.page = Some(Box::new(Page::new(commands.value_length, shared)));
    exchange.filters.push(Box::new(AtJoint(Joint::Commands)));
    BodySize::Unknown
}
