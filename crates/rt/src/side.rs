//! Threads beside the workers, for what may take long.
//!
//! Owns: a few threads, made as they are needed; the queue before them.
//! Never: knows what is done.
//! Driven by: whoever has something that waits for a disk.
//! Why: a read of a file that is not in the kernel's memory takes milliseconds, one of a stuck disk minutes. Workers
//! hand both over, and go on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads, and what waits for them. Dropped, it lets them end once the queue is empty.
pub struct SideThreads {
    name: &'static str,
    most: usize,
    desk: Arc<Desk>,
}

/// Where those who ask and the threads meet.
#[derive(Default)]
struct Desk {
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

impl SideThreads {
    /// At most so many threads of this name; none yet.
    #[must_use]
    pub fn new(name: &'static str, most: usize) -> Self {
        Self { name, most, desk: Arc::default() }
    }

    /// Has something done, unless `most_waiting` wait already, or no thread can be had. What panics is only ended by that:
    /// whoever waits for it is told by the end of what it held.
    pub fn run(&self, most_waiting: usize, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.desk.state();
        if state.queue.len() >= most_waiting || state.closed {
            return false;
        }
        if state.idle <= state.queue.len() && state.threads < self.most {
            let desk = self.desk.clone();
            let builder = std::thread::Builder::new().name(self.name.into());
            state.threads += usize::from(builder.spawn(move || desk.serve()).is_ok());
        }
        if state.threads == 0 {
            return false;
        }
        state.queue.push_back(Box::new(job));
        drop(state);
        self.desk.work.notify_one();
        true
    }

    /// Takes nothing more, and lets the threads end once the queue is empty.
    pub fn close(&self) {
        self.desk.state().closed = true;
        self.desk.work.notify_all();
    }
}

impl Drop for SideThreads {
    fn drop(&mut self) {
        self.close();
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing inside the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self) {
        while let Some(job) = self.next() {
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn work_is_done_in_order_and_the_queue_is_bounded() {
        let threads = SideThreads::new("weir-test", 1);
        let (tell, told) = std::sync::mpsc::channel();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = std::sync::mpsc::channel();
        assert!(threads.run(1, move || {
            begun.send(()).unwrap();
            let _ = gate.recv();
            panic!("a test panics");
        }));
        begins.recv().unwrap();
        let push = |n: usize| {
            let tell = tell.clone();
            threads.run(8, move || tell.send(n).unwrap())
        };
        assert!((0..8).all(push) && !push(8), "the thread is busy");
        open.send(()).unwrap();
        assert!((0..8).all(|n| told.recv().unwrap() == n));
        threads.close();
        assert!(!threads.run(8, || {}));
    }
}
