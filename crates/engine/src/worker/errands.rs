//! Work on files that may take long, beside the workers.
//!
//! Owns: the threads that do it, and the queue before them with its bound.
//! Never: knows what is done.
//! Driven by: actions that change files, which wait for what comes of it.
//! Why: removing or copying a folder takes as long as the disk does; a worker has other connections meanwhile. What
//! was begun is done, though its client may have left.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Most threads.
const THREADS: usize = 4;
/// Most errands that wait.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// The threads of a process.
#[derive(Default)]
pub(crate) struct Errands(Arc<Desk>);

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

impl Errands {
    /// Has something done, and waits for it. `None`: too much waits already, or it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, done) = oneshot::channel();
        let job = Box::new(move || {
            let _ = tell.send(work());
        });
        if !self.push(job) {
            return None;
        }
        done.await.ok()
    }

    fn push(&self, job: Job) -> bool {
        let mut state = self.0.state();
        if state.queue.len() >= QUEUE {
            return false;
        }
        if state.idle <= state.queue.len() && state.threads < THREADS {
            let desk = self.0.clone();
            let builder = std::thread::Builder::new().name("weir-files".into());
            state.threads += usize::from(builder.spawn(move || desk.serve()).is_ok());
        }
        if state.threads == 0 {
            return false;
        }
        state.queue.push_back(job);
        drop(state);
        self.0.work.notify_one();
        true
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.work.notify_all();
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
            // Whoever waits for it is told by the end of his channel.
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
    use super::*;

    #[test]
    fn errands_are_run_in_order_and_their_queue_is_bounded() {
        let errands = Errands::default();
        // As if there were threads that are all busy.
        errands.0.state().threads = THREADS;
        let (tell, told) = std::sync::mpsc::channel();
        let push = |n: usize| {
            let tell = tell.clone();
            errands.push(Box::new(move || tell.send(n).unwrap()))
        };
        assert!((0..QUEUE).all(push) && !push(QUEUE));
        errands.0.state().closed = true;
        errands.0.serve();
        assert!(told.try_iter().eq(0..QUEUE));
    }
}
