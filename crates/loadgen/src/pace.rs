//! When each of a worker's connections is due to send next.
//!
//! Owns: the queue of moments, and the wakers of those who wait.
//! Never: holds more entries than there are connections; wakes anyone early.
//! Driven by: connection tasks ([`Pace::wait`]), and the worker's main task ([`Pace::next`], [`Pace::fire`]).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_rt::{Alarm, Instant};

/// Nothing to wait for.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Waiter {
    /// When it is due; `NEVER` when it waits for nothing.
    due: u64,
    waker: Option<Waker>,
}

/// The queue of one worker. Times are nanoseconds since load began.
pub(crate) struct Pace {
    begin: Instant,
    alarm: Alarm,
    /// The moment that the alarm is set to.
    set: Cell<u64>,
    queue: RefCell<BinaryHeap<Reverse<(u64, u32)>>>,
    waiters: RefCell<Vec<Waiter>>,
}

impl Pace {
    /// The queue of a worker with so many slots, whose load begins at `begin`.
    pub(crate) fn new(slots: usize, begin: Instant) -> Self {
        let waiter = || Waiter { due: NEVER, waker: None };
        Self {
            begin,
            alarm: Alarm::new(),
            set: Cell::new(NEVER),
            queue: RefCell::new(BinaryHeap::with_capacity(slots)),
            waiters: RefCell::new(std::iter::repeat_with(waiter).take(slots).collect()),
        }
    }

    fn arm(&self, due: u64) {
        self.set.set(due);
        self.alarm.set(self.begin + Duration::from_nanos(due));
    }

    /// Ends the wait of the worker's main task.
    pub(crate) fn wake(&self) {
        self.arm(0);
    }

    /// Waits until `due`. One wait a slot at a time, and not to be dropped before its end.
    pub(crate) async fn wait(&self, slot: u32, due: u64) {
        self.begin(slot, due);
        poll_fn(|cx| self.poll(slot, cx)).await;
    }

    /// Begins to wait until `due`, for who polls: [`Pace::poll`] then tells. One wait a slot at a time.
    pub(crate) fn begin(&self, slot: u32, due: u64) {
        self.queue.borrow_mut().push(Reverse((due, slot)));
        if let Some(waiter) = self.waiters.borrow_mut().get_mut(slot as usize) {
            waiter.due = due;
        }
        if due < self.set.get() {
            self.arm(due);
        }
    }

    /// Whether the wait that was begun is over.
    pub(crate) fn poll(&self, slot: u32, cx: &mut Context<'_>) -> Poll<()> {
        match self.waiters.borrow_mut().get_mut(slot as usize) {
            Some(waiter) if waiter.due != NEVER => {
                // Most polls are of the same task as the last one.
                if !waiter.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    waiter.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Lets all go on that are due at `now`.
    pub(crate) fn fire(&self, now: u64) {
        let mut queue = self.queue.borrow_mut();
        let mut waiters = self.waiters.borrow_mut();
        while let Some(&Reverse((due, slot))) = queue.peek()
            && due <= now
        {
            queue.pop();
            let Some(waiter) = waiters.get_mut(slot as usize) else { continue };
            waiter.due = NEVER;
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }

    /// Waits until somebody is due, or until `limit`. For the worker's main task alone.
    pub(crate) async fn next(&self, limit: u64) {
        let first = self.queue.borrow().peek().map_or(NEVER, |&Reverse((due, _))| due);
        self.arm(first.min(limit));
        self.alarm.wait().await;
    }
}
