//! Variables about the trace that a request belongs to.
//!
//! Never: decides whether there is one (`eval::trace`).

use std::io::Write as _;

use crate::exchange::Traffic;

/// What of a trace a variable says.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Trace,
    Span,
    Parent,
    ParentSampled,
}

/// Appends the value of a variable about the trace; false if there is none.
pub(super) fn append(traffic: &impl Traffic, of: Part, out: &mut Vec<u8>) -> bool {
    let trace = traffic.exchange().and_then(|exchange| exchange.own.as_ref()?.trace.as_ref());
    let Some(trace) = trace else { return false };
    let written = match (of, trace.parent) {
        (Part::Trace, _) => write!(out, "{:032x}", trace.own.trace_id),
        (Part::Span, _) => write!(out, "{:016x}", trace.own.span_id),
        (Part::Parent, Some(parent)) => write!(out, "{:016x}", parent.span_id),
        (Part::ParentSampled, Some(parent)) => write!(out, "{}", u8::from(parent.sampled)),
        (Part::Parent, None) => return false,
        (Part::ParentSampled, None) => write!(out, "0"),
    };
    written.is_ok()
}
