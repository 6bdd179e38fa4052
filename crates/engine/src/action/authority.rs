//! What answers an authority that asks whether a name is ours.
//!
//! Owns: answers to challenges HTTP-01 (RFC 8555, 8.3).
//! Never: is asked where no certificate is issued; answers for a token that nobody waits for: such a request goes its usual way,
//! perhaps to another program that has certificates made.
//! Driven by: the walk, before the rules of a site: a redirect to HTTPS leads nowhere as long as there is no certificate.

use weir_http::Method;

use crate::answer::respond;
use crate::exchange::{Downstream, Ending, Exchange};
use crate::worker::Installed;

const PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// Whether the request may be one of an authority.
#[inline]
pub(crate) fn may_ask(exchange: &Exchange, installed: &Installed) -> bool {
    installed.plan.acme.is_used() && exchange.request.path.starts_with(PREFIX)
}

/// Answers it, if it is. Files may have to be read for that: not here.
#[cold]
pub(crate) async fn answer<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> bool {
    let asks = matches!(exchange.request.method, Method::Get | Method::Head);
    let shared = exchange.worker.shared.clone();
    let Some(issued) = shared.issued.clone().filter(|_| asks) else { return false };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let token = text(exchange.request.path.strip_prefix(PREFIX).unwrap_or_default());
    let host = text(exchange.host());
    let found = shared.errands.run(move || issued.answer(&host, &token)).await;
    let Some(found) = found.flatten() else { return false };
    exchange.ending = Ending::Local;
    exchange.response.status = 200;
    exchange.response.fields.clear();
    exchange.response.fields.push(b"Content-Type", b"application/octet-stream");
    respond::whole(exchange, down, found.as_bytes()).await;
    true
}
