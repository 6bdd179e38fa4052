//! Cells of one worker for what clients do to a listener or site, and what an endpoint or pool does.
//!
//! Owns: the counters behind `snapshot::Front` and `snapshot::Back`.
//! Never: shared by two writers. Cells are aligned so that two workers never write one cache line.
//! Driven by: the connection (`open`, `close`), the exchange (`request`, `answer`, `attempt`, `finish`).
//! Why: one call at each event keeps the counting out of the data path's way, and complete.

use weir_control::snapshot::{Back, Classes, Front, Tls};

use super::cell::{Average, Counter, Gauge, Rate};
use super::codes::Codes;
use super::histogram::{Detail, Distribution, Sum};
use super::walk::{Cells, Show, clear_all, show_each, show_list};

/// The class of a status: 1 to 5 by its first digit, else 0.
#[inline]
pub fn status_class(status: u16) -> usize {
    match status {
        100..=599 => (status / 100) as usize,
        _ => 0,
    }
}

/// One worker's counts for a listener or a site.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct FrontCells {
    /// Connections open.
    pub connections: Gauge,
    /// Connections in all.
    pub opened: Counter,
    /// Connections a second.
    pub connection_rate: Rate,
    /// Connections by version of HTTP, 1 to 3.
    pub connections_by_version: [Counter; 3],
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// Bytes passed on to endpoints.
    pub passed_on: Counter,
    /// Bytes received from endpoints.
    pub passed_back: Counter,
    /// Requests by version of HTTP, 1 to 3; index 3: not HTTP.
    pub requests_by_version: [Counter; 4],
    /// Requests a second.
    pub request_rate: Rate,
    /// Answers by class, as [`status_class`] counts.
    pub answers: [Counter; 6],
    /// Requests denied by a rule.
    pub denied_requests: Counter,
    /// Responses denied by a rule.
    pub denied_responses: Counter,
    /// Malformed, timed-out or aborted requests.
    pub request_errors: Counter,
    /// Connections denied by a rule.
    pub denied_connections: Counter,
    /// Sessions denied by a rule.
    pub denied_sessions: Counter,
    /// Requests answered without an endpoint.
    pub intercepted: Counter,
    /// Our own faults.
    pub internal_errors: Counter,
    /// Header edits that failed.
    pub failed_rewrites: Counter,
    /// Compression: bytes in, out, let pass, answers.
    pub compression: [Counter; 4],
    /// Cache: lookups, hits.
    pub cache: [Counter; 2],
    /// TLS handshakes with clients.
    pub tls: TlsCells,
    /// Duration of exchanges.
    pub latency: Distribution,
    /// Of those, to the head of the response.
    pub first_byte: Distribution,
    /// From there to the end.
    pub transfer: Distribution,
    /// Requests or sessions that have begun and not ended. Counted of zones alone.
    pub processing: Gauge,
    /// Of those that ended, without any response. Counted of zones alone.
    pub discarded: Counter,
    /// Responses by code. Counted of zones alone.
    pub codes: Codes,
}

/// TLS handshakes.
#[derive(Debug, Default)]
pub struct TlsCells {
    /// Full ones.
    pub full: Counter,
    /// Resumed ones.
    pub resumed: Counter,
    /// Failed ones.
    pub failed: Counter,
    /// Connections open.
    pub current: Gauge,
}

impl TlsCells {
    pub(super) fn counters(&self, show: &mut Show<'_>) {
        let Self { full, resumed, failed, current: _ } = self;
        for (name, counter) in [("tls_full", full), ("tls_resumed", resumed), ("tls_failed", failed)] {
            show(name, 0, counter);
        }
    }

    pub(super) fn add_to(&self, tls: &mut Tls) {
        tls.full += self.full.value();
        tls.resumed += self.resumed.value();
        tls.failed += self.failed.value();
        tls.current += self.current.value();
    }
}

impl FrontCells {
    /// A connection was accepted in the second `second`.
    pub fn open(&self, second: u64) {
        self.connections.enter();
        self.opened.bump();
        self.connection_rate.tick(second);
    }

