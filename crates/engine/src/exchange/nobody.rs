//! The client's half of a request that no client sent.
//!
//! Owns: dropping what it is told, within bounds.
//! Driven by: requests of our own: questions, copies, updates of cached objects.

use std::fs::File;
use std::time::Duration;

use weir_wire::{ReceiveError, SendError};

use super::fields::Fields;
use super::{BodySize, Downstream, Exchange};
use crate::worker::watch::Watched;

/// Most bytes of a body that are read and dropped so that its connection can be kept.
const MOST_DROPPED: u64 = 1 << 20;
/// How long they may come.
const LONGEST_DROPPED: Duration = Duration::from_secs(5);

/// Nobody.
#[derive(Default)]
pub(crate) struct Nobody {
    told: u64,
    /// When it was told the head.
    began: Option<weir_rt::Instant>,
    /// All of the body is wanted, by somebody else.
    patient: bool,
}

impl Nobody {
    /// One that takes all of a body, whoever it is for.
    pub(crate) fn patient() -> Self {
        Self { patient: true, ..Self::default() }
    }
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
        let enough = self.told > MOST_DROPPED || late;
        if enough && !self.patient { Err(SendError::Length) } else { Ok(()) }
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
