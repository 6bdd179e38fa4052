//! Sending one file.
//!
//! Owns: the fields of its answer, conditions, the choice between whole file and ranges, the way of its bytes.
//! Driven by: `files::serve`.
//! Why: an error page keeps its status: conditions and ranges, which are about the page itself, are off then, as in
//! nginx.

use std::rc::Rc;

use weir_expr::settings::ContentCoding;
use weir_http::semantics::{Conditions, ETag, FieldSource as _, IfModifiedSince, Outcome, Validators, range};
use weir_http::{HeaderId, HttpDate, Method};
use weir_rt::{Buf, Instant, PIECE, Shared};
use weir_wire::{SHARE, SendError};

use super::{plain, ranges};
use crate::action::lasting;
use crate::answer::{filters, respond};
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Ending, Exchange, Next};
use crate::files::{Content, StaticFile, Way};

/// Fields of requests that make more of them than "the whole file".
const SPECIAL: u128 = HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit()
    | HeaderId::Range.bit();

/// Bytes of a file that are handed to the kernel before other connections have their turn.
const TURN: u64 = 2 << 20;

/// What the request asks of a file.
pub(super) enum Wanted {
    Whole,
    NotModified,
    Failed,
    Unsatisfiable,
    Ranges(Vec<range::ByteRange>),
}

/// Answers with a file. `coding`: it is a compressed variant; `varies`: there is another variant.
pub(super) async fn file<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    coding: Option<ContentCoding>,
    varies: bool,
) -> Next<Box<FileRest>> {
    if is_plain(exchange) && coding.is_none() && !varies {
        note_local(exchange);
        plain::begin(exchange, down, file);
        return body(exchange, down, file, 0, file.size).await;
    }
    Box::pin(general(exchange, down, file, coding, varies)).await
}

fn is_plain(exchange: &Exchange) -> bool {
    let fields = &exchange.request.fields;
    plain::applies(exchange) && !fields.has_any(SPECIAL)
}

pub(super) fn note_local(exchange: &mut Exchange) {
    if exchange.ending == Ending::Normal && exchange.attempts.is_empty() {
        exchange.ending = Ending::Local;
    }
}

/// As [`file()`], for whatever else may be asked.
async fn general<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    coding: Option<ContentCoding>,
    varies: bool,
) -> Next<Box<FileRest>> {
    let status = exchange.status_override.unwrap_or(200);
    let wanted = if status == 200 { wanted(exchange, file, coding.is_some()) } else { Wanted::Whole };
    if status == 200 {
        // An error page that answers with 200 may come to 206 or 304.
        exchange.status_override = None;
    }
    forget_fields(exchange, status);
    note_local(exchange);
    match wanted {
        Wanted::Whole => {}
        Wanted::Failed => return Next::Status(412),
        Wanted::NotModified => {
            exchange.response.status = 304;
            put_validators(exchange, file, true);
            vary(exchange, varies);
            respond::whole(exchange, down, b"").await;
            return Next::Done;
        }
        Wanted::Unsatisfiable => {
            let mut value = Vec::new();
            range::put_unsatisfied_range(&mut value, file.size);
            exchange.response.fields.push_id(HeaderId::ContentRange, &value);
            return Next::Status(416);
        }
        Wanted::Ranges(wanted) => {
            put_validators(exchange, file, true);
            vary(exchange, varies);
            return Box::pin(ranges::send(exchange, down, file, &wanted)).await;
        }
    }
    exchange.response.status = 200;
    put_fields(exchange, file, status, coding, varies);
    respond::start(exchange, down, BodySize::Known(file.size));
    body(exchange, down, file, 0, file.size).await
}

/// Fields of an answer with a whole file, under the status that it will have.
pub(super) fn put_fields(
    exchange: &mut Exchange,
    file: &StaticFile,
    status: u16,
    coding: Option<ContentCoding>,
    varies: bool,
) {
    put_type(exchange);
    put_validators(exchange, file, matches!(status, 200 | 206 | 304));
    vary(exchange, varies);
    put_coding(exchange, coding);
    if status == 200 && coding.is_none() && exchange.route().files.max_ranges != Some(0) {
        exchange.response.fields.push_id(HeaderId::AcceptRanges, b"bytes");
    }
}

