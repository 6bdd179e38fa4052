//! The threads that wait for the disk.
//!
//! Owns: a few threads, the queue before them and its bound.
//! Never: knows what is done.
//! Driven by: the store.
//! Why: a read of a file that is not in the kernel's memory takes milliseconds, one of a stuck disk minutes. Workers
//! hand both over, and go on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most threads of one store.
const THREADS: usize = 4;
/// Most reads that wait.
const READS: usize = 1024;
/// Most of all that waits.
const QUEUE: usize = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and what waits for them.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Desk {
    /// Has a read done; false: there are too many already.
    pub(crate) fn read(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> bool {
        self.push(Box::new(job), READS)
    }

    /// Has something written or removed; false: the disk is stuck.
    pub(crate) fn write(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> bool {
        self.push(Box::new(job), QUEUE)
    }

    fn push(self: &Arc<Self>, job: Job, most: usize) -> bool {
        let mut state = self.state();
        if state.queue.len() >= most || state.closed {
            return false;
        }
        if state.idle <= state.queue.len() && state.threads < THREADS {
            let desk = self.clone();
            let builder = std::thread::Builder::new().name("weir-cache-io".into());
            state.threads += usize::from(builder.spawn(move || desk.serve()).is_ok());
        }
        if state.threads == 0 {
            return false;
        }
        state.queue.push_back(job);
        drop(state);
        self.work.notify_one();
        true
    }

    /// Lets the threads end once the queue is empty.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.work.notify_all();
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            // Whoever waits for it is told by the end of what it held.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing inside the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
