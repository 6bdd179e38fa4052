//! How an answer of an endpoint ends, and what is left of one that lasts.
//!
//! Owns: what is noted and logged of an answer that was carried, wholly or not.
//! Never: carries bytes; `relay` does.
//! Driven by: `forward` where the answer is soon over, `action::later` where it lasts.

use std::convert::Infallible;
use std::sync::Arc;

use weir_expr::settings::UpstreamSettings;
use weir_rt::Timer;
use weir_telemetry::AttemptEnd;
use weir_wire::{ReceiveError, SendError};

use super::relay::{self, ReadAhead, Relay, Relayed, Source, relay};
use crate::exchange::errors;
use crate::exchange::{Downstream, Ending, Exchange, Next, Phase};
use crate::worker::watch::{Ends, Watch};

/// What is left of an answer that lasts.
pub(crate) struct ProxiedRest {
    pub(super) source: Source<'static>,
    pub(super) ahead: ReadAhead<'static>,
    pub(super) settings: Arc<UpstreamSettings>,
    pub(super) status: u16,
}

impl ProxiedRest {
    /// Carries it to its end.
    pub(crate) async fn carry<D: Downstream>(mut self, exchange: &mut Exchange, down: &mut D) {
        let timer = Timer::new();
        let watch = Watch::new(down.watched(), Ends::answering(self.settings.client_abort));
        let (waits, patience) = ((&timer, &watch, None), exchange.read_timeout(&self.settings));
        let relayed = relay(exchange, down, patience, waits, &mut self.ahead, &mut self.source).await;
        let relayed = match relayed {
            Err(Relay::Client(error)) if exchange.may_be_stored() => {
                self.store(exchange, down, &timer, error).await.map(|()| Relayed::Whole)
            }
            relayed => relayed,
        };
        // Something of it was sent long ago: nothing else can be answered.
        let _: Next<Infallible> =
            relayed_to(exchange, down, &mut self.source, self.status, relayed.map(drop));
    }

    /// Takes an answer in whose client has gone, because it is stored.
    pub(super) async fn store<D: Downstream>(
        &mut self,
        exchange: &mut Exchange,
        down: &mut D,
        timer: &Timer,
        error: SendError,
    ) -> Result<(), Relay> {
        down.fail(exchange, &error);
        let patience = exchange.read_timeout(&self.settings);
        relay::absorb(exchange, patience, timer, &mut self.ahead, &mut self.source).await?;
        // What became of the client stands.
        Err(Relay::Client(error))
    }

    /// Notes how it ended.
    pub(super) fn ended<D: Downstream, L>(
        mut self,
        exchange: &mut Exchange,
        down: &mut D,
        relayed: Result<(), Relay>,
    ) -> Next<L> {
        relayed_to(exchange, down, &mut self.source, self.status, relayed)
    }
}

/// Notes how an answer ended.
pub(super) fn relayed_to<D: Downstream, L>(
    exchange: &mut Exchange,
    down: &mut D,
    source: &mut Source<'_>,
    status: u16,
    relayed: Result<(), Relay>,
) -> Next<L> {
    let (length, head, ended) = source.came();
    let over = source.is_over();
    let counted = source.counted();
    let elapsed = ended.map_or(exchange.elapsed(), |ended| ended.saturating_duration_since(exchange.started));
    if let Some(record) = exchange.attempts.last_mut() {
        record.response = Some(elapsed);
        record.length = length;
        record.received = length + head as u64;
    }
    match relayed {
        Ok(()) => counted.end(AttemptEnd::Answer(status), exchange),
        Err(Relay::Client(error)) => {
            down.fail(exchange, &error);
            let end = if over { AttemptEnd::Answer(status) } else { AttemptEnd::ClientAbort };
            counted.end(end, exchange);
        }
        Err(Relay::Own(error)) => {
            errors::server_error(exchange, &format!("cannot read a spooled answer back: {error}"));
            counted.own_fault();
            exchange.ending = Ending::Resource(Phase::Data);
            down.cut();
        }
        Err(Relay::Endpoint(error)) => {
            exchange.ending = match error {
                ReceiveError::Timeout => Ending::ServerTimeout(Phase::Data),
                _ => counted.broken(Some(Phase::Data)),
            };
            errors::upstream_error(exchange, &cut_short(&error));
            counted.end(AttemptEnd::ServerAbort, exchange);
            if down.retract(exchange) {
                return Next::Status(if matches!(error, ReceiveError::Timeout) { 504 } else { 502 });
            }
            down.cut();
        }
    }
    Next::Done
}

/// What the log says of a body that its endpoint cut.
fn cut_short(error: &ReceiveError) -> String {
    match error {
        ReceiveError::Closed => "upstream prematurely closed connection while reading upstream".to_owned(),
        ReceiveError::Timeout => {
            "upstream timed out (110: Connection timed out) while reading upstream".to_owned()
        }
        ReceiveError::Malformed(error) => {
            format!("upstream sent an invalid body ({}) while reading upstream", error.as_str())
        }
        ReceiveError::Io(error) => {
            format!("recv() failed ({}) while reading upstream", errors::system(error))
        }
    }
}
