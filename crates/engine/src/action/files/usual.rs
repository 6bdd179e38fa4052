//! The usual answer: a small file, whole, whose head was written before.
//!
//! Owns: when an answer is usual, and the text of its first lines.
//! Driven by: `files::send`, before anything else is looked at.
//! Why: writing five fields and copying them into a head is a tenth of what such an answer costs here. It is usual if
//! nothing edits, compresses, slows down or logs it: then nobody asks for its fields one by one.

use std::sync::Arc;

use weir_http::{HeadWriter, HeaderId, Method, Phrases};
use weir_plan::{RouteFeatures, StaticFiles};
use weir_rt::PIECE;
use weir_wire::SendError;

use super::cache::{Content, StaticFile};
use crate::exchange::{Downstream, Exchange};
use crate::fields::Fields;

/// What may change an answer or ask for its fields.
const UNUSUAL: RouteFeatures = RouteFeatures::RESPONSE_EDITS
    .union(RouteFeatures::EXPIRES)
    .union(RouteFeatures::GZIP)
    .union(RouteFeatures::LIMIT_RATE)
    .union(RouteFeatures::ACCESS_LOG);

/// First lines of an answer, with what they were made from.
pub(crate) struct Head {
    files: Arc<StaticFiles>,
    server: Option<Box<str>>,
    lines: Box<[u8]>,
}

/// Whether the answer to this request is usual. Conditions and ranges are for the caller to look for.
pub(super) fn applies(exchange: &Exchange) -> bool {
    let features = exchange.route().features;
    features.contains(RouteFeatures::PLAIN_STATIC)
        && !features.intersects(UNUSUAL)
        && exchange.request.method == Method::Get
        && exchange.status_override.is_none()
        && exchange.response_edits.is_empty()
        && exchange.redirect_fields.is_empty()
        && exchange.captured.wanted.is_empty()
        && exchange.limit_rate.is_none()
}

/// Sends a file that is in memory.
pub(super) async fn send<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &StaticFile,
) -> Result<(), SendError> {
    let Content::Memory(bytes) = &file.content else { return Err(SendError::Length) };
    begin(exchange, down, file);
    for piece in bytes.chunks(PIECE) {
        down.send(exchange, piece).await?;
    }
    down.finish(exchange, &Fields::default()).await?;
    exchange.response.complete = true;
    Ok(())
}

fn begin<D: Downstream>(exchange: &mut Exchange, down: &mut D, file: &StaticFile) {
    let installed = exchange.installed.clone();
    let files = &installed.plan.route(exchange.route).files;
    let server = installed.plan.site(exchange.site).server_header.as_deref();
    exchange.response.status = 200;
    let mut known = file.head.borrow_mut();
    let is_current = |head: &&mut Head| Arc::ptr_eq(&head.files, files) && head.server.as_deref() == server;
    let head = match known.as_mut().filter(is_current) {
        Some(head) => head,
        None => known.insert(Head {
            files: files.clone(),
            server: server.map(Box::from),
            lines: lines(files, server, &exchange.request.path, file).into(),
        }),
    };
    down.begin_prepared(exchange, &head.lines, file.size);
}

/// The same fields in the same order as `files::send` and `respond::start` put them.
fn lines(files: &StaticFiles, server: Option<&str>, path: &[u8], file: &StaticFile) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    let mut head = HeadWriter::response(&mut text, 200, Phrases::default());
    let mut put = |id: HeaderId, value: &[u8]| {
        // A value that may not stand in a head is left out, as everywhere.
        let _ = head.known(id, value);
    };
    let content_type = files.types.of(path);
    if !content_type.is_empty() {
        put(HeaderId::ContentType, content_type.as_bytes());
    }
    put(HeaderId::LastModified, &file.last_modified);
    if files.etag {
        put(HeaderId::ETag, &file.etag);
    }
    if files.max_ranges != Some(0) {
        put(HeaderId::AcceptRanges, b"bytes");
    }
    if let Some(server) = server {
        put(HeaderId::Server, server.as_bytes());
    }
    head.number(HeaderId::ContentLength, file.size);
    text
}
