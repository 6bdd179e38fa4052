//! A request or session among those in flight.
//!
//! Owns: what is told of it when it begins and when it is over.
//! Never: keeps the notes; `worker::flights` does.
//! Driven by: connections, once it is known what is asked for; the log, once it is over.

use super::{Ending, Exchange, Session, Traffic};
use crate::worker::flights::{Begun, CameTo};

impl Exchange {
    /// It is among those in flight from now on, if anybody is to be shown them.
    #[inline]
    pub(crate) fn enter_flight(&mut self) {
        if self.worker.flights.is_on() {
            self.begin_flight();
        }
    }

    #[cold]
    fn begin_flight(&mut self) {
        let begun = Begun {
            method: &self.request.method_text,
            target: &self.request.target,
            client: self.client_source(),
            site: self.site().id,
            at: self.started,
        };
        self.core.flight = Some(self.worker.flights.enter(&begun));
    }

    /// It is over.
    #[inline]
    pub(crate) fn leave_flight(&mut self) {
        if self.flight.is_some() {
            let status = self.response.status;
            // A tunnel ends when its client has had enough, and so does what the client did not wait for.
            let telling = status != 101 && !matches!(self.ending, Ending::ClientAborted(_));
            end(self, status, telling);
        }
    }
}

impl Session {
    /// It is among those in flight from now on, if anybody is to be shown them.
    pub(crate) fn enter_flight(&mut self) {
        if !self.worker.flights.is_on() {
            return;
        }
        let begun = Begun {
            method: b"",
            target: b"",
            client: self.client_source(),
            site: self.service().id,
            at: self.client.accepted,
        };
        self.flight = Some(self.worker.flights.enter(&begun));
    }

    /// It is over.
    pub(crate) fn leave_flight(&mut self) {
        if self.flight.is_some() {
            end(self, self.status, false);
        }
    }
}

#[cold]
fn end(traffic: &mut impl Traffic, status: u16, telling: bool) {
    let Some(flight) = traffic.flight.take() else { return };
    let ending = traffic.ending;
    let by_client = matches!(ending, Ending::ClientAborted(_) | Ending::ClientTimeout(_));
    flight.end(&CameTo {
        took: traffic.elapsed(),
        status,
        ending: ending.letters(),
        failed: !by_client && (status >= 500 || has_failed(ending)),
        telling,
        attempts: u32::try_from(traffic.attempts.len()).unwrap_or(u32::MAX),
        client: traffic.client_source(),
    });
}

/// Whether an endpoint or Weir itself broke off, whatever the status that had been sent by then.
fn has_failed(ending: Ending) -> bool {
    matches!(
        ending,
        Ending::ServerAborted(_) | Ending::ServerTimeout(_) | Ending::Cut(..) | Ending::Resource(_)
    )
}
