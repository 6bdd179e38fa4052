//! Rules about stick tables.
//!
//! Owns: which entry a rule tracks, what it does to one that is tracked.
//! Never: counts what nobody asked to be counted; `exchange::sticks` says what counts when.
//! Driven by: programs; the accept loop, which hands on what the rules of a listener track.

use std::cell::RefCell;

use weir_expr::{StickData, StickOp, StickSpan};
use weir_plan::{Piece, Slot, Template};
use weir_policy::Millis;
use weir_policy::limit::Tracked;

use super::sticks::table_of;
use super::{render, text, vars};
use crate::exchange::sticks::{self, Sticks};
use crate::exchange::{Client, Traffic};

/// Carries an instruction out.
pub(super) fn run(traffic: &mut impl Traffic, op: &StickOp<Slot>) {
    let now = traffic.worker.millis();
    match op {
        StickOp::Track { counter, table, key, span, counts_request } => {
            if is_tracking(traffic, *counter, *span) {
                return;
            }
            let Some(tracked) = track(traffic, table, key, now) else { return };
            if *counts_request {
                tracked.add(StickData::HttpReqCnt, now, 1);
                tracked.add(StickData::HttpReqRate, now, 1);
            }
            match span {
                StickSpan::Stream => traffic.sticks.get_or_insert_default().put(*counter, tracked),
                StickSpan::Connection => {
                    let sticks = traffic.client.sticks.get_or_init(Box::default);
                    sticks.borrow_mut().put(*counter, tracked);
                }
            }
        }
        StickOp::Change { counter, data, by, adds } => {
            let by = match by {
                None => 1,
                Some(template) => match number(&text(traffic, template)) {
                    Some(number) => number,
                    None => return,
                },
            };
            sticks::with(traffic, *counter, |tracked| {
                if *adds {
                    tracked.add(*data, now, by);
                    if let StickData::Gpc(n) = data {
                        tracked.add(StickData::GpcRate(*n), now, by);
                    }
                } else {
                    tracked.set(*data, now, by);
                }
            });
        }
        StickOp::CountSession => {
            if let Some(sticks) = traffic.client.sticks.get() {
                sticks.borrow_mut().count_session(now);
            }
        }
        StickOp::CountRequest => sticks::count_request(traffic),
        StickOp::CountError => sticks::refused(traffic),
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let number: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    // Counters have 32 bits; what is below zero wraps there in HAProxy, and is none here.
    u64::try_from(number).ok()
}

fn is_tracking(traffic: &impl Traffic, counter: u8, span: StickSpan) -> bool {
    let tracks = |sticks: &Sticks| sticks.find(counter).is_some();
    match span {
        StickSpan::Stream => traffic.sticks.as_deref().is_some_and(tracks),
        StickSpan::Connection => traffic.client.sticks.get().is_some_and(|one| tracks(&one.borrow())),
    }
}

fn track(traffic: &impl Traffic, table: &str, key: &Template, now: Millis) -> Option<Tracked> {
    let table = table_of(traffic, table)?;
    let value = value(traffic, key)?;
    table.track(&table.key_of(&value)?, now)
}

/// What a key is made from; `None` where it has no value.
pub(crate) fn value(traffic: &impl Traffic, key: &Template) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    match key.pieces.as_slice() {
        // One variable alone may have no value, which is other than an empty one.
        [Piece::Var(var, filters)] => {
            if !vars::append(traffic, var, &mut value) {
                return None;
            }
            super::apply(filters, &mut value, 0);
        }
        _ => render(traffic, key, &mut value),
    }
    Some(value)
}

/// What the rules of a listener track for a connection that they let in.
pub(crate) fn hand_over(from: &Client, to: &Client) {
    to.moved.set(from.moved.get());
    to.meant.set(from.meant.get());
    to.expects_proxy.set(from.expects_proxy.get());
    if let Some(kept) = from.kept.get() {
        let _ = to.kept.set(Box::new(RefCell::new(std::mem::take(&mut *kept.borrow_mut()))));
    }
    if let Some(sticks) = from.sticks.get() {
        let taken = std::mem::take(&mut *sticks.borrow_mut());
        let _ = to.sticks.set(Box::new(RefCell::new(taken)));
    }
}
