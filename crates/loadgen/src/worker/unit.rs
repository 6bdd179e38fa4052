//! One unit of work: when it is due, when its latency begins, how it is counted.
//!
//! Owns: taking a slot's next unit from the schedule, what is recorded of one that is done or failed.
//! Never: sends anything.
//! Driven by: `slot` and `h2`.
//!
//! A unit of the open model was due at a moment, and its latency begins then, whatever happened before it was sent. In the
//! closed model it begins when it is sent; where opening a connection is part of the work, when that is begun.

use super::state::Worker;
use crate::answer::Collected;
use crate::report::{Cause, Work};

/// Why a unit failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server had closed a kept connection: the unit may be tried on another.
    Stale,
    Write(Cause),
    Read(Cause),
    Malformed,
    /// No connection could be opened; that was counted.
    NoConnection,
}

/// One unit under way.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// The phase that it is due in; in the closed model it counts for that in which it ends.
    pub(super) phase: Option<usize>,
    /// When its latency begins.
    pub(super) from: u64,
    /// When it was sent.
    pub(super) sent: u64,
}

/// When a unit is due, and in which phase.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) phase: usize,
}

/// Waits until the slot's next unit is due; `None` when the run is over. In the closed model that is at once.
pub(super) async fn next(worker: &Worker, local: u32, free: &mut u64) -> Option<Option<Due>> {
    let schedule = &worker.plan.schedule;
    let mut now = worker.now();
    if now == 0 {
        worker.pace().wait(local, 1).await;
        now = worker.now();
        *free = now;
    }
    if !schedule.is_open() {
        return (now < schedule.end() && worker.take_one()).then_some(None);
    }
    let due = upcoming(worker, local)?;
    // From here on it is this unit that is not done, should the end come first.
    advance(worker, local);
    if due.at > now {
        worker.pace().wait(local, due.at).await;
    } else if now >= schedule.end() {
        set_since(worker, local, due.at);
        return None;
    }
    set_since(worker, local, due.at);
    Some(Some(due))
}

/// The next unit of a slot in the open model; `None` when there is none before the end.
pub(super) fn upcoming(worker: &Worker, local: u32) -> Option<Due> {
    let schedule = &worker.plan.schedule;
    let stride = u64::from(worker.plan.options.connections);
    let mut place = worker.standings.borrow().get(local as usize)?.place;
    if place.next >= worker.behind_last {
        return None;
    }
    let mut due = schedule.due(&mut place);
    let current = worker.phase.get();
    if due.is_some_and(|(_, phase)| phase < current) {
        // What a step could not do in its time is no burden on the next one.
        let behind = due.map_or(current, |(_, phase)| phase);
        let skipped = schedule.skip_to(&mut place, current, stride);
        worker.count_in(behind, |tally| tally.left_over(0, skipped, 0));
        due = schedule.due(&mut place);
    }
    let (at, phase) = due?;
    if let Some(standing) = worker.standings.borrow_mut().get_mut(local as usize) {
        standing.place = place;
    }
    Some(Due { at: at.max(1), phase })
}

/// Takes the next unit of a slot for begun.
pub(super) fn advance(worker: &Worker, local: u32) {
    if let Some(standing) = worker.standings.borrow_mut().get_mut(local as usize) {
        standing.place.next += u64::from(worker.plan.options.connections);
    }
}

pub(super) fn set_since(worker: &Worker, local: u32, since: u64) {
    if let Some(standing) = worker.standings.borrow_mut().get_mut(local as usize) {
        standing.since = since;
    }
}

pub(super) fn count_failure(worker: &Worker, failure: Failure) {
    // An echo that is none is no matter of HTTP.
    let echoes = matches!(worker.plan.work, Work::Echo | Work::Messages);
    let nonsense = if echoes { Cause::Other } else { Cause::NotHttp };
    match failure {
        Failure::NoConnection => {}
        Failure::Stale => worker.error(Cause::ClosedEarly, |errors| &mut errors.read),
        Failure::Read(cause) => worker.error(cause, |errors| &mut errors.read),
        Failure::Write(cause) => worker.error(cause, |errors| &mut errors.write),
        Failure::Malformed => worker.error(nonsense, |errors| &mut errors.malformed),
    }
}

impl Unit {
    /// An answer came; `last` of those awaited.
    pub(super) fn answered(&self, worker: &Worker, status: u16, last: bool, kept: Option<&Collected>) {
        self.record(worker, Some(status), last || !worker.plan.options.batch);
        if let (Some(script), Some(kept)) = (&worker.script, kept) {
            script.response(status, kept);
        }
    }

    /// The answer to a gRPC call came.
    pub(super) fn called(&self, worker: &Worker, status: u16, code: Option<u8>) {
        self.record(worker, Some(status), true);
        // An HTTP error says all: the code of a call is that of an answer.
        if status < 400 {
            worker.count_in(self.phase.unwrap_or(worker.phase.get()), |tally| tally.called(code));
        }
    }

    /// It is done, and has no status.
    pub(super) fn done(&self, worker: &Worker) {
        self.record(worker, None, true);
    }

    fn record(&self, worker: &Worker, status: Option<u16>, latency: bool) {
        let now = worker.now();
        worker.sampled(now);
        let (whole, since_sent) = (now.saturating_sub(self.from), now.saturating_sub(self.sent));
        let late = u128::from(since_sent) > worker.plan.options.timeout.as_nanos();
        worker.count_in(self.phase.unwrap_or(worker.phase.get()), |tally| {
            match status {
                Some(status) => tally.answered(status),
                None => tally.requests += 1,
            }
            if late {
                tally.late_answer();
            }
            if latency {
                tally.latency.saturating_record(whole);
                if let Some(uncorrected) = &mut tally.uncorrected {
                    uncorrected.saturating_record(since_sent);
                }
            }
        });
    }
}
