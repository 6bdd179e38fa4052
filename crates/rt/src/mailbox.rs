//! Messages to a worker from any thread.
//!
//! Owns: a queue behind a mutex, and the waker of the one task that waits.
//! Never: blocks the worker for longer than a push or a swap.
//! Driven by: side threads (`Sender`), one task of the worker (`Receiver`).
//! Why: control messages are rare, so a plain mutex beats anything clever; the wake-up goes through the waker of the
//! receiving task, which interrupts the wait of either driver.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

struct State<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    open: bool,
    senders: usize,
}

struct Shared<T>(Mutex<State<T>>);

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing inside the lock can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a mailbox: clone the sender at will, await the receiver in one worker.
pub fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), waker: None, open: true, senders: 1 };
    let shared = Arc::new(Shared(Mutex::new(state)));
    (Sender(shared.clone()), Receiver(shared))
}

/// The sending half: any thread, any number.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving half, awaited by one task.
pub struct Receiver<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Queues `message` and wakes the receiver. Gives the message back when the receiver is gone.
    pub fn send(&self, message: T) -> Result<(), T> {
        let waker = {
            let mut state = self.0.lock();
            if !state.open {
                return Err(message);
            }
            state.queue.push_back(message);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Messages not yet received.
    pub fn backlog(&self) -> usize {
        self.0.lock().queue.len()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.0.lock();
            state.senders -= 1;
            if state.senders == 0 { state.waker.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next message; `None` once every sender is gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if let Some(message) = state.queue.pop_front() {
                return Poll::Ready(Some(message));
            }
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next message if there is one already.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.lock().queue.pop_front()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open = false;
        let rest = std::mem::take(&mut state.queue);
        drop(state);
        // Messages may run code of their own when dropped: not under the lock.
        drop(rest);
    }
}
