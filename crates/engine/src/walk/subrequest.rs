//! Requests of our own to another route of the same site: for an exchange that waits, or beside one.
//!
//! Owns: the half of the client of such a request, where nobody is; what its status means for access.
//! Never: is limited, logged, or asks in its turn.
//! Driven by: the walk, for nginx's `auth_request` and `mirror`.
//! Why: the route that is asked may be anything, a proxy mostly, so it is walked like any other. What runs beside its
//! exchange is a task of the worker: it holds up neither the response nor the client's next request.

use std::fs::File;
use std::pin::Pin;
use std::time::Duration;

use weir_http::HeaderId;
use weir_plan::AuthRequest;
use weir_wire::{ReceiveError, SendError};

use crate::exchange::errors;
use crate::exchange::fields::Fields;
use crate::exchange::{BodySize, Downstream, Exchange};
use crate::worker::watch::Watched;

/// Most bytes of a body that are read and dropped so that its connection can be kept.
const MOST_DROPPED: u64 = 1 << 20;
/// How long they may come.
const LONGEST_DROPPED: Duration = Duration::from_secs(5);

/// Asks whether an exchange may pass. The status to refuse with, if not.
///
/// Boxed as a trait object: what is asked is walked by the very code that asks.
pub(crate) fn ask<'a>(
    exchange: &'a mut Exchange,
    ask: &'a AuthRequest,
) -> Pin<Box<dyn Future<Output = Option<u16>> + 'a>> {
    Box::pin(async move {
        let mut asked = exchange.ask_for(ask.path.as_bytes());
        // Nobody takes a tunnel, and what is asked does not last: there is nothing left for later.
        let _ = super::run_path(&mut asked, &mut Nobody::default()).await;
        for (slot, value) in &ask.set {
            exchange.slots.set(*slot, &crate::eval::text(&*asked, value));
        }
        if let Some(why) = asked.slots.take_doubt() {
            exchange.slots.doubt(why);
        }
        let status = asked.response.status;
        let verdict = match status {
            200..300 => None,
            401 => {
                exchange.response.fields.remove(HeaderId::WwwAuthenticate);
                for challenge in asked.response.fields.all(HeaderId::WwwAuthenticate) {
                    exchange.response.fields.push_id(HeaderId::WwwAuthenticate, challenge);
                }
                Some(401)
            }
            403 => Some(403),
            _ => {
                errors::error(exchange, &format!("auth request unexpected status: {status}"));
                Some(500)
            }
        };
        asked.give();
        verdict
    })
}

/// Sends a copy of a request to another route, beside its exchange. Nobody waits for it, and its response is dropped.
pub(crate) fn beside(exchange: &Exchange, path: &str, with_body: bool) {
    let Some(counted) = exchange.worker.begin_beside() else {
        let why = "too many copies of requests wait for their responses";
        return errors::error(exchange, &format!("{why}: none is sent to \"{path}\""));
    };
    let mut copy = match exchange.copy_to(path.as_bytes(), with_body) {
        Ok(copy) => copy,
        Err(error) => {
            return errors::server_error(
                exchange,
                &format!("cannot send a body to \"{path}\" as well: {error}"),
            );
        }
    };
    weir_rt::spawn(async move {
        let _counted = counted;
        let _ = super::run_path(&mut copy, &mut Nobody::default()).await;
        copy.give();
    });
}

/// The client's half of a request that no client sent: what it is told is dropped.
#[derive(Default)]
struct Nobody {
    told: u64,
    /// When it was told the head.
    began: Option<weir_rt::Instant>,
}

impl Downstream for Nobody {
    async fn body_piece(&mut self, _: &Exchange) -> Result<Option<&[u8]>, ReceiveError> {
        Ok(None)
    }

    fn body_done(&self) -> bool {
        true
    }

    fn trailers(&self, _: &mut Fields) {}

    async fn interim(&mut self, _: u16, _: &Fields) -> Result<(), SendError> {
        Ok(())
    }

    fn begin(&mut self, exchange: &mut Exchange, _: BodySize) {
        exchange.response.head_sent = true;
        self.began = Some(exchange.worker.now());
    }

    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.told += data.len() as u64;
        let late = self.began.is_some_and(|began| exchange.worker.now() - began > LONGEST_DROPPED);
        // More is not worth a kept connection.
        if self.told > MOST_DROPPED || late { Err(SendError::Length) } else { Ok(()) }
    }

    async fn send_file(&mut self, _: &Exchange, _: &File, _: u64, _: u64) -> Result<(), SendError> {
        Ok(())
    }

    async fn flush(&mut self, _: &Exchange) -> Result<(), SendError> {
        Ok(())
    }

    async fn finish(&mut self, _: &Exchange, _: &Fields) -> Result<(), SendError> {
        Ok(())
    }

    fn cut(&mut self) {}

    fn retract(&mut self, _: &mut Exchange) -> bool {
        // Its status was read as it came, and stands.
        false
    }

    fn sent(&self) -> (u64, u64) {
        (self.told, self.told)
    }

    fn watched(&self) -> Watched {
        Watched::Nobody
    }

    fn take_tunnel(&mut self) -> Option<(weir_wire::Conn, weir_rt::Buf)> {
        None
    }
}
