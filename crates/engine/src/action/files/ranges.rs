//! Parts of a file: 206, RFC 9110 §14 and §15.3.7.
//!
//! Owns: one range as it is, several as multipart/byteranges.
//! Driven by: `files::send`, after validators were put among the fields.

use std::rc::Rc;

use weir_http::HeaderId;
use weir_http::semantics::range::{self, ByteRange, Multipart};
use weir_wire::SendError;

use super::send::{FileRest, body, part};
use crate::answer::respond;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange, Next};
use crate::files::StaticFile;

/// Sends these parts of a file.
pub(super) async fn send<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    ranges: &[ByteRange],
) -> Next<Box<FileRest>> {
    exchange.response.status = 206;
    let types = exchange.route().files.types.clone();
    let content_type = types.of(&exchange.request.path).as_bytes();
    let content_type = Some(content_type).filter(|value| !value.is_empty());
    if let [only] = ranges {
        return one(exchange, down, file, *only, content_type).await;
    }
    let parts = Multipart { boundary: exchange.worker.random(), content_type, length: file.size };
    let sent = many(exchange, down, file, ranges, &parts).await;
    if let Err(error) = sent {
        down.fail(exchange, &error);
    }
    Next::Done
}

async fn one<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    range: ByteRange,
    content_type: Option<&[u8]>,
) -> Next<Box<FileRest>> {
    if let Some(content_type) = content_type {
        exchange.response.fields.push_id(HeaderId::ContentType, content_type);
    }
    let mut value = Vec::with_capacity(48);
    range::put_content_range(&mut value, range, file.size);
    exchange.response.fields.push_id(HeaderId::ContentRange, &value);
    respond::start(exchange, down, BodySize::Known(range.len()));
    body(exchange, down, file, range.start, range.end).await
}

async fn many<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &StaticFile,
    ranges: &[ByteRange],
    parts: &Multipart<'_>,
) -> Result<(), SendError> {
    let mut text = Vec::with_capacity(160);
    parts.put_type(&mut text);
    exchange.response.fields.push_id(HeaderId::ContentType, &text);
    respond::start(exchange, down, BodySize::Known(parts.body_length(ranges)));
    for range in ranges {
        text.clear();
        parts.put_part(&mut text, *range);
        respond::data(exchange, down, &text).await?;
        part(exchange, down, &file.content, range.start, range.end, None).await?;
    }
    text.clear();
    parts.put_end(&mut text);
    respond::data(exchange, down, &text).await?;
    respond::end(exchange, down, &Fields::default()).await
}
