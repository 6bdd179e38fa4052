//! One worker's counts for the process as a whole.
//!
//! Owns: connections by what they do, requests, bytes, TLS, panics.
//! Never: holds what belongs to a site or an endpoint.
//! Driven by: the worker's connections.
//! Why: nginx's `stub_status` and the process lines of the other pages need exactly these.

use weir_control::snapshot::Process;

use super::cell::{Counter, Gauge, Rate};
use super::front_back::TlsCells;
use super::walk::{Cells, Show, show_each};

/// Counts of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerCells {
    /// Connections accepted.
    pub accepted: Counter,
    /// Of those, not dropped at once.
    pub handled: Counter,
    /// Connections open.
    pub active: Gauge,
    /// Connections on which a request is being read.
    pub reading: Gauge,
    /// Connections on which an answer is being made or written.
    pub writing: Gauge,
    /// Connections kept and idle.
    pub waiting: Gauge,
    /// Connections a second.
    pub connection_rate: Rate,
    /// Requests begun.
    pub requests: Counter,
    /// Requests a second.
    pub request_rate: Rate,
    /// Bytes received from clients.
    pub client_in: Counter,
    /// Bytes sent to clients.
    pub client_out: Counter,
    /// Bytes received from endpoints.
    pub upstream_in: Counter,
    /// Bytes sent to endpoints.
    pub upstream_out: Counter,
    /// TLS handshakes with clients.
    pub tls: TlsCells,
    /// Panics that cost a connection.
    pub panics: Counter,
}

impl WorkerCells {
    pub(super) fn add_to(&self, process: &mut Process, now_ms: u64) {
        let connections = &mut process.connections;
        connections.accepted += self.accepted.value();
        connections.handled += self.handled.value();
        connections.active += self.active.value();
        connections.peak += self.active.peak();
        connections.reading += self.reading.value();
        connections.writing += self.writing.value();
        connections.waiting += self.waiting.value();
        process.requests += self.requests.value();
        process.bytes.client_in += self.client_in.value();
        process.bytes.client_out += self.client_out.value();
        process.bytes.upstream_in += self.upstream_in.value();
        process.bytes.upstream_out += self.upstream_out.value();
        self.tls.add_to(&mut process.tls);
        process.panics += self.panics.value();
        let rates = &mut process.rates;
        rates.connections += self.connection_rate.read(now_ms);
        rates.connections_max += self.connection_rate.peak();
        rates.sessions = rates.connections;
        rates.sessions_max = rates.connections_max;
        rates.requests += self.request_rate.read(now_ms);
        rates.requests_max += self.request_rate.peak();
    }

    /// Forgets the most that there were. Called by their worker.
    pub(super) fn clear_peaks(&self) {
        self.active.clear_peak();
        self.connection_rate.clear_peak();
        self.request_rate.clear_peak();
    }

    pub(super) fn clear_gauges(&self) {
        for gauge in [&self.active, &self.reading, &self.writing, &self.waiting, &self.tls.current] {
            gauge.clear();
        }
    }
}

impl Cells for WorkerCells {
    fn counters(&self, show: &mut Show<'_>) {
        let Self {
            accepted,
            handled,
            active: _,
            reading: _,
            writing: _,
            waiting: _,
            connection_rate: _,
            requests,
            request_rate: _,
            client_in,
            client_out,
            upstream_in,
            upstream_out,
            tls,
            panics,
        } = self;
        show_each!(show: accepted, handled, requests, client_in, client_out, upstream_in, upstream_out, panics);
        tls.counters(show);
    }
}
