//! Taking a request body in before an action needs it whole.
//!
//! Owns: the size limit, memory and file for buffered bodies.
//! Driven by: proxy and FastCGI actions.

use weir_wire::ReceiveError;

use super::{Downstream, Ending, Exchange, Phase};

/// Whether the declared length exceeds what the route allows.
pub(crate) fn declared_too_large(exchange: &Exchange) -> bool {
    let most = exchange.route().settings.body.max_size;
    most.zip(exchange.request.content_length).is_some_and(|(most, length)| length > most)
}

/// Reads the whole body into memory, or a file. `Err`: the status to answer with.
pub(crate) async fn buffer<D: Downstream>(exchange: &mut Exchange, down: &mut D) -> Result<(), u16> {
    if exchange.body.complete {
        return Ok(());
    }
    if declared_too_large(exchange) {
        return Err(413);
    }
    let settings = exchange.route().settings.body.clone();
    let mut body = std::mem::take(&mut exchange.body);
    let result = loop {
        match down.body_piece(exchange).await {
            Ok(None) => break Ok(()),
            Ok(Some(piece)) => {
                if settings.max_size.is_some_and(|most| body.received() + piece.len() as u64 > most) {
                    break Err(413);
                }
                if let Err(error) = body.keep(piece, settings.memory as usize, &settings.temp_path) {
                    crate::exchange::errors::server_error(
                        exchange,
                        &format!("cannot keep a request body: {error}"),
                    );
                    break Err(500);
                }
            }
            Err(error) => break Err(failed(exchange, &error)),
        }
    };
    body.complete = result.is_ok();
    exchange.body = body;
    if result.is_ok() {
        let mut trailers = std::mem::take(&mut exchange.request_trailers);
        down.trailers(&mut trailers);
        exchange.request_trailers = trailers;
    }
    result
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
            crate::exchange::errors::client_error(
                exchange,
                &format!("client sent invalid chunked body ({error})"),
            );
            error.status()
        }
        ReceiveError::Closed | ReceiveError::Io(_) => {
            exchange.ending = Ending::ClientAborted(Phase::Request);
            400
        }
    }
}
