//! What one worker counted, of one step, since it last handed its counts over.
//!
//! Owns: counts and histograms, and their sums.
//! Never: takes a lock: workers send whole tallies, and begin new ones.
//! Driven by: `worker` (records), `run` (adds up, makes [`Figures`]).

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::report::{Bytes, Cause, Connections, Errors, Figures, Latency, Status, empty_histogram};

/// Status codes that are counted each for itself; others count as 0.
const CODES: usize = 1000;

/// Codes of gRPC calls: 0 to 16.
const CALL_CODES: usize = 17;
/// What a call without a code, or with one that there is not, counts as ("Status codes and their use in gRPC").
const UNKNOWN: usize = 2;

/// Counts and histograms of one step.
#[derive(Clone)]
pub(crate) struct Tally {
    pub(crate) latency: Histogram<u64>,
    /// From the moment of sending; only in the open model.
    pub(crate) uncorrected: Option<Histogram<u64>>,
    /// Of connections opened while measuring.
    pub(crate) connect: Option<Histogram<u64>>,
    pub(crate) requests: u64,
    pub(crate) bytes: Bytes,
    codes: Box<[u64]>,
    /// Codes of gRPC calls, where they are made.
    calls: Option<Box<[u64; CALL_CODES]>>,
    pub(crate) errors: Errors,
    pub(crate) connections: Connections,
    pub(crate) unfinished: u64,
    pub(crate) unsent: u64,
    pub(crate) oldest_ns: u64,
    /// How late requests were sent that could have been sent on time: how many, sum and most, nanoseconds.
    pub(crate) late_n: u64,
    pub(crate) late_sum: u64,
    pub(crate) late_max: u64,
}

impl Tally {
    pub(crate) fn new(open: bool) -> Self {
        Self {
            latency: empty_histogram(),
            uncorrected: open.then(empty_histogram),
            connect: None,
            requests: 0,
            bytes: Bytes::default(),
            codes: vec![0; CODES].into_boxed_slice(),
            calls: None,
            errors: Errors::default(),
            connections: Connections::default(),
            unfinished: 0,
            unsent: 0,
            oldest_ns: 0,
            late_n: 0,
            late_sum: 0,
            late_max: 0,
        }
    }

