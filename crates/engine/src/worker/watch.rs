//! Noticing that a client has gone while others work for it.
//!
//! Owns: when its socket is looked at, and what counts as gone there.
//! Never: reads from it: what stands behind the request stays for the next one, and hides no end.
//! Driven by: actions, around whatever they wait for.
//! Why: work for nobody takes slots and time of endpoints from those who still wait. Why not at once: most answers come
//! within a moment, and for those nothing is asked of the kernel; also a client that ends its half right behind its
//! request (`nc -N`) gets an answer that is quick.

use std::cell::{Cell, OnceCell};
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use weir_expr::settings::ClientAbort;
use weir_rt::{Instant, PeerClosed, Timer};
use weir_wire::Conn;

/// So long a wait lasts before it counts whether anybody still waits for what comes of it.
const MOMENT: Duration = Duration::from_millis(25);

/// What ends the work for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Nothing that can be seen on its socket.
    Never,
    /// Its connection failed, as by RST.
    Reset,
    /// That, or it said that it will send no more.
    Closed,
}

impl Ends {
    /// Before there is an answer's head.
    pub(crate) fn unanswered(setting: ClientAbort) -> Self {
        match setting {
            ClientAbort::Cancel | ClientAbort::Refuse => Self::Closed,
            ClientAbort::Ignore | ClientAbort::Finish => Self::Never,
        }
    }

    /// While an answer is under way.
    pub(crate) fn answering(setting: ClientAbort) -> Self {
        match setting {
            ClientAbort::Cancel | ClientAbort::Refuse => Self::Closed,
            ClientAbort::Finish => Self::Reset,
            ClientAbort::Ignore => Self::Never,
        }
    }
}

/// Whom to watch over.
#[derive(Clone)]
pub(crate) enum Watched {
    /// Nobody, who never leaves.
    Nobody,
    /// The client of a connection that carries one request at a time.
    Connection(Conn),
    /// That of one among several on a connection.
    Stream(Rc<dyn Leaves>),
}

/// One who may leave and be heard leaving.
pub(crate) trait Leaves {
    /// Ready once it has left.
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Watches over a client.
pub(crate) struct Watch {
    watched: Watched,
    ends: Cell<Ends>,
    /// The client's socket is being read: who reads sees its end.
    reading: Cell<bool>,
    /// What its socket failed with before that counted: the kernel tells it once, and speaks of an end afterwards.
    failed: Cell<Option<i32>>,
    timer: OnceCell<Timer>,
}

impl Watch {
    /// Over a client.
    pub(crate) fn new(watched: Watched, ends: Ends) -> Self {
        Self {
            watched,
            ends: Cell::new(ends),
            reading: Cell::new(false),
            failed: Cell::new(None),
            timer: OnceCell::new(),
        }
    }

    /// Says what counts from now on.
    pub(crate) fn change(&self, ends: Ends) {
        self.ends.set(ends);
    }

    /// Says whether the client's socket is being read.
    pub(crate) fn reading(&self, reading: bool) {
        self.reading.set(reading);
    }

    /// Runs a future until it ends, or has taken more than a moment and the client is gone.
    ///
    /// # Errors
    /// The client is gone; the future was dropped.
    pub(crate) fn over<F: Future>(&self, future: F) -> Over<'_, F> {
        Over { watch: self, began: weir_rt::now(), future }
    }

    fn poll_gone(&self, began: Instant, cx: &mut Context<'_>) -> Poll<PeerClosed> {
        if self.ends.get() == Ends::Never || self.reading.get() {
            return Poll::Pending;
        }
        let conn = match &self.watched {
            Watched::Nobody => return Poll::Pending,
            Watched::Connection(conn) => conn,
            // It says so itself: there is nothing to be asked of the kernel.
            Watched::Stream(stream) => {
                let failed = |()| PeerClosed::Failed(ErrorKind::ConnectionReset.into());
                return stream.poll_left(cx).map(failed);
            }
        };
        let due = began + MOMENT;
        let early = weir_rt::now() < due;
        if early && !conn.socket().is_listened_to() {
            return self.look_again(due, cx);
        }
        if !early && let Some(code) = self.failed.take() {
            return Poll::Ready(PeerClosed::Failed(Error::from_raw_os_error(code)));
        }
        match conn.socket().poll_peer_closed(cx) {
            Poll::Ready(PeerClosed::Finished) if self.ends.get() == Ends::Reset => {
                // It may read on for as long as it likes; nothing more is to be seen here.
                self.ends.set(Ends::Never);
                Poll::Pending
            }
            Poll::Ready(seen) if early => {
                if let PeerClosed::Failed(error) = seen {
                    self.failed.set(error.raw_os_error());
                }
                self.look_again(due, cx)
            }
            gone => gone,
        }
    }

    fn look_again(&self, due: Instant, cx: &mut Context<'_>) -> Poll<PeerClosed> {
        let timer = self.timer.get_or_init(Timer::new);
        timer.arm_at(due);
        // Armed anew, it has not fired: this leaves the waker.
        let _ = timer.poll_expired(cx);
        Poll::Pending
    }
}

pin_project! {
    /// The future of [`Watch::over`].
    pub(crate) struct Over<'w, F> {
        watch: &'w Watch,
        began: Instant,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Over<'_, F> {
    type Output = Result<F::Output, PeerClosed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.future.poll(cx) {
            return Poll::Ready(Ok(done));
        }
        this.watch.poll_gone(*this.began, cx).map(Err)
    }
}
