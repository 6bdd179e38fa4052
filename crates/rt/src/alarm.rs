//! One precise wake-up per runtime.
//!
//! Owns: the moment asked for, and who waits for it.
//! Never: fires early; costs a wake-up or a system call of its own while it is not set.
//! Driven by: the runtime's loop (`Slot::due`, `Slot::fire`), and the one task that needs to be on time.
//! Why beside the wheel: its ticks of 8 ms are right for timeouts, which are moved at every request and nearly never
//! fire; whoever sends on a schedule wants microseconds, and keeps its own queue of what is due.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::clock::Instant;
use crate::worker::Worker;

#[derive(Default)]
pub(crate) struct Slot(RefCell<State>);

#[derive(Default)]
struct State {
    /// Nanoseconds of the worker's clock.
    due: Option<u64>,
    fired: bool,
    waker: Option<Waker>,
}

impl Slot {
    /// Nanoseconds of the worker's clock at which it wants to be fired.
    pub(crate) fn due(&self) -> Option<u64> {
        self.0.borrow().due
    }

    /// Fires it if it is due at `nanos`; the waker of who waits goes to `woken`.
    pub(crate) fn fire(&self, nanos: u64, woken: &mut Vec<Waker>) {
        let mut state = self.0.borrow_mut();
        if state.due.is_some_and(|due| due <= nanos) {
            state.due = None;
            state.fired = true;
            woken.extend(state.waker.take());
        }
    }
}

/// A wake-up at a given moment, as precise as the kernel's timers: some ten microseconds (see prctl(2),
/// PR_SET_TIMERSLACK). A runtime has one: setting a second `Alarm` replaces the first one's moment.
pub struct Alarm {
    worker: Rc<Worker>,
}

impl Alarm {
    /// The alarm of the calling thread's runtime, not set.
    ///
    /// # Panics
    /// Outside a runtime.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { worker: Worker::current() }
    }

    /// Sets it to fire at `at`, replacing an earlier moment. A moment in the past fires at the next round of the loop.
    pub fn set(&self, at: Instant) {
        let mut state = self.worker.alarm.0.borrow_mut();
        state.due = Some(self.worker.clock.nanos(at));
        state.fired = false;
    }

    /// Ready once it has fired, until it is set again; otherwise the task is woken when it does.
    pub fn poll_fired(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.worker.alarm.0.borrow_mut();
        if state.fired {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            slot => *slot = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until it fires.
    pub async fn wait(&self) {
        std::future::poll_fn(|cx| self.poll_fired(cx)).await;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let state = self.worker.alarm.0.take();
        // Dropped outside the borrow: a waker may be the last owner of anything.
        drop(state);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{IoChoice, Runtime, RuntimeConfig, now};

    #[test]
    fn it_is_never_early_and_far_more_precise_than_the_wheel() {
        for io in [IoChoice::Uring, IoChoice::Epoll] {
            let runtime = Runtime::new(RuntimeConfig { io, ..Default::default() }).expect("a driver");
            runtime.block_on(async {
                let alarm = Alarm::new();
                // The best of many: a busy machine may delay any one of them.
                let mut best = Duration::MAX;
                for _ in 0..20 {
                    let due = now() + Duration::from_micros(300);
                    alarm.set(due);
                    alarm.wait().await;
                    assert!(now() >= due, "early under {io:?}");
                    best = best.min(now() - due);
                }
                assert!(best < Duration::from_millis(1), "{best:?} late at best under {io:?}");
            });
        }
    }
}
