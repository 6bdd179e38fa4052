//! Spans in the wire form of OpenTelemetry (OTLP, `opentelemetry/proto/collector/trace/v1`).
//!
//! Owns: a span as data, and a request to export some.
//! Never: sends; `engine` does, in a thread beside the workers.
//! Why by hand: six kinds of messages, written and never read, by the writer that metrics have.

use std::borrow::Cow;

use crate::protobuf::Message;

/// One request, as it is told to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace.
    pub trace_id: u128,
    /// Its own number.
    pub span_id: u64,
    /// Who asked, in the trace.
    pub parent: Option<u64>,
    /// `tracestate` as it came.
    pub state: String,
    /// What it is called.
    pub name: String,
    /// Its beginning, in nanoseconds since 1970.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// What is known of it.
    pub attributes: Vec<(Cow<'static, str>, Value)>,
    /// It failed on our side.
    pub failed: bool,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// `SPAN_KIND_SERVER`.
const SERVER: u64 = 2;
/// `STATUS_CODE_ERROR`.
const ERROR: u64 = 2;
/// What of a span's flags says that it is sampled.
const SAMPLED: u32 = 1;

/// An `ExportTraceServiceRequest` with these spans of one service. `resource`: what else is known of who tells it.
pub fn export(service: &str, resource: &[(Box<str>, Box<str>)], version: &str, spans: &[Span]) -> Vec<u8> {
    let mut who = Message::default();
    who.message(1, &attribute("service.name", &Value::Text(service.to_owned())));
    for (name, value) in resource {
        who.message(1, &attribute(name, &Value::Text(value.to_string())));
    }
    let mut scope = Message::default();
    scope.bytes(1, b"weir");
    scope.bytes(2, version.as_bytes());
    let mut of_scope = Message::default();
    of_scope.message(1, &scope);
    for one in spans {
        of_scope.message(2, &span(one));
    }
    let mut of_resource = Message::default();
    of_resource.message(1, &who);
    of_resource.message(2, &of_scope);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.into_bytes()
}

fn span(span: &Span) -> Message {
    let mut message = Message::default();
    message.bytes(1, &span.trace_id.to_be_bytes());
    message.bytes(2, &span.span_id.to_be_bytes());
    if !span.state.is_empty() {
        message.bytes(3, span.state.as_bytes());
    }
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.to_be_bytes());
    }
    message.bytes(5, span.name.as_bytes());
    message.unsigned(6, SERVER);
    message.fixed64(7, span.start);
    message.fixed64(8, span.end);
    for (name, value) in &span.attributes {
        message.message(9, &attribute(name, value));
    }
    if span.failed {
        let mut status = Message::default();
        status.unsigned(3, ERROR);
        message.message(15, &status);
    }
    message.fixed32(16, SAMPLED);
    message
}

fn attribute(name: &str, value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::Text(text) => any.bytes(1, text.as_bytes()),
        Value::Number(number) => any.unsigned(3, number.cast_unsigned()),
    }
    let mut pair = Message::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, &any);
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_the_bytes_that_the_definition_says() {
        let one = Span {
            trace_id: 1,
            span_id: 2,
            parent: None,
            state: String::new(),
            name: "/".into(),
            start: 3,
            end: 4,
            attributes: vec![("a".into(), Value::Number(5))],
            failed: false,
        };
        let mut wanted = vec![0x0a, 16];
        wanted.extend(1u128.to_be_bytes());
        wanted.extend([0x12, 8]);
        wanted.extend(2u64.to_be_bytes());
        wanted.extend([0x2a, 1, b'/', 0x30, 2, 0x39]);
        wanted.extend(3u64.to_le_bytes());
        wanted.push(0x41);
        wanted.extend(4u64.to_le_bytes());
        wanted.extend([0x4a, 7, 0x0a, 1, b'a', 0x12, 2, 0x18, 5]);
        wanted.extend([0x85, 0x01, 1, 0, 0, 0]);
        assert_eq!(span(&one).into_bytes(), wanted);
        let request = export("s", &[("k".into(), "v".into())], "1", &[one]);
        assert_eq!(request[0], 0x0a);
    }
}