/// Sends the bytes `start..end`, which are the body of an answer that was begun, and ends it; what lasts is left to
/// [`FileRest`].
pub(super) async fn body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    start: u64,
    end: u64,
) -> Next<Box<FileRest>> {
    let sent = match at_once(exchange, down, file, start, end) {
        Ok(Came::Whole) => return Next::Done,
        Ok(came) => Box::pin(waiting(exchange, down, file, (start, end), came)).await,
        Err(error) => Err(error),
    };
    sent.unwrap_or_else(|error| {
        down.fail(exchange, &error);
        Next::Done
    })
}

/// How far a body came without a wait.
#[derive(PartialEq, Eq)]
enum Came {
    /// All of it has left, and the answer is ended.
    Whole,
    /// All of it is queued.
    ToQueue,
    /// Nothing was done.
    Nowhere,
}

/// Sends a body, where that needs no wait.
fn at_once<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    start: u64,
    end: u64,
) -> Result<Came, SendError> {
    if !queued(exchange, down, &file.content, start, end)? {
        return Ok(Came::Nowhere);
    }
    let ended = respond::end_now(exchange, down, &Fields::default())?;
    Ok(if ended { Came::Whole } else { Came::ToQueue })
}

/// Sends what is left of a body, piece by piece, and ends it.
async fn waiting<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &Rc<StaticFile>,
    (start, end): (u64, u64),
    came: Came,
) -> Result<Next<Box<FileRest>>, SendError> {
    if came == Came::Nowhere {
        let due = lasting::due(exchange);
        let at = part(exchange, down, &file.content, start, end, due).await?;
        if at < end {
            return Ok(Next::Later(Box::new(FileRest { file: file.clone(), at, end })));
        }
    }
    respond::end(exchange, down, &Fields::default()).await.map(|()| Next::Done)
}

/// Queues a small body from memory behind its head: there is nothing to wait for. False: nothing was done.
pub(crate) fn queued<D: Downstream>(
    exchange: &Exchange,
    down: &mut D,
    content: &Content,
    start: u64,
    end: u64,
) -> Result<bool, SendError> {
    if respond::is_changed(exchange) {
        return Ok(false);
    }
    let Way::Bytes(bytes) = content.way(exchange.client.tls.is_some()) else { return Ok(false) };
    match bytes.get(start as usize..end as usize) {
        Some(piece) if piece.len() < SHARE => down.queue(piece),
        _ => Ok(false),
    }
}

/// What is left of a file whose sending lasts.
pub(crate) struct FileRest {
    file: Rc<StaticFile>,
    at: u64,
    end: u64,
}

impl FileRest {
    /// Of these bytes of a file.
    pub(super) fn new(file: Rc<StaticFile>, at: u64, end: u64) -> Self {
        Self { file, at, end }
    }

    /// Sends it.
    pub(in crate::action) async fn carry<D: Downstream>(self, exchange: &mut Exchange, down: &mut D) {
        let sent = async {
            part(exchange, down, &self.file.content, self.at, self.end, None).await?;
            respond::end(exchange, down, &Fields::default()).await
        };
        if let Err(error) = sent.await {
            down.fail(exchange, &error);
        }
    }
}

/// Sends the bytes `start..end`. Once it is `due` there is a stop between two pieces: where, is given back.
pub(crate) async fn part<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    content: &Content,
    start: u64,
    end: u64,
    due: Option<Instant>,
) -> Result<u64, SendError> {
    if respond::is_bodiless(exchange) {
        return Ok(end);
    }
    let changed = !exchange.filters.is_empty() || respond::rate_limit(exchange).is_some();
    let open = match content.way(changed || exchange.client.tls.is_some()) {
        Way::Bytes(bytes) => {
            let (mut at, end) = (start as usize, end as usize);
            while at < end && !lasting::is_due(due) {
                let piece = Shared::new(bytes, at..end.min(at + PIECE));
                at += piece.len();
                if changed {
                    respond::data(exchange, down, &piece).await?;
                } else {
                    down.send_shared(exchange, piece).await?;
                }
            }
            return Ok(at as u64);
        }
        Way::File(open) => open,
    };
    if changed {
        return Box::pin(through_memory(exchange, down, open, (start, end), due)).await;
    }
    let mut at = start;
    while at < end {
        if at > start {
            weir_rt::yield_now().await;
        }
        if lasting::is_due(due) {
            break;
        }
        let length = (end - at).min(TURN);
        down.send_file(exchange, open, at, length).await?;
        at += length;
    }
    Ok(at)
}

