//! Words of the module `otel` (nginx.org, ngx_otel_module).

use super::entry::Entry;
use super::entry::Kind::Text;
use super::entry::places::{H, HSL};
use crate::take::otel;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("otel_exporter", H, (0, 0), "", "Whom spans are told to.").block().shared(otel::exporter),
    Entry::one("otel_service_name", H, Text, "unknown_service:nginx", "The name of the service in traces.")
        .shared(otel::service),
    Entry::new("otel_resource_attr", H, (2, 2), "", "What else is said of the service.")
        .repeats()
        .shared(otel::resource),
    Entry::new("otel_trace", HSL, (1, 1), "off", "Which requests are traced.").scope(otel::trace),
    Entry::new("otel_trace_context", HSL, (1, 1), "ignore", "What becomes of traceparent and tracestate.")
        .scope(otel::context),
    Entry::new("otel_span_name", HSL, (1, 1), "", "The name of spans; else the location's.")
        .scope(otel::span_name),
    Entry::new("otel_span_attr", HSL, (2, 2), "", "An attribute of spans.").repeats().scope(otel::attribute),
];
