//! Videos that are begun in their middle: nginx's `mp4` and `flv`.
//!
//! Owns: reading what is needed of a file, the fields and the body of such a response.
//! Never: knows the forms of videos; [`weir_media`] does.
//! Driven by: `files::serve`, for locations that are told to.

use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use weir_expr::settings::Video;
use weir_http::HeaderId;
use weir_http::semantics::range::{self, ByteRange};
use weir_media::flv;
use weir_media::mp4::{Asked, Cut, Seek};
use weir_wire::SendError;

use super::names::text;
use super::send::{self, FileRest, Wanted};
use crate::action::lasting;
use crate::answer::respond;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange, Next, errors};
use crate::files::{Content, StaticFile, Way};

/// What is sent of a file, where not all of it is asked for. `Err`: the status to answer with.
pub(super) fn asked(
    exchange: &Exchange,
    video: Video,
    file: &StaticFile,
    name: &[u8],
) -> Result<Option<Cut>, u16> {
    let request = &exchange.request;
    if exchange.status_override.is_some() || request.query.is_empty() {
        return Ok(None);
    }
    let (most, from_key_frame) = match video {
        Video::Flv => {
            let start = request.arg(b"start").and_then(|start| flv::start(start, file.size));
            return Ok(start.map(|from| Cut { head: flv::HEADER.to_vec(), from, to: file.size }));
        }
        Video::Mp4 { most, from_key_frame } => (most, from_key_frame),
    };
    let asked = Asked::by(request.arg(b"start"), request.arg(b"end"), from_key_frame);
    let Some(asked) = asked else { return Ok(None) };
    let mut seek = Seek::new(file.size, most, asked);
    let failed = |why: &str| {
        errors::error(exchange, &format!("\"{}\" {why}", text(name)));
        500
    };
    while let Some((at, length)) = seek.poll_read() {
        let bytes = read(&file.content, at, length).map_err(|error| failed(&errors::system(&error)))?;
        seek.handle_read(&bytes).map_err(|fault| failed(&fault.to_string()))?;
    }
    seek.cut().map(Some).map_err(|fault| failed(&fault.to_string()))
}

fn read(content: &Content, at: u64, length: usize) -> std::io::Result<Vec<u8>> {
    match content.way(true) {
        Way::Bytes(bytes) => {
            let piece = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..length));
            piece.map(<[u8]>::to_vec).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
        }
        Way::File(file) => {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at)?;
            Ok(bytes)
        }
    }
}

/// Sends a part of a file behind a head of its own.
pub(super) async fn send<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: &StaticFile,
    cut: Cut,
) -> Next<Box<FileRest>> {
    let length = cut.head.len() as u64 + (cut.to - cut.from);
    // A response of its own: its tag tells its length, as that of a file does.
    let Ok(shown) = file.shown_as(length) else { return Next::Status(500) };
    let shown = Rc::new(shown);
    let wanted = send::wanted(exchange, &shown, false);
    send::forget_fields(exchange, 200);
    send::note_local(exchange);
    let mut span = ByteRange { start: 0, end: length };
    match wanted {
        Wanted::Failed => return Next::Status(412),
        Wanted::NotModified => {
            exchange.response.status = 304;
            send::put_validators(exchange, &shown, true);
            respond::whole(exchange, down, b"").await;
            return Next::Done;
        }
        Wanted::Unsatisfiable => {
            let mut value = Vec::new();
            range::put_unsatisfied_range(&mut value, length);
            exchange.response.fields.push_id(HeaderId::ContentRange, &value);
            return Next::Status(416);
        }
        Wanted::Ranges(ranges) if ranges.len() == 1 => {
            span = ranges[0];
            exchange.response.status = 206;
            send::put_fields(exchange, &shown, 206, None, false);
            let mut value = Vec::new();
            range::put_content_range(&mut value, span, length);
            exchange.response.fields.push_id(HeaderId::ContentRange, &value);
        }
        // Several parts are sent as nothing but the whole, as nginx does here.
        Wanted::Ranges(_) | Wanted::Whole => {
            exchange.response.status = 200;
            send::put_fields(exchange, &shown, 200, None, false);
        }
    }
    respond::start(exchange, down, BodySize::Known(span.len()));
    body(exchange, down, shown, &cut, span).await.unwrap_or_else(|error| {
        down.fail(exchange, &error);
        Next::Done
    })
}

async fn body<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    file: Rc<StaticFile>,
    cut: &Cut,
    span: ByteRange,
) -> Result<Next<Box<FileRest>>, SendError> {
    let head = cut.head.len() as u64;
    let own = &cut.head[span.start.min(head) as usize..span.end.min(head) as usize];
    if !own.is_empty() {
        respond::data(exchange, down, own).await?;
    }
    let in_file = |at: u64| cut.from + at.max(head) - head;
    let (start, end) = (in_file(span.start), in_file(span.end));
    let due = lasting::due(exchange);
    let at = send::part(exchange, down, &file.content, start, end, due).await?;
    if at < end {
        return Ok(Next::Later(Box::new(FileRest::new(file, at, end))));
    }
    respond::end(exchange, down, &Fields::default()).await.map(|()| Next::Done)
}
