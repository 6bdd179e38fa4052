//! Sending an object.
//!
//! Owns: conditions and ranges, the way of its bytes.
//! Never: makes its fields.
//! Driven by: the cache.

use std::rc::Rc;

use weir_http::HeaderId;
use weir_http::semantics::range::{ByteRange, Multipart};
use weir_wire::SendError;

use super::range::{self, Wanted};
use super::slice;
use crate::action::files::{part, queued};
use crate::action::lasting;
use crate::answer::respond;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange, Next};
use crate::files::Held;

/// Sends an object whose status and fields are made.
pub(super) async fn send<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    held: &Rc<Held>,
) -> Next<Box<CachedRest>> {
    let (start, end) = match range::wanted(exchange, Some(held.length)) {
        Wanted::Whole => (0, held.length),
        Wanted::One(part) => {
            range::partial(exchange, part, held.length);
            (part.start, part.end)
        }
        other => return Box::pin(special(exchange, down, held, other)).await,
    };
    let size = slice::open(exchange, BodySize::Known(end - start));
    respond::start(exchange, down, size);
    body(exchange, down, held, start + held.at, end + held.at).await
}

/// Answers that are neither the whole nor one part.
async fn special<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    held: &Rc<Held>,
    wanted: Wanted,
) -> Next<Box<CachedRest>> {
    match wanted {
        Wanted::Failed => {
            exchange.response.fields.clear();
            Next::Status(412)
        }
        Wanted::Unsatisfiable => {
            range::unsatisfiable(exchange, held.length);
            Next::Status(416)
        }
        Wanted::Many(parts) => {
            if let Err(error) = many(exchange, down, held, &parts).await {
                down.fail(exchange, &error);
            }
            Next::Done
        }
        _ => {
            range::not_modified(exchange);
            respond::whole(exchange, down, b"").await;
            Next::Done
        }
    }
}

async fn many<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    held: &Held,
    parts: &[ByteRange],
) -> Result<(), SendError> {
    let content_type = exchange.response.fields.first(HeaderId::ContentType).map(<[u8]>::to_vec);
    let multipart = Multipart {
        boundary: exchange.worker.random(),
        content_type: content_type.as_deref(),
        length: held.length,
    };
    let mut text = Vec::with_capacity(160);
    multipart.put_type(&mut text);
    exchange.response.status = 206;
    exchange.response.reason = None;
    exchange.response.fields.remove(HeaderId::AcceptRanges);
    exchange.response.fields.remove(HeaderId::ContentType);
    exchange.response.fields.push_id(HeaderId::ContentType, &text);
    respond::start(exchange, down, BodySize::Known(multipart.body_length(parts)));
    for range in parts {
        text.clear();
        multipart.put_part(&mut text, *range);
        respond::data(exchange, down, &text).await?;
        part(exchange, down, &held.content, range.start + held.at, range.end + held.at, None).await?;
    }
    text.clear();
    multipart.put_end(&mut text);
    respond::data(exchange, down, &text).await?;
    respond::end(exchange, down, &Fields::default()).await
}

/// Sends the bytes `start..end` of where the object is, as the body of an answer that was begun, and ends it; what lasts is
/// left to [`CachedRest`].
async fn body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    held: &Rc<Held>,
    start: u64,
    end: u64,
) -> Next<Box<CachedRest>> {
    let sent = match queued(exchange, down, &held.content, start, end) {
        Ok(true) => match respond::end_now(exchange, down, &Fields::default()) {
            Ok(true) => return Next::Done,
            Ok(false) => Box::pin(respond::end(exchange, down, &Fields::default())).await,
            Err(error) => Err(error),
        },
        Ok(false) => {
            let due = lasting::due(exchange);
            match Box::pin(part(exchange, down, &held.content, start, end, due)).await {
                Ok(at) if at < end => {
                    let rest = CachedRest { held: held.clone(), at, end };
                    return Next::Later(Box::new(rest));
                }
                Ok(_) => Box::pin(respond::end(exchange, down, &Fields::default())).await,
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        down.fail(exchange, &error);
    }
    Next::Done
}

/// What is left of an object whose sending lasts.
pub(crate) struct CachedRest {
    held: Rc<Held>,
    at: u64,
    end: u64,
}

impl CachedRest {
    /// Sends it.
    pub(in crate::action) async fn carry<D: Downstream>(self, exchange: &mut Exchange, down: &mut D) {
        let sent = async {
            part(exchange, down, &self.held.content, self.at, self.end, None).await?;
            respond::end(exchange, down, &Fields::default()).await
        };
        if let Err(error) = sent.await {
            down.fail(exchange, &error);
        }
    }
}