    /// It was closed.
    pub fn close(&self) {
        self.connections.leave();
    }

    /// A request began, in HTTP `version` 1 to 3 (else: not HTTP), in the second `second`.
    #[inline]
    pub fn request(&self, version: u8, second: u64) {
        self.requests_by_version[usize::from(version.wrapping_sub(1)).min(3)].bump();
        self.request_rate.tick(second);
    }

    /// It was answered with `status` (zero: not at all), after so many microseconds.
    #[inline]
    pub fn answer(&self, status: u16, micros: u64) {
        self.answers[status_class(status)].bump();
        self.latency.record(micros);
    }

    /// Of an answer, these many microseconds passed before its head and from there to its end.
    #[inline]
    pub fn phases(&self, first_byte: u64, transfer: u64) {
        self.first_byte.record(first_byte);
        self.transfer.record(transfer);
    }

    /// Adds these cells to a sum; `now_ms` is the clock whose seconds were passed.
    pub(super) fn add_to(&self, front: &mut Front, sums: &mut FrontSums, now_ms: u64) {
        front.current += self.connections.value();
        front.peak += self.connections.peak();
        front.total += self.opened.value();
        front.bytes_in += self.bytes_in.value();
        front.bytes_out += self.bytes_out.value();
        front.passed_on += self.passed_on.value();
        front.passed_back += self.passed_back.value();
        for (sum, cell) in front.requests_by_version.iter_mut().zip(&self.requests_by_version) {
            *sum += cell.value();
        }
        front.requests += self.requests_by_version.iter().map(Counter::value).sum::<u64>();
        add_all(&mut front.connections_by_version, &self.connections_by_version);
        front.denied_requests += self.denied_requests.value();
        front.denied_responses += self.denied_responses.value();
        front.request_errors += self.request_errors.value();
        front.denied_connections += self.denied_connections.value();
        front.denied_sessions += self.denied_sessions.value();
        front.intercepted += self.intercepted.value();
        front.internal_errors += self.internal_errors.value();
        front.failed_rewrites += self.failed_rewrites.value();
        add_classes(&mut front.responses, &self.answers);
        add_all(&mut front.compression, &self.compression);
        add_all(&mut front.cache, &self.cache);
        self.tls.add_to(&mut front.tls);
        let rates = &mut front.rates;
        rates.connections += self.connection_rate.read(now_ms);
        rates.connections_max += self.connection_rate.peak();
        rates.sessions = rates.connections;
        rates.sessions_max = rates.connections_max;
        rates.requests += self.request_rate.read(now_ms);
        rates.requests_max += self.request_rate.peak();
        sums.latency.add(&self.latency);
        sums.first_byte.add(&self.first_byte);
        sums.transfer.add(&self.transfer);
    }

    /// Forgets the most that there were; with `all`, everything but what goes on now. Called by their worker.
    pub(super) fn clear(&self, all: bool) {
        self.connections.clear_peak();
        self.connection_rate.clear_peak();
        self.request_rate.clear_peak();
        if !all {
            return;
        }
        clear_all(self);
    }

    pub(super) fn clear_gauges(&self) {
        self.connections.clear();
        self.processing.clear();
        self.tls.current.clear();
    }
}

impl Cells for FrontCells {
    fn counters(&self, show: &mut Show<'_>) {
        let Self {
            connections: _,
            opened,
            connection_rate: _,
            connections_by_version,
            bytes_in,
            bytes_out,
            passed_on,
            passed_back,
            requests_by_version,
            request_rate: _,
            answers,
            denied_requests,
            denied_responses,
            request_errors,
            denied_connections,
            denied_sessions,
            intercepted,
            internal_errors,
            failed_rewrites,
            compression,
            cache,
            tls,
            latency: _,
            first_byte: _,
            transfer: _,
            processing: _,
            discarded,
            codes: _,
        } = self;
        show_each!(show: opened, bytes_in, bytes_out, passed_on, passed_back);
        show_each!(show: denied_requests, denied_responses, request_errors, denied_connections, denied_sessions);
        show_each!(show: intercepted, internal_errors, failed_rewrites, discarded);
        show_list!(show: connections_by_version, requests_by_version, answers, compression, cache);
        tls.counters(show);
    }

