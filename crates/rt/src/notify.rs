//! Interrupting a worker that waits.
//!
//! Owns: whether it waits, and the descriptor that ends the wait.
//! Never: knows what there is to do.
//! Driven by: wakers of any thread; the runtime's loop, before and after each wait.
//! Why: a wake-up from the worker's own thread must not enter the kernel, one from another thread must interrupt the wait.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::Wake;

thread_local! {
    /// Its address names the thread.
    static MARK: u8 = const { 0 };
}

fn thread_mark() -> usize {
    MARK.try_with(|mark| std::ptr::from_ref(mark) as usize).unwrap_or(0)
}

const ASLEEP: u8 = 0;
const NOTIFIED: u8 = 1;
const AWAKE: u8 = 2;

/// Interrupts the worker's wait, when called from another thread.
pub(crate) struct Notify {
    thread: usize,
    state: AtomicU8,
    wake: Arc<OwnedFd>,
}

impl Notify {
    /// `wake` is the descriptor to which a thread that interrupts writes eight bytes.
    pub(crate) fn new(wake: Arc<OwnedFd>) -> Arc<Self> {
        Arc::new(Self { thread: thread_mark(), state: AtomicU8::new(AWAKE), wake })
    }

    /// Before a wait; true when someone called since the last `awake`.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.state.swap(ASLEEP, Ordering::AcqRel) & NOTIFIED != 0
    }

    /// After it.
    pub(crate) fn awake(&self) {
        self.state.store(AWAKE, Ordering::Release);
    }

    pub(crate) fn kick(&self) {
        // The loop looks at its queues again before it waits: its own thread need not interrupt it.
        if thread_mark() == self.thread {
            return;
        }
        if self.state.fetch_or(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        self.kick();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.kick();
    }
}

/// The waker of the future given to `block_on`.
pub(crate) struct MainWaker {
    woken: AtomicBool,
    notify: Arc<Notify>,
}

impl MainWaker {
    pub(crate) fn new(notify: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), notify })
    }

    pub(crate) fn take(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.notify.kick();
    }
}
