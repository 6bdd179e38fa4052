//! The Prometheus page.
//!
//! Owns: its fields. The text is [`weir_telemetry::prometheus`]'s.

use weir_control::snapshot::Snapshot;
use weir_telemetry::prometheus;

use crate::Page;

/// All metrics of the process.
pub fn page(snapshot: &Snapshot) -> Page {
    Page::new(prometheus::CONTENT_TYPE, prometheus::render(snapshot))
}