    fn distributions(&self) -> Vec<(&'static str, &Distribution)> {
        vec![("latency", &self.latency), ("first_byte", &self.first_byte), ("transfer", &self.transfer)]
    }

    fn codes(&self) -> Option<&Codes> {
        Some(&self.codes)
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// An answer came; its status, or zero for a tunnel or a TCP service.
    Answer(u16),
    /// No connection.
    ConnectError,
    /// A connection, and no usable answer.
    ResponseError,
    /// The client went away.
    ClientAbort,
    /// The endpoint cut its answer short.
    ServerAbort,
}

/// The times of one attempt, in milliseconds, as HAProxy keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// Waiting for a slot.
    pub queue: u64,
    /// Connecting.
    pub connect: u64,
    /// From the request sent to the head of the answer.
    pub response: u64,
    /// The whole.
    pub total: u64,
}

/// The phases of one attempt, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptPhases {
    /// Connecting, if a connection was opened for it and came to be.
    pub connect: Option<u64>,
    /// To the head of the answer, if one came.
    pub head: Option<u64>,
    /// The whole; `None`: its end says nothing of the endpoint, as that of a tunnel.
    pub whole: Option<u64>,
}

/// One worker's counts for an endpoint, or for what concerns a pool as a whole.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct BackCells {
    /// Exchanges in flight.
    pub in_flight: Gauge,
    /// Exchanges in all.
    pub started: Counter,
    /// Exchanges a second.
    pub rate: Rate,
    /// Of those, chosen by balancing.
    pub balanced: Counter,
    /// Waiting for a slot.
    pub queued: Gauge,
    /// Bytes sent to the endpoint.
    pub bytes_in: Counter,
    /// Bytes received from it.
    pub bytes_out: Counter,
    /// Bytes received from clients for it.
    pub taken: Counter,
    /// Bytes sent to clients from it.
    pub given: Counter,
    /// Requests denied by a rule.
    pub denied_requests: Counter,
    /// Responses denied by a rule.
    pub denied_responses: Counter,
    /// Connections that failed.
    pub connect_errors: Counter,
    /// Answers that failed.
    pub response_errors: Counter,
    /// Attempts made again.
    pub retries: Counter,
    /// Attempts moved to another endpoint.
    pub redispatches: Counter,
    /// Transfers that the client aborted.
    pub client_aborts: Counter,
    /// Transfers that the endpoint aborted.
    pub server_aborts: Counter,
    /// Connections opened, or tried to.
    pub connects: Counter,
    /// Kept connections used again.
    pub reuses: Counter,
    /// Idle connections kept.
    pub idle: Gauge,
    /// Our own faults.
    pub internal_errors: Counter,
    /// Header edits that failed.
    pub failed_rewrites: Counter,
    /// Answers by class.
    pub answers: [Counter; 6],
    /// Second of the last exchange, since 1970.
    pub last: Counter,
    /// Compression: bytes in, out, let pass, answers.
    pub compression: [Counter; 4],
    /// Cache: lookups, hits.
    pub cache: [Counter; 2],
    /// TLS handshakes with endpoints.
    pub tls: TlsCells,
    queue_time: Average,
    connect_time: Average,
    response_time: Average,
    total_time: Average,
    /// Time to the head of the answer.
    pub latency: Distribution,
    connect: Distribution,
    transfer: Distribution,
    whole: Distribution,
    /// Responses by code, where somebody asks for them.
    pub codes: Codes,
    /// Times that failures made it unavailable.
    pub made_unavailable: Counter,
    /// Exchanges that found the queue full.
    pub overflows: Counter,
    /// Exchanges that were refused because too many waited for an answer.
    pub pending_refused: Counter,
    /// Retries that the budget had no room for.
    pub retries_withheld: Counter,
}

impl BackCells {
    /// An attempt began, in the second `second` since 1970; `balanced`: no persistence bound it here.
    pub fn attempt(&self, second: u64, balanced: bool) {
        self.in_flight.enter();
        self.started.bump();
        self.rate.tick(second);
        self.balanced.add(u64::from(balanced));
        self.last.set(second);
    }

