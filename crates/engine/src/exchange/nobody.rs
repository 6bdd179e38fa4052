//! Nobody, who takes responses that are not wanted for their bodies.
//!
//! Owns: dropping what it is told, within bounds.
//! Driven by: requests of our own: questions, copies, updates of cached objects.

use std::fs::File;
use std::time::Duration;

use weir_wire::SendError;

use super::Exchange;
use super::clientless::{Clientless, Taker};

/// Most bytes of a body that are read and dropped so that its connection can be kept.
const MOST_DROPPED: u64 = 1 << 20;
/// How long they may come.
const LONGEST_DROPPED: Duration = Duration::from_secs(5);

/// Takes a response, and drops it.
#[derive(Default)]
pub(crate) struct Nobody {
    told: u64,
    /// When it was told the head.
    began: Option<weir_rt::Instant>,
    /// All of the body is wanted, by somebody else.
    patient: bool,
}

impl Nobody {
    /// Takes so much of a body that its connection can be kept, if that is not much.
    pub(crate) fn half() -> Clientless<Self> {
        Clientless::default()
    }

    /// Takes all of a body, whoever it is for.
    pub(crate) fn patient_half() -> Clientless<Self> {
        Clientless(Self { patient: true, ..Self::default() })
    }
}

impl Taker for Nobody {
    fn begin(&mut self, exchange: &Exchange) {
        self.began = Some(exchange.worker.now());
    }

    async fn send(&mut self, exchange: &Exchange, data: &[u8]) -> Result<(), SendError> {
        self.told += data.len() as u64;
        let late = self.began.is_some_and(|began| exchange.worker.now() - began > LONGEST_DROPPED);
        // More is not worth a kept connection.
        let enough = self.told > MOST_DROPPED || late;
        if enough && !self.patient { Err(SendError::Length) } else { Ok(()) }
    }

    async fn send_file(&mut self, _: &File, _: u64, _: u64) -> Result<(), SendError> {
        Ok(())
    }

    fn cut(&mut self) {}

    fn retract(&mut self) -> bool {
        // Its status was read as it came, and stands.
        false
    }

    fn taken(&self) -> u64 {
        self.told
    }
}
