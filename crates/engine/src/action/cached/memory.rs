//! Answering with a response from a cache in memory.
//!
//! Owns: conditions, the way of its bytes.
//! Never: looks for it: rules did.
//! Driven by: the walk, where rules found one.
//! Why: as HAProxy: conditions are answered here, ranges are not, and the rules for responses see it as they see one that
//! comes from an endpoint.

use std::sync::Arc;

use weir_http::semantics::etag::tags;
use weir_http::semantics::{ETag, FieldSource as _};
use weir_http::{HeaderId, HttpDate};
use weir_rt::{Instant, PIECE};
use weir_wire::SendError;

use crate::action::{lasting, rules};
use crate::answer::respond;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Ending, Exchange, Next};
use crate::files::remembered::Remembered;
use crate::worker::Installed;

/// Answers with what was found.
pub(crate) async fn serve<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    installed: &Installed,
) -> Next<Box<MemoryRest>> {
    let Some(response) = taken(exchange) else { return Next::Status(500) };
    prepare(exchange, &response);
    if let Some(instead) = rules::run(exchange, down, installed).await {
        exchange.response.fields.clear();
        return instead;
    }
    respond::start(exchange, down, BodySize::Known(response.body.len() as u64));
    let due = lasting::due(exchange);
    match part(exchange, down, &response.body, 0, due).await {
        Ok(at) if at < response.body.len() => Next::Later(Box::new(MemoryRest { response, at })),
        sent => {
            finish(exchange, down, sent).await;
            Next::Done
        }
    }
}

/// What was found, to be answered with once.
fn taken(exchange: &mut Exchange) -> Option<Arc<Remembered>> {
    let looked = exchange.looked.as_mut()?;
    looked.served = true;
    looked.found.as_ref().map(|(_, response)| response.clone())
}

/// Makes status and fields.
fn prepare(exchange: &mut Exchange, found: &Remembered) {
    let (bytes, head) = found.head();
    let phrases = exchange.phrases();
    let response = &mut exchange.response;
    response.status = head.status();
    response.reason = match head.reason() {
        reason if reason == phrases.reason(head.status()).as_bytes() => None,
        reason => Some(reason.into()),
    };
    response.upstream_fields.load(bytes, head.headers());
    response.fields.load(bytes, head.headers());
    let age = weir_rt::unix_now().as_secs().saturating_sub(found.stored).saturating_add(found.age);
    response.fields.push_id(HeaderId::Age, itoa::Buffer::new().format(age).as_bytes());
    if is_unchanged(exchange, found) {
        (exchange.response.status, exchange.response.reason) = (304, None);
    }
    if exchange.ending == Ending::Normal {
        exchange.ending = Ending::Local;
    }
}

/// Whether the client has it already (RFC 9110 §13.1.2, §13.1.3).
fn is_unchanged(exchange: &Exchange, found: &Remembered) -> bool {
    let (asked, fields) = (&exchange.request.fields, &exchange.response.fields);
    if asked.has(HeaderId::IfNoneMatch) {
        let etag = fields.first(HeaderId::ETag).and_then(ETag::parse);
        let is_it = |tag: ETag<'_>| etag.is_some_and(|etag| etag.weak_eq(tag));
        return asked
            .all(HeaderId::IfNoneMatch)
            .any(|line| line.trim_ascii() == b"*" || tags(line).any(is_it));
    }
    let now = HttpDate::from_unix(weir_rt::unix_now().as_secs());
    let date = |value: Option<&[u8]>| value.and_then(|value| HttpDate::parse(value, now));
    let Some(since) = date(asked.value(HeaderId::IfModifiedSince)) else { return false };
    let changed = date(fields.first(HeaderId::LastModified)).or_else(|| date(fields.first(HeaderId::Date)));
    changed.map_or(found.stored, HttpDate::unix) <= since.unix()
}

/// Sends a body from `at` on. Once it is `due` there is a stop between two pieces: where, is given back.
async fn part<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    body: &[u8],
    mut at: usize,
    due: Option<Instant>,
) -> Result<usize, SendError> {
    if respond::is_bodiless(exchange) {
        return Ok(body.len());
    }
    while at < body.len() && !lasting::is_due(due) {
        let piece = &body[at..body.len().min(at + PIECE)];
        respond::data(exchange, down, piece).await?;
        at += piece.len();
    }
    Ok(at)
}

async fn finish<D: Downstream>(exchange: &mut Exchange, down: &mut D, sent: Result<usize, SendError>) {
    let ended = match sent {
        Ok(_) => respond::end(exchange, down, &Fields::default()).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        down.fail(exchange, &error);
    }
}

/// What is left of a response whose sending lasts.
pub(crate) struct MemoryRest {
    response: Arc<Remembered>,
    at: usize,
}

impl MemoryRest {
    /// Sends it.
    pub(in crate::action) async fn carry<D: Downstream>(self, exchange: &mut Exchange, down: &mut D) {
        let sent = part(exchange, down, &self.response.body, self.at, None).await;
        finish(exchange, down, sent).await;
    }
}
