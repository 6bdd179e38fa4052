//! Data that a client sends before its handshake is complete (RFC 8446, 2.3), as whoever acts on it has to know it.
//!
//! Owns: whether the handshake that early data came in is still open, and who waits for its end.
//! Never: carries the data; it is read like any other.
//! Driven by: `stream`, which tells how the handshake ended; asked by rules about what can have been sent twice.
//! Why it matters: until the client's last message is there, what it sent may be a copy that somebody else sends again.
//! Sessions are used once (`server`), so a copy that reaches this process is refused; one that reaches another is not.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The handshake of a connection whose client sent early data. Clones are handles on the same one.
#[derive(Clone, Debug, Default)]
pub struct Early {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stage: Cell<Stage>,
    waiting: RefCell<Vec<Waker>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    Complete,
    Failed,
}

impl Early {
    /// Whether the handshake is still open.
    pub fn is_open(&self) -> bool {
        self.inner.stage.get() == Stage::Open
    }

    /// Waits for the end of the handshake, which somebody else drives; false if there will be none.
    pub fn complete(&self) -> impl Future<Output = bool> {
        poll_fn(|cx| match self.inner.stage.get() {
            Stage::Open => {
                let mut waiting = self.inner.waiting.borrow_mut();
                if !waiting.iter().any(|one| one.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
            stage => Poll::Ready(stage == Stage::Complete),
        })
    }

    /// The handshake is over. What it came to first stays.
    pub(crate) fn end(&self, complete: bool) {
        if self.is_open() {
            self.inner.stage.set(if complete { Stage::Complete } else { Stage::Failed });
            self.inner.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}