    /// It ended.
    pub fn finish(&self, end: AttemptEnd, times: AttemptTimes, phases: AttemptPhases) {
        self.in_flight.leave();
        match end {
            AttemptEnd::Answer(status) => self.answers[status_class(status)].bump(),
            AttemptEnd::ConnectError => self.connect_errors.bump(),
            AttemptEnd::ResponseError => self.response_errors.bump(),
            AttemptEnd::ClientAbort => self.client_aborts.bump(),
            AttemptEnd::ServerAbort => self.server_aborts.bump(),
        }
        if end != AttemptEnd::ConnectError {
            self.queue_time.add(times.queue);
            self.connect_time.add(times.connect);
            self.response_time.add(times.response);
            self.total_time.add(times.total);
        }
        if let Some(connect) = phases.connect {
            self.connect.record(connect);
        }
        let Some(head) = phases.head else { return };
        self.latency.record(head);
        if let (AttemptEnd::Answer(_), Some(whole)) = (end, phases.whole) {
            self.transfer.record(whole.saturating_sub(head));
            self.whole.record(whole);
        }
    }

    /// An exchange came this far, and was answered without an endpoint: by a rule (`denied`: it was turned down), or for
    /// want of one (`nobody`). `second` since 1970.
    pub fn answered_here(&self, status: u16, denied: bool, nobody: bool, second: u64) {
        self.in_flight.enter();
        self.in_flight.leave();
        self.started.bump();
        self.rate.tick(second);
        self.answers[status_class(status)].bump();
        self.denied_requests.add(u64::from(denied));
        self.connect_errors.add(u64::from(nobody));
    }

    pub(super) fn add_to(&self, back: &mut Back, sums: &mut BackSums, now_ms: u64) {
        back.current += self.in_flight.value();
        back.peak += self.in_flight.peak();
        back.total += self.started.value();
        back.requests += self.started.value();
        back.balanced += self.balanced.value();
        back.queued += self.queued.value();
        back.queued_peak += self.queued.peak();
        back.bytes_in += self.bytes_in.value();
        back.bytes_out += self.bytes_out.value();
        back.taken += self.taken.value();
        back.given += self.given.value();
        back.denied_requests += self.denied_requests.value();
        back.denied_responses += self.denied_responses.value();
        back.connect_errors += self.connect_errors.value();
        back.response_errors += self.response_errors.value();
        back.retries += self.retries.value();
        back.redispatches += self.redispatches.value();
        back.client_aborts += self.client_aborts.value();
        back.server_aborts += self.server_aborts.value();
        back.connects += self.connects.value();
        back.reuses += self.reuses.value();
        back.internal_errors += self.internal_errors.value();
        back.failed_rewrites += self.failed_rewrites.value();
        add_classes(&mut back.responses, &self.answers);
        back.rates.sessions += self.rate.read(now_ms);
        back.rates.sessions_max += self.rate.peak();
        back.last_unix = back.last_unix.max(self.last.value());
        add_all(&mut back.compression, &self.compression);
        add_all(&mut back.cache, &self.cache);
        self.tls.add_to(&mut back.tls);
        let times = [&self.queue_time, &self.connect_time, &self.response_time, &self.total_time];
        for (at, average) in times.into_iter().enumerate() {
            let (value, weight) = average.read();
            sums.times[at].0 += value * weight as f64;
            sums.times[at].1 += weight;
            back.times.max[at] = back.times.max[at].max(average.peak());
        }
        sums.idle += self.idle.value();
        back.made_unavailable += self.made_unavailable.value();
        back.overflows += self.overflows.value();
        back.pending_refused += self.pending_refused.value();
        back.retries_withheld += self.retries_withheld.value();
        self.codes.add_to(&mut back.codes);
        sums.latency.add(&self.latency);
        sums.connect.add(&self.connect);
        sums.transfer.add(&self.transfer);
        sums.whole.add(&self.whole);
    }

