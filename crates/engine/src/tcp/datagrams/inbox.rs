//! Datagrams of a client that its session has not looked at yet.
//!
//! Owns: the queue and its bounds. Never: blocks who fills it: what does not fit is dropped.
//! Driven by: the socket's reader (`push`), the session (`next`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Datagrams of one session that wait.
const MOST: usize = 64;

/// Bytes of them.
const MOST_BYTES: usize = 256 << 10;

/// A session's queue.
pub(crate) struct Inbox {
    waiting: RefCell<VecDeque<Box<[u8]>>>,
    bytes: Cell<usize>,
    /// Bytes of all queues of the socket.
    of_all: Rc<Cell<usize>>,
    waker: RefCell<Option<Waker>>,
    /// So many more belong to this session.
    left: Cell<Option<u64>>,
}

impl Inbox {
    /// An empty one, for at most so many datagrams.
    pub(super) fn new(most: Option<u64>, of_all: Rc<Cell<usize>>) -> Self {
        Self {
            waiting: RefCell::default(),
            bytes: Cell::new(0),
            of_all,
            waker: RefCell::default(),
            left: Cell::new(most),
        }
    }

    /// Takes a datagram, or drops it for want of room. True: it was the last one that belongs here.
    pub(super) fn push(&self, datagram: &[u8]) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= MOST || self.bytes.get() + datagram.len() > MOST_BYTES.max(datagram.len()) {
            return false;
        }
        waiting.push_back(datagram.into());
        self.count(datagram.len() as isize);
        let left = self.left.get().map(|left| left.saturating_sub(1));
        self.left.set(left);
        drop(waiting);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        left == Some(0)
    }

    fn count(&self, bytes: isize) {
        self.bytes.set(self.bytes.get().saturating_add_signed(bytes));
        self.of_all.set(self.of_all.get().saturating_add_signed(bytes));
    }

    /// The next datagram, if there is one.
    pub(super) fn pop(&self) -> Option<Box<[u8]>> {
        let next = self.waiting.borrow_mut().pop_front()?;
        self.count(-(next.len() as isize));
        Some(next)
    }

    /// Waits for the next datagram. Dropping the wait loses none.
    pub(super) async fn next(&self) -> Box<[u8]> {
        poll_fn(|cx| match self.pop() {
            Some(datagram) => Poll::Ready(datagram),
            None => {
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.count(-(self.bytes.get() as isize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_what_is_gone_is_not_counted() {
        let all = Rc::new(Cell::new(0));
        let inbox = Inbox::new(None, all.clone());
        for _ in 0..MOST + 5 {
            assert!(!inbox.push(b"1234"));
        }
        assert_eq!(all.get(), 4 * MOST);
        assert_eq!(inbox.pop().as_deref(), Some(&b"1234"[..]));
        assert_eq!(all.get(), 4 * (MOST - 1));
        drop(inbox);
        assert_eq!(all.get(), 0);
        let large = Inbox::new(None, all.clone());
        for _ in 0..10 {
            large.push(&[0; 60_000]);
        }
        assert!(all.get() <= MOST_BYTES);
    }

    #[test]
    fn the_last_one_is_told() {
        let inbox = Inbox::new(Some(2), Rc::default());
        assert!(!inbox.push(b"one"));
        assert!(inbox.push(b""));
        assert_eq!((inbox.pop().as_deref(), inbox.pop().as_deref()), (Some(&b"one"[..]), Some(&b""[..])));
    }
}
