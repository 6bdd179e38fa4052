//! How an answer ends that was carried by a protocol whose failures say why.
//!
//! Owns: what is noted and logged of such an answer, carried wholly or not.
//! Never: carries bytes.
//! Driven by: `fastcgi`, `http2`.

use weir_policy::retry::Failure;
use weir_telemetry::AttemptEnd;
use weir_wire::SendError;

use crate::exchange::{Downstream, Ending, Exchange, Next, Phase, errors};
use crate::upstream::Failed;
use crate::worker::count::Attempting;

/// How far an answer was carried.
pub(super) enum Relayed {
    /// To its end.
    Whole,
    /// It lasts; there is more to come.
    Lasting,
}

/// Why it was not carried further.
pub(super) enum Relay {
    Client(SendError),
    Endpoint(Failed),
}

/// What came of it.
pub(super) struct Came {
    /// The status of its head.
    pub(super) status: u16,
    /// Bytes of its body.
    pub(super) passed: u64,
    /// Bytes of the whole.
    pub(super) received: u64,
    /// It came to its end.
    pub(super) over: bool,
}

/// A body that is not as long as it was announced is the endpoint's fault, the rest the client's.
pub(super) fn of_client(error: SendError) -> Relay {
    match error {
        SendError::Length => Relay::Endpoint(Failed::malformed(
            "upstream sent a body of another length than its Content-Length",
        )),
        error => Relay::Client(error),
    }
}

/// Notes how it ended.
pub(super) fn ended<D: Downstream, L>(
    exchange: &mut Exchange,
    down: &mut D,
    mut counted: Attempting,
    came: &Came,
    relayed: Result<(), Relay>,
) -> Next<L> {
    let elapsed = exchange.elapsed();
    if let Some(record) = exchange.attempts.last_mut() {
        record.response = Some(elapsed);
        record.length = came.passed;
        record.received = came.received;
    }
    match relayed {
        Ok(()) => counted.end(AttemptEnd::Answer(came.status), exchange),
        Err(Relay::Client(error)) => {
            down.fail(exchange, &error);
            let end = if came.over { AttemptEnd::Answer(came.status) } else { AttemptEnd::ClientAbort };
            counted.end(end, exchange);
        }
        Err(Relay::Endpoint(failed)) => {
            exchange.ending = match failed.failure {
                Failure::Timeout => Ending::ServerTimeout(Phase::Data),
                _ => Ending::ServerAborted(Phase::Data),
            };
            errors::upstream_error(exchange, &failed.why);
            counted.end(AttemptEnd::ServerAbort, exchange);
            if down.retract(exchange) {
                return Next::Status(failed.failure.status());
            }
            down.cut();
        }
    }
    Next::Done
}
