//! Units of work, one after the other, on one slot.
//!
//! Owns: what a slot does from its first connection to the end of the run.
//! Never: lets the end of a connection stop the slot.
//! Driven by: the runtime, as one task a slot.

use std::rc::Rc;

use super::echo::echo;
use super::exchange::exchange;
use super::link::Link;
use super::messages;
use super::state::Worker;
use super::unit::{Due, Failure, Unit, count_failure, next, set_since};
use crate::pace::NEVER;
use crate::report::{Cause, Work};
use crate::script::ThreadScript;

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
            // Counted, and waited for, when the connection was not opened.
            Err(Failure::NoConnection) => {}
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
    worker.slot_ended();
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
            // Where requests are counted, one that finds nobody is one of them.
            if worker.counts_down() {
                return Err(Failure::NoConnection);
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
                    return Err(Failure::Read(Cause::ClosedEarly));
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
            echo(worker, link, &link.origin(worker).shots[shot].bytes).await?;
            unit.done(worker);
        }
        Work::Messages => {
            let shot = link.next_shot(worker);
            let message = &link.origin(worker).shots[shot].bytes;
            messages::exchange(worker, link, message).await?;
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
                    let shot = script.request().ok_or(Failure::Write(Cause::Other))?;
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
