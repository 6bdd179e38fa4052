//! Bodies of other requests of our own, in the body of a response.
//!
//! Owns: deciding on them (nginx's addition module), and their way into the body.
//! Never: walks a request; the walk does, and gives what comes of it piece by piece ([`Included`]).
//! Driven by: `respond`, where a filter of the response is a [`Joint`].
//! Why: the walk stands above whoever answers, so it says once how a request is asked for ([`serve_by`]). What is
//! included has passed the filters of its own route; of those of the response it passes what stands behind the joint:
//! compression.

use std::future::poll_fn;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use weir_wire::SendError;

use super::{entity, respond};
use crate::exchange::{BodyFilter, BodySize, Downstream, Exchange, Filters, Joint, Then, errors};

/// A body that is on its way into another.
pub(crate) trait Included {
    /// The next piece; `None` at its end.
    ///
    /// # Errors
    /// It was cut.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ()>>;
}

/// Asks for a path of the site of an exchange.
pub(crate) type Ask = fn(&Exchange, &[u8]) -> Box<dyn Included>;

static ASK: OnceLock<Ask> = OnceLock::new();

/// Says how requests of our own are asked for; what is said first stands.
pub(crate) fn serve_by(ask: Ask) {
    let _ = ASK.set(ask);
}

/// Stands in the list of filters where other bodies come in.
struct Around(Joint);

impl BodyFilter for Around {
    fn pass<'a>(&'a mut self, piece: &'a [u8], _: Then) -> &'a [u8] {
        piece
    }

    fn joint(&mut self) -> Option<&mut Joint> {
        Some(&mut self.0)
    }
}

/// Decides on what is added; the size that the body then has.
pub(super) fn begin(exchange: &mut Exchange, size: BodySize) -> BodySize {
    let installed = exchange.installed.clone();
    let filters = &installed.plan.route(exchange.route).settings.filters;
    let Some(addition) = filters.as_ref().and_then(|filters| filters.addition.as_ref()) else { return size };
    let applies = exchange.response.status == 200
        && exchange.asked_for.is_none()
        && addition.types.take(entity::content_type(exchange));
    if !applies {
        return size;
    }
    entity::drop_length(exchange);
    entity::weaken(&mut exchange.response.fields);
    if size == BodySize::Bodiless {
        return size;
    }
    let joint = Joint { before: addition.before.clone(), after: addition.after.clone() };
    exchange.filters.push(Box::new(Around(joint)));
    BodySize::Unknown
}

/// Takes a piece through filters of which the one at `at` is a joint.
pub(super) async fn around<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    at: usize,
    piece: &[u8],
    then: Then,
) -> Result<(), SendError> {
    let behind = at + 1;
    if let Some(path) = filters.joint(at).and_then(|joint| joint.before.take()) {
        one(exchange, down, filters, behind, &path).await?;
    }
    let step = filters.step();
    let mut rest = piece;
    loop {
        let (now, later) = rest.split_at(rest.len().min(step));
        let then = if later.is_empty() { then } else { Then::More };
        let out = filters.pass_until(behind, now, then).to_vec();
        let after =
            (then == Then::End).then(|| filters.joint(at).and_then(|joint| joint.after.take())).flatten();
        let then_behind = if after.is_some() { Then::More } else { then };
        respond::send_paced(exchange, down, filters.pass_from(behind, &out, then_behind)).await?;
        if let Some(why) = filters.problem() {
            errors::error(exchange, &why);
            return Err(SendError::Length);
        }
        if let Some(path) = after {
            one(exchange, down, filters, behind, &path).await?;
            respond::send_paced(exchange, down, filters.pass_from(behind, b"", then)).await?;
        }
        if later.is_empty() {
            return Ok(());
        }
        rest = later;
    }
}

/// Sends the body of another request. Where it is cut the response is.
async fn one<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    filters: &mut Filters,
    behind: usize,
    path: &str,
) -> Result<(), SendError> {
    let Some(ask) = ASK.get() else { return Err(SendError::Length) };
    let mut included = ask(exchange, path.as_bytes());
    loop {
        // What is here leaves before anything is waited for.
        let next = match poll_fn(|cx| Poll::Ready(included.poll_piece(cx))).await {
            Poll::Ready(next) => next,
            Poll::Pending => {
                respond::send_paced(exchange, down, filters.pass_from(behind, b"", Then::Flush)).await?;
                down.flush(exchange).await?;
                poll_fn(|cx| included.poll_piece(cx)).await
            }
        };
        match next {
            Ok(Some(piece)) => {
                respond::send_paced(exchange, down, filters.pass_from(behind, &piece, Then::More)).await?;
            }
            Ok(None) => return Ok(()),
            Err(()) => {
                errors::error(exchange, &format!("the response of \"{path}\" was cut"));
                return Err(SendError::Length);
            }
        }
    }
}