    /// Forgets the most that there were; with `all`, everything but what goes on now. Called by their worker.
    pub(super) fn clear(&self, all: bool) {
        self.in_flight.clear_peak();
        self.queued.clear_peak();
        self.rate.clear_peak();
        for average in [&self.queue_time, &self.connect_time, &self.response_time, &self.total_time] {
            average.clear(all);
        }
        if !all {
            return;
        }
        clear_all(self);
    }

    pub(super) fn clear_gauges(&self) {
        self.in_flight.clear();
        self.queued.clear();
        self.idle.clear();
        self.tls.current.clear();
    }
}

impl Cells for BackCells {
    fn counters(&self, show: &mut Show<'_>) {
        let Self {
            in_flight: _,
            started,
            rate: _,
            balanced,
            queued: _,
            bytes_in,
            bytes_out,
            taken,
            given,
            denied_requests,
            denied_responses,
            connect_errors,
            response_errors,
            retries,
            redispatches,
            client_aborts,
            server_aborts,
            connects,
            reuses,
            idle: _,
            internal_errors,
            failed_rewrites,
            answers,
            last,
            compression,
            cache,
            tls,
            queue_time: _,
            connect_time: _,
            response_time: _,
            total_time: _,
            latency: _,
            connect: _,
            transfer: _,
            whole: _,
            codes: _,
            made_unavailable,
            overflows,
            pending_refused,
            retries_withheld,
        } = self;
        show_each!(show: started, balanced, bytes_in, bytes_out, taken, given, denied_requests, denied_responses);
        show_each!(show: connect_errors, response_errors, retries, redispatches, client_aborts, server_aborts);
        show_each!(show: connects, reuses, internal_errors, failed_rewrites, last, made_unavailable, overflows);
        show_each!(show: pending_refused, retries_withheld);
        show_list!(show: answers, compression, cache);
        tls.counters(show);
    }

    fn distributions(&self) -> Vec<(&'static str, &Distribution)> {
        vec![
            ("latency", &self.latency),
            ("connect", &self.connect),
            ("transfer", &self.transfer),
            ("whole", &self.whole),
        ]
    }

    fn codes(&self) -> Option<&Codes> {
        Some(&self.codes)
    }
}

/// What of a listener or site cannot be added up field by field.
#[derive(Debug, Default)]
pub(super) struct FrontSums {
    latency: Sum,
    first_byte: Sum,
    transfer: Sum,
}

impl FrontSums {
    pub(super) fn settle(&self, front: &mut Front, detail: Detail) {
        front.latency = self.latency.show(detail);
        front.first_byte = self.first_byte.show(detail);
        front.transfer = self.transfer.show(detail);
    }
}

/// What of an endpoint or pool cannot be added up field by field.
#[derive(Debug, Default)]
pub(super) struct BackSums {
    times: [(f64, u64); 4],
    latency: Sum,
    connect: Sum,
    transfer: Sum,
    whole: Sum,
    pub(super) idle: u64,
}

impl BackSums {
    pub(super) fn settle(&self, back: &mut Back, detail: Detail) {
        let mean = |(sum, weight): (f64, u64)| if weight == 0 { 0.0 } else { sum / weight as f64 };
        let [queue, connect, response, total] = self.times.map(mean);
        (back.times.queue, back.times.connect) = (queue, connect);
        (back.times.response, back.times.total) = (response, total);
        back.latency = self.latency.show(detail);
        back.connect = self.connect.show(detail);
        back.transfer = self.transfer.show(detail);
        back.whole = self.whole.show(detail);
    }
}

fn add_all<const N: usize>(sums: &mut [u64; N], cells: &[Counter; N]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += cell.value();
    }
}

fn add_classes(classes: &mut Classes, answers: &[Counter; 6]) {
    let [other, informational, success, redirect, client_error, server_error] =
        [0, 1, 2, 3, 4, 5].map(|class: usize| answers[class].value());
    classes.other += other;
    classes.informational += informational;
    classes.success += success;
    classes.redirect += redirect;
    classes.client_error += client_error;
    classes.server_error += server_error;
}
