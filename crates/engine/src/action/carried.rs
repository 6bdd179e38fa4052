//! An answer carried by a protocol whose failures say why: from its first byte of body to its end, with its plan or without.
//!
//! Owns: what is left of one that lasts, and what is noted and logged of one that ended.
//! Never: carries bytes; the protocols' actions do.
//! Driven by: `fastcgi`, `http2`; `action::later`, for what lasts.

use std::convert::Infallible;
use std::sync::Arc;

use weir_expr::settings::UpstreamSettings;
use weir_policy::retry::Failure;
use weir_rt::{Instant, Timer};
use weir_telemetry::AttemptEnd;
use weir_wire::SendError;

use super::lasting;
use crate::exchange::{Downstream, Ending, Exchange, Next, Phase, errors};
use crate::upstream::{Attempts, Failed, LeaseEnd};
use crate::worker::count::Attempting;
use crate::worker::watch::{Ends, Watch};

/// How far an answer was carried.
pub(crate) enum Relayed {
    /// To its end.
    Whole,
    /// It lasts; there is more to come.
    Lasting,
}

/// Why it was not carried further.
pub(crate) enum Relay {
    Client(SendError),
    Endpoint(Failed),
}

/// What is waited by: over the endpoint, over the client, and until when the answer does not last.
pub(crate) type Waits<'a> = (&'a Timer, &'a Watch, Option<Instant>);

/// An answer whose head was read, in its protocol.
#[allow(async_fn_in_trait, reason = "used within this crate on one thread")]
pub(crate) trait Carried {
    /// Carries the body on, until it has ended or lasts.
    async fn relay<D: Downstream>(
        &mut self,
        exchange: &mut Exchange,
        down: &mut D,
        settings: &UpstreamSettings,
        waits: Waits<'_>,
    ) -> Result<Relayed, Relay>;

    /// Keeps the connection, if the answer came to its end and another request can follow.
    fn park(&mut self, exchange: &Exchange, counted: &Attempting);

    /// What came so far.
    fn came(&self) -> Came;
}

/// What came of an answer.
pub(crate) struct Came {
    /// Bytes of its body.
    pub(crate) passed: u64,
    /// Bytes of the whole.
    pub(crate) received: u64,
    /// It came to its end.
    pub(crate) over: bool,
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

/// Ends an answer that another takes the place of.
pub(super) fn drop_body<L: Carried>(
    exchange: &mut Exchange,
    mut link: L,
    mut counted: Attempting,
    status: u16,
) {
    link.park(exchange, &counted);
    counted.end(AttemptEnd::Answer(status), exchange);
}

/// What is left of an answer, and what its end is noted in.
pub(crate) struct Rest<L> {
    pub(super) link: L,
    pub(super) counted: Attempting,
    pub(super) lease: LeaseEnd,
    pub(super) settings: Arc<UpstreamSettings>,
    /// The status of its head.
    pub(super) status: u16,
}

impl<L: Carried> Rest<L> {
    /// Carries it until it has ended or lasts.
    pub(super) async fn begin<D: Downstream>(
        mut self,
        exchange: &mut Exchange,
        down: &mut D,
        attempts: &Attempts<'_>,
    ) -> Next<Box<Self>> {
        let waits = (attempts.timer, attempts.watch, lasting::due(exchange));
        match self.link.relay(exchange, down, &self.settings, waits).await {
            Ok(Relayed::Lasting) => Next::Later(Box::new(self)),
            relayed => self.ended(exchange, down, relayed.map(drop)),
        }
    }

    /// Carries one that lasts to its end.
    pub(super) async fn carry<D: Downstream>(mut self, exchange: &mut Exchange, down: &mut D) {
        let timer = Timer::new();
        let watch = Watch::new(down.watched(), Ends::answering(self.settings.client_abort));
        let relayed = self.link.relay(exchange, down, &self.settings, (&timer, &watch, None)).await;
        // Something of it was sent long ago: nothing else can be answered.
        let _: Next<Infallible> = self.ended(exchange, down, relayed.map(drop));
    }

    /// Notes how it ended.
    fn ended<D: Downstream, T>(
        self,
        exchange: &mut Exchange,
        down: &mut D,
        relayed: Result<(), Relay>,
    ) -> Next<T> {
        let Self { mut link, counted, lease, status, .. } = self;
        drop(lease);
        link.park(exchange, &counted);
        ended(exchange, down, counted, status, &link.came(), relayed)
    }
}

/// Notes how it ended.
fn ended<D: Downstream, T>(
    exchange: &mut Exchange,
    down: &mut D,
    mut counted: Attempting,
    status: u16,
    came: &Came,
    relayed: Result<(), Relay>,
) -> Next<T> {
    let elapsed = exchange.elapsed();
    if let Some(record) = exchange.attempts.last_mut() {
        record.response = Some(elapsed);
        record.length = came.passed;
        record.received = came.received;
    }
    match relayed {
        Ok(()) => counted.end(AttemptEnd::Answer(status), exchange),
        Err(Relay::Client(error)) => {
            down.fail(exchange, &error);
            let end = if came.over { AttemptEnd::Answer(status) } else { AttemptEnd::ClientAbort };
            counted.end(end, exchange);
        }
        Err(Relay::Endpoint(failed)) => {
            exchange.ending = match failed.failure {
                Failure::Timeout => Ending::ServerTimeout(Phase::Data),
                _ => counted.broken(Some(Phase::Data)),
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
