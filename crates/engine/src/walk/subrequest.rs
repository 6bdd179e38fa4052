//! Requests of our own to another route of the same site: for an exchange that waits, or beside one.
//!
//! Owns: what the status of such a request means for access.
//! Never: is limited, logged, or asks in its turn.
//! Driven by: the walk, for nginx's `auth_request` and `mirror`; connections, for its `post_action`.
//! Why: the route that is asked may be anything, a proxy mostly, so it is walked like any other. What runs beside its
//! exchange is a task of the worker: it holds up neither the response nor the client's next request.

use std::pin::Pin;

use weir_http::HeaderId;
use weir_plan::{Afterwards, AuthRequest, RouteFeatures};

use super::identity::Soon;
use super::whole::Whole;
use crate::exchange::errors;
use crate::exchange::{Exchange, Nobody};

/// Fields of the client that speak of the whole response, not of a part of it.
const OF_WHOLE: [HeaderId; 7] = [
    HeaderId::AcceptEncoding,
    HeaderId::IfMatch,
    HeaderId::IfModifiedSince,
    HeaderId::IfNoneMatch,
    HeaderId::IfRange,
    HeaderId::IfUnmodifiedSince,
    HeaderId::Range,
];

/// Asks whether an exchange may pass. The status to refuse with, if not.
///
/// Boxed as a trait object: what is asked is walked by the very code that asks.
pub(crate) fn ask<'a>(
    exchange: &'a mut Exchange,
    ask: &'a AuthRequest,
) -> Pin<Box<dyn Future<Output = Option<u16>> + 'a>> {
    Box::pin(async move {
        let mut asked = exchange.ask_for(ask.path.as_bytes());
        // Nobody takes a tunnel, and what is asked does not last: there is nothing left for later.
        let _ = super::run_path(&mut asked, &mut Nobody::half()).await;
        for (slot, value) in &ask.set {
            exchange.slots.set(*slot, &crate::eval::text(&*asked, value));
        }
        if let Some(why) = asked.slots.take_doubt() {
            exchange.slots.doubt(why);
        }
        if let Some(known) = asked.user_id.take() {
            // It knew already what this exchange did, so nothing is lost if it is not taken.
            let _ = exchange.user_id.set(known);
        }
        let status = asked.response.status;
        let verdict = match status {
            200..300 => None,
            401 => {
                exchange.response.fields.remove(HeaderId::WwwAuthenticate);
                for challenge in asked.response.fields.all(HeaderId::WwwAuthenticate) {
                    exchange.response.fields.push_id(HeaderId::WwwAuthenticate, challenge);
                }
                Some(401)
            }
            403 => Some(403),
            _ => {
                errors::error(exchange, &format!("auth request unexpected status: {status}"));
                Some(500)
            }
        };
        asked.give();
        verdict
    })
}

/// Asks for something of the same site: its status, and its body if that is whole.
pub(super) fn fetch<'a>(exchange: &'a Exchange, uri: &'a [u8]) -> Soon<'a, super::identity::Fetched> {
    Box::pin(async move {
        let cut = uri.iter().position(|byte| *byte == b'?');
        let (path, query) = cut.map_or((uri, &b""[..]), |at| (&uri[..at], &uri[at + 1..]));
        let (mut asked, mut whole) = (other(exchange, path, query), Whole::half());
        let _ = super::run_path(&mut asked, &mut whole).await;
        let status = asked.response.status;
        asked.give();
        (status, whole.0.text)
    })
}

/// A request for another path, whole whatever part of a response the client wants.
pub(super) fn other(exchange: &Exchange, path: &[u8], query: &[u8]) -> Box<Exchange> {
    let mut asked = exchange.ask_for(path);
    for id in OF_WHOLE {
        asked.request.fields.remove(id);
    }
    asked.request.query.extend_from_slice(query);
    asked
}

/// Sends a copy of a request to another route, beside its exchange. Nobody waits for it, and its response is dropped.
pub(crate) fn beside(exchange: &Exchange, path: &str, with_body: bool) {
    let Some(counted) = exchange.worker.begin_beside() else {
        let why = "too many copies of requests wait for their responses";
        return errors::error(exchange, &format!("{why}: none is sent to \"{path}\""));
    };
    let mut copy = match exchange.copy_to(path.as_bytes(), with_body) {
        Ok(copy) => copy,
        Err(error) => {
            return errors::server_error(
                exchange,
                &format!("cannot send a body to \"{path}\" as well: {error}"),
            );
        }
    };
    weir_rt::spawn(async move {
        let _counted = counted;
        let _ = super::run_path(&mut copy, &mut Nobody::half()).await;
        copy.give();
    });
}

/// Requests what the route of an exchange wants to be requested once it has ended. The request knows what was answered;
/// nobody waits for it.
pub(crate) fn afterwards(exchange: &Exchange) {
    if exchange.route_if_any().is_some_and(|route| route.features.contains(RouteFeatures::AFTERWARDS)) {
        after(exchange);
    }
}

#[cold]
fn after(exchange: &Exchange) {
    let Some(target) = &exchange.route().settings.afterwards else { return };
    let path = match target {
        Afterwards::Path(path) => path.as_bytes(),
        Afterwards::Named(_) => &exchange.request.path,
    };
    let Some(counted) = exchange.worker.begin_beside() else {
        let why = "too many requests of our own wait for their responses";
        return errors::error(exchange, &format!("{why}: the one after this request is left out"));
    };
    let mut copy = match exchange.copy_to(path, true) {
        Ok(copy) => copy,
        Err(error) => return errors::server_error(exchange, &format!("cannot send a body again: {error}")),
    };
    let named = match target {
        Afterwards::Path(_) => {
            copy.request.query.clear();
            None
        }
        Afterwards::Named(route) => Some(*route),
    };
    copy.knows_answer_of(exchange);
    weir_rt::spawn(async move {
        let _counted = counted;
        let mut nobody = Nobody::half();
        let _ = match named {
            Some(route) => {
                copy.route = route;
                super::run_route(&mut copy, &mut nobody).await
            }
            None => super::run_path(&mut copy, &mut nobody).await,
        };
        copy.give();
    });
}
