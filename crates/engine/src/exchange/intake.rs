//! Taking a request body in before an action needs it whole.
//!
//! Owns: the size limit, memory and file for buffered bodies.
//! Driven by: proxy and FastCGI actions.

use weir_expr::settings::{BodyFiles, BodySettings};
use weir_http::body::BodyError;
use weir_wire::ReceiveError;

use super::{Downstream, Ending, Exchange, Phase};

/// Most bytes of a body that rules wait for: as much as HAProxy's buffers hold.
const MOST_AWAITED: u64 = 16 << 10;

/// Whether the declared length exceeds what the route allows; the error log says so.
pub(crate) fn declared_too_large(exchange: &Exchange) -> bool {
    is_declared_too_large(exchange, exchange.route().settings.body.max_size)
}

fn is_declared_too_large(exchange: &Exchange, most: Option<u64>) -> bool {
    let Some((_, length)) = most.zip(exchange.request.content_length).filter(|(most, length)| length > most)
    else {
        return false;
    };
    super::errors::error(exchange, &format!("client intended to send too large body: {length} bytes"));
    true
}

/// Says that a body without a declared length came to more than the route allows: so many bytes, and the next so many.
pub(crate) fn log_too_large(exchange: &Exchange, received: u64, next: u64) {
    let message = format!("client intended to send too large chunked body: {received}+{next} bytes");
    super::errors::error(exchange, &message);
}

/// Reads the whole body into memory, or a file. `Err`: the status to answer with.
pub(crate) async fn buffer<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Result<(), u16> {
    let settings = exchange.route().settings.body.clone();
    take_in(exchange, down, &settings).await
}

/// Whether a body that no endpoint gets is taken in all the same: the configuration wants it in a file.
pub(crate) fn is_for_file(exchange: &Exchange) -> bool {
    exchange.request.has_body() && exchange.route().settings.body.files != BodyFiles::WhereNeeded
}

/// Reads the whole body into memory if it has at most so many bytes. `Err`: the status to answer with.
pub(crate) async fn into_memory<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    most: usize,
) -> Result<(), u16> {
    let mut settings = BodySettings::clone(&exchange.route().settings.body);
    settings.memory = most as u64;
    settings.files = BodyFiles::WhereNeeded;
    settings.max_size = Some(settings.max_size.map_or(most as u64, |own| own.min(most as u64)));
    take_in(exchange, down, &settings).await
}

/// Waits until so many bytes of the body are here, or all of it, or as much as memory is to hold. `Err`: the status to answer
/// with.
pub(crate) async fn wait_for<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    least: Option<u64>,
) -> Result<(), u16> {
    let settings = exchange.route().settings.body.clone();
    let enough = least.unwrap_or(u64::MAX).min(MOST_AWAITED);
    let mut received = exchange.body.buffered();
    let mut body = std::mem::take(&mut exchange.body);
    let result = loop {
        if body.complete || received >= enough {
            break Ok(());
        }
        match down.body_piece(exchange).await {
            Ok(None) => body.complete = true,
            Ok(Some(piece)) => {
                received += piece.len() as u64;
                if let Err(error) = body.keep(piece, &settings) {
                    super::errors::server_error(exchange, &format!("cannot keep a request body: {error}"));
                    break Err(500);
                }
            }
            Err(error) => break Err(failed(exchange, &error)),
        }
    };
    exchange.body = body;
    if exchange.body.complete {
        let mut trailers = std::mem::take(&mut exchange.request_trailers);
        down.trailers(&mut trailers);
        exchange.request_trailers = trailers;
    }
    result
}

async fn take_in<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    settings: &BodySettings,
) -> Result<(), u16> {
    if exchange.body.complete {
        return Ok(());
    }
    let mut body = std::mem::take(&mut exchange.body);
    let result = each_piece(exchange, down, settings.max_size, |piece| body.keep(piece, settings)).await;
    body.complete = result.is_ok();
    exchange.body = body;
    if result.is_ok() {
        let mut trailers = std::mem::take(&mut exchange.request_trailers);
        down.trailers(&mut trailers);
        exchange.request_trailers = trailers;
    }
    result
}

/// Hands each piece of a body of at most so many bytes to somebody who keeps it. `Err`: the status to answer with.
pub(crate) async fn each_piece<D: Downstream>(
    exchange: &mut Exchange,
    down: &mut D,
    most: Option<u64>,
    mut keep: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), u16> {
    if is_declared_too_large(exchange, most) {
        return Err(413);
    }
    let mut received = 0;
    loop {
        match down.body_piece(exchange).await {
            Ok(None) => return Ok(()),
            Ok(Some(piece)) => {
                let next = piece.len() as u64;
                if most.is_some_and(|most| received + next > most) {
                    log_too_large(exchange, received, next);
                    return Err(413);
                }
                received += next;
                if let Err(error) = keep(piece) {
                    super::errors::server_error(exchange, &format!("cannot keep a request body: {error}"));
                    return Err(500);
                }
            }
            Err(error) => return Err(failed(exchange, &error)),
        }
    }
}

/// Notes why the body could not be read, and gives the status to answer with.
pub(crate) fn failed(exchange: &mut Exchange, error: &ReceiveError) -> u16 {
    exchange.close_after = true;
    match error {
        ReceiveError::Timeout => {
            exchange.ending = Ending::ClientTimeout(Phase::Request);
            408
        }
        ReceiveError::Malformed(error) => {
            exchange.ending = Ending::Proxy(Phase::Request);
            // What is too large was told with its size.
            if !matches!(error, BodyError::TooLarge) {
                let message = format!("client sent invalid chunked body ({error})");
                super::errors::client_error(exchange, &message);
            }
            error.status()
        }
        ReceiveError::Closed | ReceiveError::Io(_) => {
            exchange.ending = Ending::ClientAborted(Phase::Request);
            400
        }
    }
}
