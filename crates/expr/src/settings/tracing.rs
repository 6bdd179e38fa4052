//! Traces.

use serde::{Deserialize, Serialize};

/// What becomes of the context that a request brings (`traceparent`, `tracestate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// It is taken up: the request belongs to the trace of whoever asked.
    pub extract: bool,
    /// Endpoints are told of it, with the request's own span.
    pub inject: bool,
}