/// Reads and sends, for bodies that are changed or slowed down on the way.
async fn through_memory<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &std::fs::File,
    (start, end): (u64, u64),
    due: Option<Instant>,
) -> Result<u64, SendError> {
    let (mut at, mut buf) = (start, Buf::new());
    while at < end && !lasting::is_due(due) {
        buf.clear();
        let most = (end - at).min(PIECE as u64) as usize;
        let read = weir_rt::pread_into(file, at, &mut buf, most)?;
        if read == 0 {
            // It is shorter than its head said.
            return Err(SendError::Length);
        }
        respond::data(exchange, down, &buf).await?;
        at += read as u64;
    }
    Ok(at)
}

/// Judges conditions, then ranges.
pub(super) fn wanted(exchange: &Exchange, file: &StaticFile, coded: bool) -> Wanted {
    let fields = &exchange.request.fields;
    if !fields.has_any(SPECIAL) {
        return Wanted::Whole;
    }
    let files = &exchange.route().files;
    let conditions = Conditions {
        headers: fields,
        method: exchange.request.method,
        now: HttpDate::from_unix(weir_rt::unix_now().as_secs()),
        since: match files.if_modified_since {
            weir_plan::IfModifiedSince::Off => IfModifiedSince::Off,
            weir_plan::IfModifiedSince::Exact => IfModifiedSince::Exact,
            weir_plan::IfModifiedSince::Before => IfModifiedSince::Before,
        },
    };
    let current =
        Validators { etag: ETag::parse(&file.etag).filter(|_| files.etag), modified: Some(file.modified) };
    match conditions.judge(current) {
        Outcome::NotModified => return Wanted::NotModified,
        Outcome::Failed => return Wanted::Failed,
        Outcome::Proceed => {}
    }
    // RFC 9110 §14.2: ranges are defined for GET alone. Of compressed variants nginx gives none.
    let has_ranges = exchange.request.method == Method::Get
        && !coded
        && !filters::rewrite(exchange, files.types.of(&exchange.request.path).as_bytes());
    let Some(value) = fields.value(HeaderId::Range).filter(|_| has_ranges) else {
        return Wanted::Whole;
    };
    if !conditions.range_applies(current) {
        return Wanted::Whole;
    }
    let most = files.max_ranges.map_or(usize::MAX, |most| most as usize);
    match range::parse(value, file.size, most) {
        range::Ranges::Whole => Wanted::Whole,
        range::Ranges::One(range) => Wanted::Ranges(vec![range]),
        range::Ranges::Many(ranges) => Wanted::Ranges(ranges),
        range::Ranges::Unsatisfiable => Wanted::Unsatisfiable,
    }
}

/// Forgets fields of an answer that was not sent, but for those that belong to the status that is kept.
pub(super) fn forget_fields(exchange: &mut Exchange, status: u16) {
    match status {
        401 => exchange.response.fields.retain(|field| field.id == HeaderId::WwwAuthenticate),
        405 => exchange.response.fields.retain(|field| field.id == HeaderId::Allow),
        416 => exchange.response.fields.retain(|field| field.id == HeaderId::ContentRange),
        _ => exchange.response.fields.clear(),
    }
    exchange.filters.clear();
}

fn put_type(exchange: &mut Exchange) {
    // Split by hand: the route is borrowed from the plan, the fields are changed.
    let Exchange { core, route, request, response, .. } = exchange;
    let value = core.installed.plan.route(*route).files.types.of(&request.path);
    if !value.is_empty() {
        response.fields.push_id(HeaderId::ContentType, value.as_bytes());
    }
}

pub(super) fn put_validators(exchange: &mut Exchange, file: &StaticFile, modified: bool) {
    let etag = exchange.route().files.etag;
    let fields = &mut exchange.response.fields;
    if modified {
        fields.push_id(HeaderId::LastModified, &file.last_modified);
    }
    if etag {
        fields.push_id(HeaderId::ETag, &file.etag);
    }
}

fn vary(exchange: &mut Exchange, varies: bool) {
    if varies {
        exchange.response.fields.push_id(HeaderId::Vary, b"Accept-Encoding");
    }
}

fn put_coding(exchange: &mut Exchange, coding: Option<ContentCoding>) {
    if let Some(coding) = coding {
        exchange.response.fields.push_id(HeaderId::ContentEncoding, coding.name().as_bytes());
    }
}
