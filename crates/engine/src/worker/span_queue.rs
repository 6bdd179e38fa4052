//! Spans that wait for the thread that tells them (`spans`), counted.
//!
//! Owns: the queue of the process, the count of what was told and what was lost.
//! Never: starts the thread, or knows who shares it.
//! Driven by: `spans`.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use weir_plan::SpanExport;
use weir_telemetry::otlp::Span;

/// A span, and whom it is told to.
pub(super) type Order = (Arc<SpanExport>, Span);

/// The queue of the process.
#[derive(Default)]
pub(crate) struct Spans {
    pub(super) orders: OnceLock<Sender<Order>>,
    pub(super) queued: AtomicUsize,
    pub(super) exported: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Spans {
    /// Told, dropped because too many waited, lost because the collector did not take them.
    pub(crate) fn totals(&self) -> [u64; 3] {
        [&self.exported, &self.dropped, &self.failed].map(|count| count.load(Relaxed))
    }
}
