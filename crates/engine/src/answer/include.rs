//! Bodies of other requests of our own, in the body of a response.
//!
//! Owns: their way into the body.
//! Never: walks a request; the walk does, and gives what comes of it piece by piece ([`Included`]).
//! Driven by: `respond`, where a filter of the response is a [`Joint`].
//! Why: the walk stands above whoever answers, so it says once how a request is asked for ([`serve_by`]). What is
//! included has passed the filters of its own route; of those of the response it passes what stands behind the joint:
//! compression. Where a page has commands, too, the joint around it stands behind theirs.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use weir_http::semantics::range::ByteRange;
use weir_wire::SendError;

use super::{commands, respond};
use crate::exchange::slice::Further;
use crate::exchange::{Downstream, Exchange, Filters, Joint, Stub, Then, errors};

/// A body that is on its way into another.
pub(crate) trait Included {
    /// The next piece; `None` at its end.
    ///
    /// # Errors
    /// It was cut.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Cut>>;

    /// Goes on with it as far as may be held, though nobody takes a piece yet.
    fn poll_ahead(&mut self, cx: &mut Context<'_>);

    /// The status of its response, once that has begun.
    fn status(&self) -> u16;

    /// Most bytes of it that become a value.
    fn most_kept(&self) -> usize;
}

/// A body was cut: what was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Cut(pub(crate) String);

/// What is asked for: a path of the site of an exchange.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    /// What is sent where there is no body.
    pub(crate) stub: Option<Stub>,
    /// It is the exchange's own request, for this slice.
    pub(crate) slice: Option<Further>,
}

/// Asks.
pub(crate) type Ask = fn(&Exchange, Asked<'_>) -> Box<dyn Included>;

static ASK: OnceLock<Ask> = OnceLock::new();

/// Says how requests of our own are asked for; what is said first stands.
pub(crate) fn serve_by(ask: Ask) {
    let _ = ASK.set(ask);
}

/// Asks for a body. `None`: nobody said how.
pub(super) fn ask(exchange: &Exchange, asked: Asked<'_>) -> Option<Box<dyn Included>> {
    ASK.get().map(|ask| ask(exchange, asked))
}

/// A piece of an included body; where that is cut the response is, too.
pub(super) fn cut_to(
    exchange: &Exchange,
    piece: Result<Option<Vec<u8>>, Cut>,
) -> Result<Option<Vec<u8>>, SendError> {
    piece.map_err(|Cut(path)| {
        errors::error(exchange, &format!("the response of \"{path}\" was cut"));
        SendError::Length
    })
}

/// Takes a piece through the filters from a place on, with what comes in between them, and sends it. Boxed: it may meet
/// itself at the next joint.
pub(super) fn onwards<'a, D: Downstream>(
    exchange: &'a mut Exchange,
    down: &'a mut D,
    filters: &'a mut Filters,
    start: usize,
    piece: &'a [u8],
    then: Then,
) -> Pin<Box<dyn Future<Output = Result<(), SendError>> + 'a>> {
    Box::pin(async move {
        let Some(at) = filters.joined_at(start) else {
            respond::make_room(filters).await;
            respond::send_paced(exchange, down, filters.pass_from(start, piece, then)).await?;
            return match filters.problem() {
                None => Ok(()),
                Some(why) => {
                    errors::error(exchange, &why);
                    Err(SendError::Length)
                }
            };
        };
        let step = filters.step();
        let mut rest = piece;
        loop {
            let (now, later) = rest.split_at(rest.len().min(step));
            let then = if later.is_empty() { then } else { Then::More };
            let out = filters.pass_between(start, at, now, then).to_vec();
            match filters.joint(at) {
                Some(Joint::Commands) => commands::pass(exchange, down, filters, at, &out, then).await?,
                Some(Joint::Slices(_)) => slices(exchange, down, filters, at, &out, then).await?,
                _ => around(exchange, down, filters, at, &out, then).await?,
            }
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    })
}

/// Sends what the filters from a place on hold back, and what waits behind them.
pub(super) async fn flush<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    start: usize,
) -> Result<(), SendError> {
    onwards(exchange, down, filters, start, b"", Then::Flush).await?;
    down.flush(exchange).await
}

/// Takes a piece through a joint around it.
async fn around<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    at: usize,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    let behind = at + 1;
    let before = match filters.joint(at) {
        Some(Joint::Around { before, .. }) => before.take(),
        _ => None,
    };
    if let Some(path) = before {
        one(exchange, down, filters, behind, &path).await?;
    }
    let after = match filters.joint(at) {
        Some(Joint::Around { after, .. }) if then == Then::End => after.take(),
        _ => None,
    };
    let Some(path) = after else { return onwards(exchange, down, filters, behind, piece, then).await };
    onwards(exchange, down, filters, behind, piece, Then::More).await?;
    one(exchange, down, filters, behind, &path).await?;
    onwards(exchange, down, filters, behind, b"", then).await
}

/// Sends the body of another request. Where it is cut the response is.
async fn one<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    behind: usize,
    path: &str,
) -> Result<(), SendError> {
    let asked = Asked { path: path.as_bytes(), query: b"", stub: None, slice: None };
    let Some(mut included) = ask(exchange, asked) else { return Err(SendError::Length) };
    while let Some(piece) = next(exchange, down, filters, behind, &mut *included).await? {
        onwards(exchange, down, filters, behind, &piece, Then::More).await?;
    }
    Ok(())
}

/// Passes the first slice of a response on, and the others behind it.
async fn slices<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    at: usize,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    let behind = at + 1;
    if then != Then::End {
        return onwards(exchange, down, filters, behind, piece, then).await;
    }
    onwards(exchange, down, filters, behind, piece, Then::More).await?;
    let size = exchange.slice_size().unwrap_or(u64::MAX);
    while let Some(Joint::Slices(slices)) = filters.joint(at)
        && let Some((further, wanted)) = slices.next(size)
    {
        slice(exchange, down, filters, behind, (further, wanted)).await?;
    }
    onwards(exchange, down, filters, behind, b"", then).await
}

/// Sends the bytes that are wanted of a slice.
async fn slice<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    behind: usize,
    (further, wanted): (Further, ByteRange),
) -> Result<(), SendError> {
    let (mut here, end) = (further.range.start, further.range.end);
    let (path, query) = (exchange.request.path.clone(), exchange.request.query.clone());
    let asked = Asked { path: &path, query: &query, stub: None, slice: Some(further) };
    let Some(mut included) = ask(exchange, asked) else { return Err(SendError::Length) };
    while let Some(piece) = next(exchange, down, filters, behind, &mut *included).await? {
        let begins = here;
        here += piece.len() as u64;
        let inside = |at: u64| at.clamp(begins, here).saturating_sub(begins) as usize;
        let piece = &piece[inside(wanted.start)..inside(wanted.end)];
        onwards(exchange, down, filters, behind, piece, Then::More).await?;
        if here >= wanted.end {
            return Ok(());
        }
    }
    // What is missing is missing in the response.
    if here == end { Ok(()) } else { Err(SendError::Length) }
}

/// The next piece of the body of another request. What is here leaves before anything is waited for.
async fn next<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    behind: usize,
    included: &mut dyn Included,
) -> Result<Option<Vec<u8>>, SendError> {
    let next = match poll_fn(|cx| Poll::Ready(included.poll_piece(cx))).await {
        Poll::Ready(next) => next,
        Poll::Pending => {
            flush(exchange, down, filters, behind).await?;
            poll_fn(|cx| included.poll_piece(cx)).await
        }
    };
    cut_to(exchange, next)
}
