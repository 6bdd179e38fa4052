//! Spans on their way to a collector.
//!
//! Owns: the bound of the queue (`span_queue`), the thread that sends batches of it.
//! Never: makes a span (`answer::spans` does), is there while nothing was sampled, or holds a worker up: what does not fit is dropped.
//! Driven by: requests that end.
//! Why in a thread of its own: a collector may be slow or gone, and a worker must not know.
//!
//! ```text
//!   workers ── give ──> queue (at most batch_size × batch_count) ──> weir-spans: a batch when it is full, or old ──> OTLP
//! ```

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use weir_fetch::http::{HeaderMap, HeaderName, HeaderValue, Request};
use weir_fetch::{Answer, Bytes, Client, Names, Options, Trust, Version};
use weir_plan::SpanExport;
use weir_telemetry::otlp::{self, Span};

use super::shared::Shared;
use super::span_queue::Order;

/// Longest time of one export; a batch that takes longer is lost.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Gives a span away.
#[cold]
pub(crate) fn give(shared: &Arc<Shared>, export: &Arc<SpanExport>, span: Span) {
    let spans = &shared.spans;
    let most = export.batch_size.saturating_mul(export.batch_count).max(1) as usize;
    if spans.queued.fetch_add(1, AcqRel) >= most {
        spans.queued.fetch_sub(1, AcqRel);
        spans.dropped.fetch_add(1, Relaxed);
        return;
    }
    let orders = spans.orders.get_or_init(|| start(shared));
    if orders.send((export.clone(), span)).is_err() {
        spans.queued.fetch_sub(1, AcqRel);
        spans.dropped.fetch_add(1, Relaxed);
    }
}

fn start(shared: &Arc<Shared>) -> Sender<Order> {
    let (orders, received) = channel();
    let weak = Arc::downgrade(shared);
    let begun = std::thread::Builder::new().name("weir-spans".into()).spawn(move || serve(&weak, &received));
    if let Err(error) = begun {
        shared.log_process_error(&format!("no span is exported: cannot start a thread: {error}"));
    }
    orders
}

/// Sends batches until nobody can give spans any more.
fn serve(shared: &Weak<Shared>, received: &Receiver<Order>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    let mut next: Option<Order> = None;
    let mut collector: Option<Collector> = None;
    loop {
        let Some((export, first)) = next.take().or_else(|| received.recv().ok()) else { return };
        let mut batch = vec![first];
        let until = std::time::Instant::now() + export.interval;
        while batch.len() < export.batch_size.max(1) as usize {
            let left = until.saturating_duration_since(std::time::Instant::now());
            match received.recv_timeout(left) {
                Ok((of, span)) if of == export => batch.push(span),
                Ok(other) => {
                    next = Some(other);
                    break;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let count = batch.len();
        if collector.as_ref().is_none_or(|known| known.export != export) {
            collector = Some(Collector::new(export));
        }
        let sent = match &collector {
            Some(collector) => runtime.block_on(collector.tell(&batch)),
            None => Ok(()),
        };
        let Some(shared) = shared.upgrade() else { return };
        shared.spans.queued.fetch_sub(count, AcqRel);
        match sent {
            Ok(()) => drop(shared.spans.exported.fetch_add(count as u64, Relaxed)),
            Err(why) => {
                shared.spans.failed.fetch_add(count as u64, Relaxed);
                shared.log_process_error(&format!("OTel export failure: {why}; {count} spans are lost"));
            }
        }
    }
}

/// Who is told.
struct Collector {
    export: Arc<SpanExport>,
    client: Result<Client, String>,
}

impl Collector {
    fn new(export: Arc<SpanExport>) -> Self {
        let trust = match &export.trusted {
            Some(pem) => Trust::Authorities { pem: pem.to_vec(), identity: None },
            None => Trust::System,
        };
        let version = if export.grpc { Version::Http2 } else { Version::Negotiated };
        let options = Options { trust, names: Names::System, version, timeout: TIMEOUT, largest: 64 * 1024 };
        let client = Client::new(&options).map_err(|error| error.to_string());
        Self { export, client }
    }

    async fn tell(&self, spans: &[Span]) -> Result<(), String> {
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let export = &*self.export;
        let message = otlp::export(&export.service, &export.resource, env!("CARGO_PKG_VERSION"), spans);
        let (kind, body) = match export.grpc {
            true => ("application/grpc", framed(&message)),
            false => ("application/x-protobuf", message),
        };
        let mut request = Request::post(&*export.url).header("content-type", kind);
        if export.grpc {
            request = request.header("te", "trailers");
        }
        let mut request = request.body(Bytes::from(body)).map_err(|error| error.to_string())?;
        for (name, value) in &export.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            request.headers_mut().append(name, value);
        }
        judge(&client.send(request).await.map_err(|error| error.to_string())?, export.grpc)
    }
}

/// A message as gRPC carries it: not compressed, its length, itself.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Whether the spans were taken.
fn judge(answer: &Answer, grpc: bool) -> Result<(), String> {
    let status = answer.head.status;
    if !status.is_success() {
        return Err(format!("the collector answered with status {}", status.as_u16()));
    }
    if !grpc {
        return Ok(());
    }
    // What is refused at once has it in its head.
    let field = |name| {
        let of = |fields: &HeaderMap| {
            fields.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        of(&answer.trailers).or_else(|| of(&answer.head.headers))
    };
    match field("grpc-status").as_deref() {
        Some("0") => Ok(()),
        code => {
            let said = field("grpc-message").unwrap_or_default();
            let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
            Err(format!("the collector answered with gRPC status {} {said}", code.unwrap_or("none")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_length_before_them() {
        assert_eq!(framed(b"abc"), [0, 0, 0, 0, 3, b'a', b'b', b'c']);
    }
}
