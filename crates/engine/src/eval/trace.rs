//! The trace that a request belongs to.
//!
//! Owns: whether a request is sampled, its ids, what endpoints are told of it.
//! Never: tells a collector (`answer::spans`).
//! Driven by: the walk, before a route's program, where the route asks for it.

use weir_http::trace_context::{TraceParent, trace_state};
use weir_plan::Tracing;

use super::text;
use crate::exchange::fields::FieldName;
use crate::exchange::{Exchange, Trace};

/// Decides once for a request; what it is redirected to inside changes nothing.
#[cold]
pub(crate) fn begin(exchange: &mut Exchange, tracing: &Tracing) {
    let known = exchange.own.as_ref().is_some_and(|own| own.trace.is_some());
    if known || exchange.asked_for.is_some() {
        return;
    }
    let fields = &exchange.request.fields;
    let parent = match tracing.context.extract {
        true => fields.first(FieldName::new(b"traceparent")).and_then(TraceParent::parse),
        false => None,
    };
    let state = parent.and_then(|_| trace_state(fields.all(FieldName::new(b"tracestate"))));
    let new = |worker: &crate::worker::Worker| {
        (u128::from(worker.random()) << 64) | u128::from(worker.random()) | 1
    };
    let trace = Trace {
        own: TraceParent {
            trace_id: parent.map_or_else(|| new(&exchange.worker), |parent| parent.trace_id),
            span_id: exchange.worker.random() | 1,
            sampled: false,
        },
        parent,
        state: state.unwrap_or_default(),
    };
    // What decides may ask for the parent.
    exchange.own.get_or_insert_default().trace = Some(Box::new(trace));
    let wanted = tracing.when.as_ref().is_some_and(|when| matches!(&*text(exchange, when), b"on" | b"1"));
    let has_context = tracing.context.extract || tracing.context.inject;
    let Some(own) = &mut exchange.own else { return };
    if !wanted && !has_context {
        own.trace = None;
        return;
    }
    let Some(trace) = &mut own.trace else { return };
    trace.own.sampled = wanted;
    if tracing.context.inject {
        let (parent, state) = (trace.own.text(), trace.state.clone());
        exchange.request.fields.set(b"traceparent", parent.as_bytes());
        match state.is_empty() {
            true => drop(exchange.request.fields.remove(FieldName::new(b"tracestate"))),
            false => exchange.request.fields.set(b"tracestate", state.as_bytes()),
        }
    }
}
