//! The process.

use std::sync::Arc;
use std::time::Duration;

use weir_diag::Diagnostic;
use weir_model as model;
use weir_plan as plan;

use crate::context::Cx;
use crate::default;

impl<'m> Cx<'m> {
    pub(crate) fn process(&mut self, process: &'m model::Process) -> plan::Process {
        let error_logs = self.error_logs(&process.error_logs);
        // Logs that are all off are a choice; none at all is not.
        let error_logs = if process.error_logs.is_empty() { default::error_logs(self) } else { error_logs };
        plan::Process {
            connections_per_worker: process.connections_per_worker,
            max_connections: process.max_connections,
            paces: process.paces,
            memory_budget: process.memory_budget,
            kept: process.kept.iter().map(|(name, value)| (name.as_str().into(), value.clone())).collect(),
            log_rings: process.log_rings.iter().map(|ring| self.log_ring(ring)).collect(),
            error_logs,
            spans: process.spans.as_ref().and_then(|spans| self.spans(spans)),
            shows_requests: self
                .model
                .routes
                .iter()
                .any(|route| matches!(route.action, model::Action::Dashboard(_))),
            control: plan::Control {
                sockets: process.control.iter().map(|one| one.control.clone()).collect(),
                timeout: process.control_timeout.unwrap_or(Duration::from_secs(10)),
                connections: process.control_connections.unwrap_or(10),
                peers: process.peers.clone(),
            },
        }
    }

    fn spans(&mut self, spans: &'m model::SpanExport) -> Option<Arc<plan::SpanExport>> {
        if spans.endpoint.is_empty() {
            return None;
        }
        let Some((url, grpc)) = place(&spans.endpoint) else {
            let title = format!("`{}` is no place to tell spans to", spans.endpoint);
            let help =
                "write `host:port` or `http://host:port` for gRPC, `http://host:port/v1/traces` for HTTP";
            self.at(spans.origin, |cx| cx.report(Diagnostic::error("tracing::endpoint", title).help(help)));
            return None;
        };
        let trusted =
            spans.trusted.as_ref().and_then(|pem| self.certificates("the file of authorities", pem));
        let pairs = |all: &[(String, String)]| {
            all.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect()
        };
        Some(Arc::new(plan::SpanExport {
            url: url.into(),
            grpc,
            trusted: trusted.map(|pem| pem.bytes),
            headers: pairs(&spans.headers),
            interval: spans.interval,
            batch_size: spans.batch_size.clamp(1, MOST_SPANS),
            batch_count: spans.batch_count.clamp(1, MOST_BATCHES),
            service: spans.service.as_str().into(),
            resource: pairs(&spans.resource),
        }))
    }
}

/// Most spans in an export, and most exports that wait: what a slip of the hand may take of memory.
const MOST_SPANS: u32 = 16_384;
const MOST_BATCHES: u32 = 1_024;

/// The URL of exports, and whether they go over gRPC.
fn place(endpoint: &str) -> Option<(String, bool)> {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
    if !matches!(scheme, "http" | "https") || host.is_empty() || host == "unix" || !plain(rest) {
        return None;
    }
    Some(match path {
        "" | "/" => {
            let method = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
            (format!("{scheme}://{authority}/{method}"), true)
        }
        path => (format!("{scheme}://{authority}{path}"), false),
    })
}
