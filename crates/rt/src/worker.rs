//! The state of one worker thread: driver, executor, clock, timers.
//!
//! Owns: what `Runtime` owns, shared with sockets and timers so that they need no thread-local lookup.
//! Never: leaves its thread.
//! Driven by: `Runtime::block_on`.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::PanicHook;
use crate::executor::{Executor, Inside};
use crate::fd::SharedFd;
use crate::notify::Notify;
use crate::reactor::Reactor;
use crate::source::{READABLE, Token};
use crate::timer::Wheel;
use crate::uring::Ring;

/// One per thread, so its size is of no matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Drive {
    Uring(Ring),
    Epoll(Reactor),
}

impl Drive {
    /// What interrupts its wait.
    pub(crate) fn notify(&self) -> Arc<Notify> {
        Notify::new(match self {
            Self::Uring(ring) => ring.wake_fd(),
            Self::Epoll(reactor) => reactor.wake_fd(),
        })
    }
}

pub(crate) struct Worker {
    pub(crate) drive: Drive,
    pub(crate) exec: Executor,
    pub(crate) clock: Clock,
    pub(crate) wheel: RefCell<Wheel>,
    pub(crate) alarm: crate::alarm::Slot,
    pub(crate) notify: Arc<Notify>,
    pub(crate) panics: Cell<u64>,
    pub(crate) on_panic: Option<PanicHook>,
    fired: RefCell<Vec<Waker>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Worker>>> = const { RefCell::new(None) };
}

impl Worker {
    /// Has the driver say when there is something to read or to accept.
    pub(crate) fn listen_to(&self, fd: &SharedFd) -> io::Result<Token> {
        match &self.drive {
            Drive::Uring(ring) => Ok(ring.register(fd, READABLE)),
            Drive::Epoll(reactor) => reactor.register(fd.as_fd(), READABLE),
        }
    }

    pub(crate) fn new(
        drive: Drive,
        exec: Executor,
        notify: Arc<Notify>,
        on_panic: Option<PanicHook>,
    ) -> Self {
        Self {
            drive,
            exec,
            clock: Clock::new(),
            wheel: crate::timer::wheel(),
            alarm: Default::default(),
            notify,
            panics: Cell::new(0),
            on_panic,
            fired: RefCell::new(Vec::new()),
        }
    }

    /// The worker whose `block_on` runs in this thread.
    pub(crate) fn try_current() -> Option<Rc<Worker>> {
        CURRENT.with_borrow(|current| current.clone())
    }

    /// # Panics
    /// Outside `Runtime::block_on`: a mistake in the program, not reachable by a peer.
    pub(crate) fn current() -> Rc<Worker> {
        match Self::try_current() {
            Some(worker) => worker,
            None => panic!("not inside a weir_rt::Runtime"),
        }
    }

    pub(crate) fn enter(self: &Rc<Self>) -> Entered<'_> {
        self.clock.show();
        Entered { outer: CURRENT.replace(Some(self.clone())), _inside: self.exec.enter() }
    }

    pub(crate) fn note_panic(&self, message: &str) {
        self.panics.set(self.panics.get() + 1);
        if let Some(hook) = &self.on_panic {
            hook(message);
        }
    }

    /// Waits for something to happen (not at all when `busy`), then updates clock and timers.
    pub(crate) fn turn(&self, busy: bool) -> io::Result<()> {
        let woken = self.notify.fall_asleep();
        let timeout = if busy || woken { Some(Duration::ZERO) } else { self.until_timer() };
        let result = match &self.drive {
            Drive::Uring(ring) => ring.wait(timeout),
            Drive::Epoll(reactor) => reactor.wait(timeout, self.alarm.due().is_some()),
        };
        self.notify.awake();
        result?;
        self.clock.refresh();
        self.fire_timers();
        Ok(())
    }

    /// Hands the kernel what is queued, for a loop that stops: what was written leaves, what was closed closes.
    pub(crate) fn submit(&self) {
        if let Drive::Uring(ring) = &self.drive {
            // A kernel that refuses takes nothing more from this loop in any case.
            let _ = ring.wait(Some(Duration::ZERO));
        }
    }

    /// Time until the next timer, or the alarm if that comes first.
    fn until_timer(&self) -> Option<Duration> {
        let wheel = self.wheel.borrow_mut().next_nanos();
        let due = match (wheel, self.alarm.due()) {
            (Some(wheel), Some(alarm)) => wheel.min(alarm),
            (wheel, alarm) => wheel.or(alarm)?,
        };
        let now = self.clock.now_nanos();
        Some(Duration::from_nanos(due.saturating_sub(now)))
    }

    fn fire_timers(&self) {
        let mut fired = self.fired.take();
        let nanos = self.clock.now_nanos();
        self.wheel.borrow_mut().advance(nanos, &mut fired);
        self.alarm.fire(nanos, &mut fired);
        for waker in fired.drain(..) {
            waker.wake();
        }
        self.fired.replace(fired);
    }
}

/// Restores the previous worker of the thread on drop.
pub(crate) struct Entered<'w> {
    outer: Option<Rc<Worker>>,
    _inside: Inside<'w>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        match &self.outer {
            Some(worker) => worker.clock.show(),
            None => crate::clock::hide(),
        }
        CURRENT.replace(self.outer.take());
    }
}
