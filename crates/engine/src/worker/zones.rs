//! Counting apart, under names that a configuration gives for that.
//!
//! Owns: the place of an exchange or a session in its zone; what outcomes of limits and of the cache are called.
//! Never: counts anything where nothing asks for it.
//! Driven by: the walk and TCP services at the beginning, `exchange::tally` at the end; limits.

use std::time::Duration;

use weir_control::ZoneId;
use weir_telemetry::FrontCells;

use crate::worker::count::{Cells, Counters, micros, second};

/// Outcomes of limits, as they are counted.
#[derive(Clone, Copy)]
pub(crate) enum Limited {
    Passed = 0,
    Delayed = 1,
    Rejected = 2,
    DelayedDryRun = 3,
    RejectedDryRun = 4,
}

/// How many outcomes there are.
pub(crate) const CACHE_STATUSES: usize = 7;

/// What became of looking for an object: nginx's words. Of the first three, responses may be written to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    /// As logs show it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Miss => "MISS",
            Self::Bypass => "BYPASS",
            Self::Expired => "EXPIRED",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Revalidated => "REVALIDATED",
            Self::Hit => "HIT",
        }
    }
}

/// An exchange or a session in its zone, while this lives.
pub(crate) struct InZone(Cells<FrontCells>);

impl Drop for InZone {
    fn drop(&mut self) {
        self.0.processing.leave();
    }
}

/// How it ended.
pub(crate) struct Ended {
    /// Its status; 0: there was no response.
    pub(crate) status: u16,
    /// Nothing was sent.
    pub(crate) silent: bool,
    /// Bytes of the client.
    pub(crate) received: u64,
    /// Bytes to the client.
    pub(crate) sent: u64,
    /// From its beginning.
    pub(crate) took: Duration,
}

impl InZone {
    /// It is over.
    pub(crate) fn end(self, ended: &Ended) {
        let Ended { status, silent, received, sent, took } = *ended;
        self.0.bytes_in.add(received);
        self.0.bytes_out.add(sent);
        if silent {
            self.0.discarded.bump();
            return;
        }
        self.0.answer(status, micros(took));
        self.0.codes.bump(status);
    }
}

impl Counters {
    /// An exchange or a session begins in a zone.
    pub(crate) fn enter_zone(&self, zone: ZoneId) -> InZone {
        let cells = self.zone(zone);
        cells.processing.enter();
        cells.request(1, second());
        InZone(cells)
    }

    /// A TLS handshake with a client of a zone; `None`: it failed.
    pub(crate) fn handshake_in_zone(&self, zone: ZoneId, resumed: Option<bool>) {
        let tls = &self.zone(zone).tls;
        match resumed {
            None => tls.failed.bump(),
            Some(true) => tls.resumed.bump(),
            Some(false) => tls.full.bump(),
        }
    }

    /// What a limit did.
    pub(crate) fn limited(&self, zone: ZoneId, outcome: Limited) {
        self.events(zone).add(outcome as usize, 1);
    }
}
