//! A task's share of a turn of the loop.
//!
//! Owns: how many socket operations a task may do before the others have their turn.
//! Never: counts what does not reach the kernel; decides who is next (the executor's queue does).
//! Driven by: the runtime, which begins a share with each poll of a task; streams, which spend it, and pend once it is
//! used up; loops that write or compute without ever having to wait, through [`fair`].
//! Why: a wait for what is there already is none. A peer that always has more to say would keep a task running, and every
//! other connection of the worker waiting, whatever protocol the bytes are of: so the bound is here, once, and not in
//! each parser's loop.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Operations of a share. At up to 64 KB each, with their encryption, they take about a millisecond at most.
const OPERATIONS: u32 = 32;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(OPERATIONS) };
}

/// A task is about to be polled.
pub(crate) fn begin() {
    LEFT.set(OPERATIONS);
}

/// An operation moved bytes.
pub(crate) fn spend() {
    LEFT.set(LEFT.get().saturating_sub(1));
}

/// Whether there is something left of the share.
pub(crate) fn is_left() -> bool {
    LEFT.get() > 0
}

/// Ready while there is something left of the share. Otherwise the task is woken for its next turn.
pub(crate) fn poll(cx: &mut Context<'_>) -> Poll<()> {
    if is_left() {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Lets other tasks run if this one has used its share of the turn: for loops that may never have to wait, as for
/// requests that have arrived together, or a peer that takes as fast as it is sent to. Costs a comparison otherwise.
pub fn fair() -> impl Future<Output = ()> {
    poll_fn(poll)
}
