//! The span of a request that is over.
//!
//! Owns: its name and attributes, those that nginx's module of OpenTelemetry gives.
//! Driven by: `log`, for requests that were sampled.

use std::time::Duration;

use weir_plan::Var;
use weir_telemetry::otlp::{Span, Value};

use crate::eval::{text, vars};
use crate::exchange::Exchange;
use crate::worker::spans;

/// Tells of a request that was sampled.
#[cold]
pub(super) fn ended(exchange: &Exchange) {
    let Some(trace) = exchange.own.as_ref().and_then(|own| own.trace.as_ref()) else { return };
    let Some(export) = &exchange.installed.plan.process.spans else { return };
    if !trace.own.sampled {
        return;
    }
    let route = exchange.installed.plan.route(exchange.route);
    let tracing = route.settings.tracing.as_deref();
    let name = match tracing.and_then(|tracing| tracing.name.as_ref()) {
        Some(name) => lossy(&text(exchange, name)),
        None => route.name.to_string(),
    };
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let start = nanos(exchange.started_unix);
    let mut attributes = known(exchange, &route.name);
    for (name, value) in tracing.iter().flat_map(|tracing| &tracing.attributes) {
        attributes.push((name.to_string().into(), Value::Text(lossy(&text(exchange, value)))));
    }
    let span = Span {
        trace_id: trace.own.trace_id,
        span_id: trace.own.span_id,
        parent: trace.parent.map(|parent| parent.span_id),
        state: trace.state.clone(),
        name,
        start,
        end: start.saturating_add(nanos(exchange.elapsed())),
        attributes,
        failed: exchange.response.status >= 500,
    };
    spans::give(&exchange.worker.shared, export, span);
}

type Attribute = (std::borrow::Cow<'static, str>, Value);

fn known(exchange: &Exchange, route: &str) -> Vec<Attribute> {
    let mut all: Vec<Attribute> = Vec::with_capacity(16);
    let of = |var: Var| {
        let mut out = Vec::new();
        (vars::append(exchange, &var, &mut out) && !out.is_empty()).then(|| lossy(&out))
    };
    let texts = [
        ("http.method", of(Var::Method)),
        ("http.target", of(Var::Target)),
        ("http.route", Some(route.to_owned())),
        ("http.scheme", of(Var::Scheme)),
        ("http.flavor", of(Var::Protocol).map(|text| text.trim_start_matches("HTTP/").to_owned())),
        ("http.user_agent", of(Var::Header("user-agent".into()))),
        ("net.host.name", of(Var::Host)),
        ("net.sock.peer.addr", of(Var::ClientAddr)),
    ];
    for (name, value) in texts {
        all.extend(value.map(|value| (name.into(), Value::Text(value))));
    }
    let numbers = [
        ("http.request_content_length", exchange.request.content_length),
        ("http.response_content_length", of(Var::BodyBytesSent).and_then(|text| text.parse().ok())),
        ("http.status_code", Some(u64::from(exchange.response.status))),
        ("net.host.port", exchange.destination().map(|(_, port)| port.into())),
        ("net.sock.peer.port", exchange.client_source().map(|(_, port)| port.into())),
    ];
    for (name, value) in numbers {
        let value = value.and_then(|value| i64::try_from(value).ok());
        all.extend(value.map(|value| (name.into(), Value::Number(value))));
    }
    all
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
