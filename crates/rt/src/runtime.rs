//! The runtime of one worker thread.
//!
//! Owns: start-up of the driver with its steps down, the loop, task spawning.
//! Never: shares anything with another thread but wake-ups.
//! Driven by: the thread that calls `Runtime::block_on`.
//! Why a loop, drivers and an executor of our own: the clock is read once per wake-up, the timer wheel sets
//! the wait's timeout without allocation, same-thread wake-ups stay out of the kernel, and the epoll driver can be
//! edge-triggered (see `reactor`).

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::executor::Executor;
use crate::notify::MainWaker;
use crate::reactor::Reactor;
use crate::uring::Ring;
use crate::worker::{Drive, Worker};

/// Which driver to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring if the kernel grants it, else epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// What is called with the message of a task's panic.
pub type PanicHook = Box<dyn Fn(&str)>;

/// Settings of a [`Runtime`].
pub struct RuntimeConfig {
    /// The driver.
    pub io: IoChoice,
    /// Submission entries of the ring (64 to 32,768, rounded up to a power of two); more are submitted in batches.
    pub entries: u32,
    /// Called with the message of each panic of a spawned task.
    pub on_panic: Option<PanicHook>,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self { io: IoChoice::Auto, entries: 1024, on_panic: None }
    }
}

/// Set-up flags of the ring in use (see io_uring_setup(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UringFlags {
    /// IORING_SETUP_SINGLE_ISSUER, Linux 6.0.
    pub single_issuer: bool,
    /// IORING_SETUP_DEFER_TASKRUN, Linux 6.1.
    pub defer_taskrun: bool,
    /// IORING_SETUP_COOP_TASKRUN, Linux 5.19.
    pub coop_taskrun: bool,
    /// IORING_SETUP_TASKRUN_FLAG, Linux 5.19.
    pub taskrun_flag: bool,
}

impl fmt::Display for UringFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.single_issuer, "single_issuer"),
            (self.defer_taskrun, "defer_taskrun"),
            (self.coop_taskrun, "coop_taskrun"),
            (self.taskrun_flag, "taskrun_flag"),
        ];
        let mut names = all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).peekable();
        if names.peek().is_none() {
            return f.write_str("no flags");
        }
        for (i, name) in names.enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

/// The driver in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring with these flags.
    Uring(UringFlags),
    /// Edge-triggered epoll.
    Epoll,
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Driver::Uring(flags) => write!(f, "io_uring ({flags})"),
            Driver::Epoll => f.write_str("epoll"),
        }
    }
}

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
    worker.exec.spawn(Guarded { future: Some(future) });
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
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future is pinned with `self`: it is only polled through a pin and dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        crate::turn::begin();
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
