//! The runtime of one worker thread.
//!
//! Owns: start-up of the driver with its steps down, the loop, task spawning.
//! Never: shares anything with another thread but wake-ups.
//! Driven by: the thread that calls `Runtime::block_on`.
//! Why a loop, drivers and an executor of our own: the clock is read once per wake-up, the timer wheel sets
//! the wait's timeout without allocation, same-thread wake-ups stay out of the kernel, and the epoll driver can be
//! edge-triggered (see `reactor`).

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::config::{Driver, IoChoice, RuntimeConfig};
use crate::executor::Executor;
use crate::notify::MainWaker;
use crate::reactor::Reactor;
use crate::uring::Ring;
use crate::worker::{Drive, Worker};

/// The runtime of one thread. Make it in the thread that runs it.
pub struct Runtime {
    worker: Rc<Worker>,
    driver: Driver,
    note: String,
}

impl Runtime {
    /// Opens the driver. With [`IoChoice::Auto`] it fails only when even epoll does.
    pub fn new(config: RuntimeConfig) -> io::Result<Self> {
        let (drive, driver, note) = open(&config)?;
        let notify = drive.notify();
        let exec = Executor::new(notify.clone());
        let worker = Rc::new(Worker::new(drive, exec, notify, config.on_panic));
        Ok(Self { worker, driver, note })
    }

    /// The driver in use.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Why the driver is not a better one: what the kernel refused, or empty.
    pub fn driver_note(&self) -> &str {
        &self.note
    }

    /// Runs `future` and everything it spawns until `future` ends. Spawned tasks that are left stay for the next
    /// call, and are dropped with the runtime.
    ///
    /// # Panics
    /// When `future` itself panics, or the kernel refuses to wait.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let worker = &self.worker;
        let _entered = worker.enter();
        worker.clock.refresh();
        let main = MainWaker::new(worker.notify.clone());
        let waker = Waker::from(main.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            crate::turn::begin();
            if main.take()
                && let Poll::Ready(output) = future.as_mut().poll(&mut context)
            {
                worker.submit();
                return output;
            }
            let more = worker.exec.tick();
            if let Err(error) = worker.turn(more || main.is_woken()) {
                panic!("the kernel refuses to wait for I/O: {error}");
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Tasks own sockets, sockets refer to the worker: drop the tasks first, with the worker at hand.
        let _entered = self.worker.enter();
        self.worker.exec.clear();
        self.worker.submit();
    }
}

fn open(config: &RuntimeConfig) -> io::Result<(Drive, Driver, String)> {
    let mut note = String::new();
    if config.io != IoChoice::Epoll {
        match Ring::open(config) {
            Ok((ring, flags, note)) => return Ok((Drive::Uring(ring), Driver::Uring(flags), note)),
            Err(refused) if config.io == IoChoice::Uring => return Err(io::Error::other(refused)),
            Err(refused) => note = refused,
        }
    }
    Ok((Drive::Epoll(Reactor::new()?), Driver::Epoll, note))
}

/// Runs `future` as a task of its own in this thread. A panic in it ends only that task; it is counted
/// ([`task_panics`]) and told to [`RuntimeConfig::on_panic`].
///
/// # Panics
/// Outside a runtime.
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    let worker = Worker::current();
    worker.exec.spawn(Box::pin(Guarded { future: Some(future), shares: false }));
}

/// As [`spawn`], and runs it at once, until it waits: within the share of the task that spawns it, so the task is left to
/// its own turn where that is used up. What it needs is in the processor's caches now, and what it is done with is used
/// for the next one.
///
/// # Panics
/// Outside a runtime.
pub fn start<F: Future<Output = ()> + 'static>(make: impl FnOnce() -> F) {
    let worker = Worker::current();
    let shares = crate::turn::is_left();
    let task = boxed(|| Guarded { future: Some(make()), shares });
    if shares {
        crate::turn::spend();
        worker.exec.start(task);
    } else {
        worker.exec.spawn(task);
    }
}

/// A future in a box, made where it stays. [`Box::pin`] makes it on the stack, and copies all of it, to most of which nothing
/// has been written yet.
#[inline(always)]
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
}

/// Panics of spawned tasks so far in this thread's runtime.
pub fn task_panics() -> u64 {
    Worker::try_current().map_or(0, |worker| worker.panics.get())
}

/// The time of this wake-up, on the monotonic clock.
#[inline]
pub fn now() -> Instant {
    clock::shown().map_or_else(Instant::now, |(now, _)| now)
}

/// The time of this wake-up since 1970-01-01 UTC.
#[inline]
pub fn unix_now() -> Duration {
    clock::shown().map_or_else(clock::wall_now, |(_, unix)| unix)
}

/// Lets other tasks run, and I/O be looked at, before going on.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A task that turns a panic of its future, polled or dropped, into a count.
struct Guarded<F> {
    future: Option<F>,
    /// It runs for the first time within the share of another task.
    shares: bool,
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future is pinned with `self`: it is only polled through a pin and dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        if !std::mem::take(&mut this.shares) {
            crate::turn::begin();
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            let Some(future) = this.future.as_mut() else {
                return Poll::Ready(());
            };
            // SAFETY: as above; `this.future` never moves while it is `Some`.
            let poll = unsafe { Pin::new_unchecked(future) }.poll(cx);
            if poll.is_ready() {
                this.future = None;
            }
            poll
        }));
        match result {
            Ok(poll) => poll,
            Err(payload) => {
                report(&*payload);
                drop_caught(&mut this.future);
                Poll::Ready(())
            }
        }
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        drop_caught(&mut self.future);
    }
}

fn drop_caught<F>(future: &mut Option<F>) {
    if future.is_some()
        && let Err(payload) = catch_unwind(AssertUnwindSafe(|| *future = None))
    {
        report(&*payload);
    }
}

fn report(payload: &(dyn std::any::Any + Send)) {
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without message");
    if let Some(worker) = Worker::try_current() {
        worker.note_panic(message);
    }
}
