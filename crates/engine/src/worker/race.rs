//! Two futures, the first that ends; and a flag that many tasks of one thread wait for.
//!
//! Why: the two things that a connection waits on beside its peer; a select macro would be a dependency for twenty lines.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

/// Which of two futures ended first.
pub(crate) enum Either<A, B> {
    /// The first, also if both were ready.
    Left(A),
    /// The second.
    Right(B),
}

pin_project! {
    /// The future of [`race`].
    // A type of its own: an `async fn` would hold each future twice, in every idle connection.
    pub(crate) struct Race<A, B> {
        #[pin]
        a: A,
        #[pin]
        b: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.a.poll(cx) {
            return Poll::Ready(Either::Left(done));
        }
        this.b.poll(cx).map(Either::Right)
    }
}

/// Runs two futures until one ends; the other is dropped with what this returns.
pub(crate) fn race<A: Future, B: Future>(a: A, b: B) -> Race<A, B> {
    Race { a, b }
}

/// A flag of one thread. Waiting costs a slot, not an allocation.
#[derive(Default)]
pub(crate) struct Signal {
    set: Cell<bool>,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Signal {
    /// Whether it is set.
    pub(crate) fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Sets it, and wakes all who wait.
    pub(crate) fn set(&self) {
        self.set.set(true);
        self.wake_all();
    }

    /// Takes it back.
    pub(crate) fn clear(&self) {
        self.set.set(false);
    }

    /// Wakes all who wait, so that they look again, without setting it.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.wakers.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ready when it is set.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> {
        let mut place = self.place();
        poll_fn(move |cx| place.poll_set(cx))
    }

    /// A place among those who wait, for a task that waits again and again: it is taken once.
    pub(crate) fn place(&self) -> Place<'_> {
        Place { signal: self, at: None }
    }

    /// Ready at the next [`Signal::wake_all`] or [`Signal::set`].
    pub(crate) fn next(&self) -> impl Future<Output = ()> {
        let mut place = Place { signal: self, at: None };
        poll_fn(move |cx| {
            let woken = place.at.is_some_and(|at| self.waiting.borrow().wakers[at].is_none());
            if self.set.get() || woken {
                return Poll::Ready(());
            }
            place.put(cx.waker());
            Poll::Pending
        })
    }
}

/// A place among those who wait for a [`Signal`]. To be polled by one task only.
pub(crate) struct Place<'a> {
    signal: &'a Signal,
    at: Option<usize>,
}

impl Place<'_> {
    /// Ready when the signal is set.
    pub(crate) fn wait(&mut self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.poll_set(cx))
    }

    fn poll_set(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.signal.set.get() {
            return Poll::Ready(());
        }
        // The task's waker is the same every time; it is gone only once it was used.
        if self.at.is_none_or(|at| self.signal.waiting.borrow().wakers[at].is_none()) {
            self.put(cx.waker());
        }
        Poll::Pending
    }

    fn put(&mut self, waker: &Waker) {
        let waiting = &mut *self.signal.waiting.borrow_mut();
        let at = *self.at.get_or_insert_with(|| {
            waiting.free.pop().unwrap_or_else(|| {
                waiting.wakers.push(None);
                waiting.wakers.len() - 1
            })
        });
        match &mut waiting.wakers[at] {
            Some(known) if known.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            let waiting = &mut *self.signal.waiting.borrow_mut();
            waiting.wakers[at] = None;
            waiting.free.push(at);
        }
    }
}
