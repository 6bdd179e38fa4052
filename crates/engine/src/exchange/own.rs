//! What rules set for one exchange or session alone.
//!
//! Owns: times in the place of the configured ones, and the address of a name that a rule looked up.
//! Driven by: programs; `times` says which time holds.
//! Why: behind one pointer, which is null for exchanges without such rules.

use std::net::IpAddr;
use std::time::Duration;

use weir_http::trace_context::TraceParent;

/// What rules set.
#[derive(Default)]
pub(crate) struct Own {
    /// Instead of the time between two reads from the endpoint, or two writes to it.
    pub(crate) endpoint: Option<Duration>,
    /// Instead of the time between two reads in a tunnel.
    pub(crate) tunnel: Option<Duration>,
    /// Instead of the time between two writes to the client.
    pub(crate) client: Option<Duration>,
    /// Attempts that may follow the first, instead of the configured number.
    pub(crate) retries: Option<u32>,
    /// Only failures to connect are tried again.
    pub(crate) connect_only: bool,
    /// Before whom it is served where it has to wait: a class, and milliseconds sooner or later.
    pub(crate) priority: (i16, i32),
    /// The trace that it belongs to.
    pub(crate) trace: Option<Box<Trace>>,
    /// The address of the name that was looked up last.
    pub(crate) resolved: Option<IpAddr>,
}

/// The trace that a request belongs to.
pub(crate) struct Trace {
    /// What endpoints are told: the trace, its own span, whether it is sampled.
    pub(crate) own: TraceParent,
    /// Who asked.
    pub(crate) parent: Option<TraceParent>,
    /// `tracestate` as it came.
    pub(crate) state: String,
}
