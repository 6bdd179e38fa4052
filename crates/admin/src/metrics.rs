//! The Prometheus page.
//!
//! Owns: its fields. The text is [`weir_telemetry::prometheus`]'s.

use weir_control::snapshot::Snapshot;
use weir_telemetry::{prometheus, protobuf};

use crate::Page;

/// All metrics of the process, in the format that the Accept field prefers.
pub fn page(snapshot: &Snapshot, accept: Option<&[u8]>) -> Page {
    if accept.is_some_and(prometheus::wants_protobuf) {
        let mut page = Page::new(protobuf::CONTENT_TYPE, String::new());
        page.body = prometheus::render_protobuf(snapshot);
        return page;
    }
    Page::new(prometheus::CONTENT_TYPE, prometheus::render(snapshot))
}
