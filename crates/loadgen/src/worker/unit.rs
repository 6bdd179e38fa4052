//! Units of work, one after the other, on one slot.
//!
//! Owns: what a slot does from its first connection to the end of the run, and when a unit's latency begins.
//! Never: lets the end of a connection stop the slot.
//! Driven by: the runtime, as one task a slot.
//!
//! A unit of the open model was due at a moment, and its latency begins then, whatever happened before it was sent. In the
//! closed model it begins when it is sent; where opening a connection is part of the work, when that is begun.

use std::rc::Rc;

use super::Worker;
use super::exchange::{Failure, exchange};
use super::link::Link;
use crate::answer::Collected;
use crate::pace::NEVER;
use crate::report::Work;
use crate::script::ThreadScript;

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

/// The whole life of a slot.
pub(super) async fn run(worker: Rc<Worker>, local: u32, slot: u32) {
    let collect = worker.script.as_ref().is_some_and(ThreadScript::wants_answers);
    let mut link = Link::new(&worker, local, slot, collect);
    // Where connecting is the work there is nothing to prepare, but one connection shows whether anybody is there.
    let tries = worker.keeps_connections() || local == 0;
    let opened = tries && link.open(&worker).await;
    if !worker.keeps_connections() {
        link.drop_conn();
    }
    worker.ready(opened).await;
    let mut free = 1;
    while let Some(due) = next(&worker, local, &mut free).await {
        if let Some(delay) = worker.script.as_ref().and_then(ThreadScript::delay) {
            let until = worker.now() + delay;
            worker.pace().wait(local, until).await;
            free = until;
        }
        let result = work(&worker, &mut link, due, free).await;
        set_since(&worker, local, NEVER);
        match result {
            Ok(()) => link.succeeded(),
            Err(failure) => {
                count_failure(&worker, failure);
                link.failed();
            }
        }
        if worker.is_stopped() {
            return worker.note_stop();
        }
        free = worker.now();
    }
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
        return (now < schedule.end()).then_some(None);
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

/// Does one unit, on a new connection if the old one turns out to be closed.
async fn work(worker: &Worker, link: &mut Link, due: Option<Due>, free: u64) -> Result<(), Failure> {
    // What is late although the slot was free is the generator's own fault.
    if let Some(due) = due {
        let late = worker.now().saturating_sub(due.at.max(free));
        worker.count_in(due.phase, |tally| tally.late(late));
    }
    let mut stale = 0;
    loop {
        let sent = loop {
            link.pause().await;
            let begun = worker.now();
            if link.open(worker).await {
                break if worker.keeps_connections() { worker.now() } else { begun };
            }
        };
        let from = due.map_or(sent, |due| due.at);
        if due.is_none() {
            set_since(worker, link.local, from);
        }
        let unit = Unit { phase: due.map(|due| due.phase), from, sent };
        match one(worker, link, &unit).await {
            Err(Failure::Stale) => {
                worker.count(|tally| tally.connections.closed_by_server += 1);
                link.drop_conn();
                stale += 1;
                // A fresh connection is never stale, so this ends.
                if stale > 2 {
                    return Err(Failure::Read);
                }
            }
            result => return result,
        }
    }
}

async fn one(worker: &Worker, link: &mut Link, unit: &Unit) -> Result<(), Failure> {
    match worker.plan.work {
        Work::Handshakes => {
            unit.done(worker);
            link.farewell().await;
        }
        Work::Echo => {
            let shot = link.next_shot(worker);
            super::echo::echo(worker, link, &link.origin(worker).shots[shot].bytes).await?;
            unit.done(worker);
        }
        Work::Requests | Work::NewConnections => {
            let keep = match &worker.script {
                None => {
                    let shot = link.next_shot(worker);
                    exchange(worker, link, &link.origin(worker).shots[shot], unit).await?
                }
                Some(script) => {
                    // Its failure stops the thread, and is told then.
                    let shot = script.request().ok_or(Failure::Write)?;
                    exchange(worker, link, &shot, unit).await?
                }
            };
            if !worker.keeps_connections() {
                link.farewell().await;
            } else if !keep {
                worker.count(|tally| tally.connections.closed_by_server += 1);
                link.farewell().await;
            }
        }
    }
    Ok(())
}

pub(super) fn count_failure(worker: &Worker, failure: Failure) {
    worker.error(|errors| match failure {
        Failure::Stale | Failure::Read => &mut errors.read,
        Failure::Write => &mut errors.write,
        Failure::Malformed => &mut errors.malformed,
    });
}

impl Unit {
    /// An answer came; `last` of those awaited.
    pub(super) fn answered(&self, worker: &Worker, status: u16, last: bool, kept: Option<&Collected>) {
        self.record(worker, Some(status), last || !worker.plan.options.batch);
        if let (Some(script), Some(kept)) = (&worker.script, kept) {
            script.response(status, kept);
        }
    }

    /// It is done, and has no status.
    fn done(&self, worker: &Worker) {
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
            tally.errors.timeout += u64::from(late);
            if latency {
                tally.latency.saturating_record(whole);
                if let Some(uncorrected) = &mut tally.uncorrected {
                    uncorrected.saturating_record(since_sent);
                }
            }
        });
    }
}