    /// Whether anything happened.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests == 0
            && self.bytes == Bytes::default()
            && self.errors == Errors::default()
            && self.connections == Connections::default()
            && self.unfinished + self.unsent + self.late_n == 0
    }

    /// Counts an answer.
    pub(crate) fn answered(&mut self, status: u16) {
        self.requests += 1;
        if let Some(count) = self.codes.get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// Counts the code of a gRPC call.
    pub(crate) fn called(&mut self, code: Option<u8>) {
        let calls = self.calls.get_or_insert_with(|| Box::new([0; CALL_CODES]));
        let at = code.map(usize::from).filter(|code| *code < CALL_CODES).unwrap_or(UNKNOWN);
        calls[at] += 1;
    }

    /// Answers by status code; only those seen.
    pub(crate) fn statuses(&self) -> Status {
        let mut status = Status::default();
        for (code, &count) in (0_u16..).zip(&self.codes) {
            status.add(code, count);
        }
        status
    }

    fn grpc(&self) -> BTreeMap<u8, u64> {
        let all = self.calls.iter().flat_map(|calls| (0_u8..).zip(calls.iter().copied()));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// gRPC calls that failed.
    pub(crate) fn failed_calls(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls[1..].iter().sum())
    }

    /// Counts a unit that took longer than it may.
    pub(crate) fn late_answer(&mut self) {
        self.errors.timeout += 1;
        self.errors.causes.add(Cause::TimedOut);
    }

    /// Counts a connection that took `ns` to open.
    pub(crate) fn connected(&mut self, ns: u64) {
        self.connections.opened += 1;
        self.connect.get_or_insert_with(empty_histogram).saturating_record(ns);
    }

    /// Notes by how much a request was late through no fault of the server.
    pub(crate) fn late(&mut self, ns: u64) {
        self.late_n += 1;
        self.late_sum = self.late_sum.saturating_add(ns);
        self.late_max = self.late_max.max(ns);
    }

    /// Notes work that was due at some moment and is not done; `age` is how long ago.
    pub(crate) fn left_over(&mut self, unfinished: u64, unsent: u64, age: u64) {
        self.unfinished += unfinished;
        self.unsent += unsent;
        self.oldest_ns = self.oldest_ns.max(age);
    }

    /// Adds another's.
    pub(crate) fn add(&mut self, other: &Self) {
        add_histogram(&mut self.latency, &other.latency);
        add_optional(&mut self.uncorrected, other.uncorrected.as_ref());
        add_optional(&mut self.connect, other.connect.as_ref());
        self.requests += other.requests;
        self.bytes.received += other.bytes.received;
        self.bytes.sent += other.bytes.sent;
        for (mine, its) in self.codes.iter_mut().zip(&other.codes) {
            *mine += its;
        }
        if let Some(its) = &other.calls {
            let mine = self.calls.get_or_insert_with(|| Box::new([0; CALL_CODES]));
            for (mine, its) in mine.iter_mut().zip(its.iter()) {
                *mine += its;
            }
        }
        self.errors.merge(&other.errors);
        self.connections.merge(&other.connections);
        self.left_over(other.unfinished, other.unsent, other.oldest_ns);
        self.late_n += other.late_n;
        self.late_sum = self.late_sum.saturating_add(other.late_sum);
        self.late_max = self.late_max.max(other.late_max);
    }

    /// Answers of this class (2 for 2xx).
    pub(crate) fn class(&self, class: usize) -> u64 {
        self.codes.get(class * 100..(class + 1) * 100).unwrap_or_default().iter().sum()
    }

    /// As figures of `elapsed_s` seconds.
    pub(crate) fn figures(&self, elapsed_s: f64, rate_wanted: Option<f64>) -> Figures {
        let mut figures = Figures {
            elapsed_s,
            requests: self.requests,
            rate_wanted,
            bytes: self.bytes,
            status: self.statuses(),
            grpc: self.grpc(),
            errors: self.errors,
            connections: self.connections,
            latency: Latency::of(&self.latency),
            uncorrected: self.uncorrected.as_ref().map(Latency::of),
            connect: self.connect.as_ref().map(Latency::of),
            unfinished: self.unfinished,
            unsent: self.unsent,
            oldest_unfinished_us: self.oldest_ns as f64 / 1e3,
            ..Figures::default()
        };
        figures.rates();
        figures
    }
}

fn add_histogram(mine: &mut Histogram<u64>, its: &Histogram<u64>) {
    // All have the same bounds, so nothing can be out of range.
    let added = mine.add(its);
    debug_assert!(added.is_ok(), "one range for all");
}

fn add_optional(mine: &mut Option<Histogram<u64>>, its: Option<&Histogram<u64>>) {
    match (mine, its) {
        (Some(mine), Some(its)) => add_histogram(mine, its),
        (mine @ None, Some(its)) => *mine = Some(its.clone()),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sums() {
        let (mut one, mut two) = (Tally::new(true), Tally::new(true));
        one.answered(200);
        one.latency.saturating_record(5_000_000);
        two.answered(503);
        two.answered(200);
        two.latency.saturating_record(1_000_000);
        two.latency.saturating_record(2_000_000);
        two.connected(7_000);
        two.late(10);
        one.add(&two);
        assert!(!one.is_empty());
        let figures = one.figures(2.0, Some(2.0));
        assert_eq!((figures.requests, figures.rate, figures.goodput), (3, 1.5, 1.0));
        assert_eq!(figures.status.codes.into_iter().collect::<Vec<_>>(), [(200, 2), (503, 1)]);
        assert_eq!(figures.latency.count, 3);
        assert_eq!(figures.connect.map(|connect| connect.count), Some(1));
        assert_eq!((one.class(2), one.class(5)), (2, 1));
    }
}
