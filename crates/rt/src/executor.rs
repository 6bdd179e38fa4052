//! The tasks of one thread, and the queue of those that are to run.
//!
//! Owns: every spawned future, in a slot; which of them were woken, in their order.
//! Never: runs a task in another thread, or twice for two wake-ups before it ran.
//! Driven by: the runtime's loop (`tick`), spawns, wakers of any thread.
//! Why: a request wakes two tasks or more. A wake-up by the task's own thread is an exchange of a flag and a push; one by
//! another thread takes a lock, which the loop looks for by one flag.
//!
//! ```text
//!   wake ── own thread, inside the runtime ──> LOCAL.queue ──┐
//!     └──── any other ──> Remote.queue, Notify ──────────────┴─> tick: poll ── pending ──> back into its slot
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use crate::notify::Notify;

/// Tasks that run before I/O is looked at again.
const AT_ONCE: usize = 256;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What the wakers of a task hold.
struct Handle {
    slot: u32,
    /// It is in a queue.
    queued: AtomicBool,
    /// The tick in which it last woke itself.
    yielded: AtomicU32,
    remote: Arc<Remote>,
}

/// Where other threads leave what they woke.
struct Remote {
    queue: Mutex<Vec<Arc<Handle>>>,
    any: AtomicBool,
    notify: Arc<Notify>,
}

impl Remote {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Handle>>> {
        // Nothing inside the lock can panic half-way through a change.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue of the runtime that this thread is in.
struct Local {
    /// Whose it is: the address of its `Remote`, which lives as long as the queue stands here.
    owner: *const Remote,
    queue: VecDeque<Arc<Handle>>,
}

thread_local! {
    static LOCAL: RefCell<Local> =
        const { RefCell::new(Local { owner: std::ptr::null(), queue: VecDeque::new() }) };
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = Some(self);
        // At the end of a thread there may be no queue any more.
        let _ = LOCAL.try_with(|local| {
            if let Ok(mut local) = local.try_borrow_mut()
                && let Some(handle) =
                    woken.take_if(|handle| std::ptr::eq(Arc::as_ptr(&handle.remote), local.owner))
            {
                local.queue.push_back(handle);
            }
        });
        let Some(handle) = woken else { return };
        let remote = handle.remote.clone();
        remote.lock().push(handle);
        remote.any.store(true, Ordering::Release);
        remote.notify.kick();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Acquire) {
            self.clone().wake();
        }
    }
}

/// A spawned task's place.
enum Slot {
    Taken {
        /// `None` while it runs.
        task: Option<Task>,
        handle: Arc<Handle>,
    },
    /// The next free one.
    Free(u32),
}

const NONE: u32 = u32::MAX;

struct Slots {
    all: Vec<Slot>,
    free: u32,
}

/// The executor of one thread.
pub(crate) struct Executor {
    slots: RefCell<Slots>,
    remote: Arc<Remote>,
    /// The queue while the thread is not in this runtime.
    resting: RefCell<VecDeque<Arc<Handle>>>,
    /// Rounds so far, from 1.
    ticks: Cell<u32>,
}

impl Executor {
    pub(crate) fn new(notify: Arc<Notify>) -> Self {
        let remote = Remote { queue: Mutex::default(), any: AtomicBool::new(false), notify };
        Self {
            slots: RefCell::new(Slots { all: Vec::new(), free: NONE }),
            remote: Arc::new(remote),
            resting: RefCell::default(),
            ticks: Cell::new(0),
        }
    }

    /// The thread enters this runtime, until what this gives is dropped.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let mine = Local { owner: Arc::as_ptr(&self.remote), queue: self.resting.take() };
        Inside { executor: self, outer: Some(LOCAL.replace(mine)) }
    }

    /// Adds a task, which runs at the next [`Executor::tick`].
    pub(crate) fn spawn(&self, task: Task) {
        self.place(task).wake();
    }

    /// Adds a task, and runs it at once; the task that asks for it goes on when it waits, or has ended.
    pub(crate) fn start(&self, task: Task) {
        let handle = self.place(task);
        self.run(handle, self.ticks.get());
    }

    fn place(&self, task: Task) -> Arc<Handle> {
        let mut slots = self.slots.borrow_mut();
        let at = slots.free;
        let make = |slot| {
            let remote = self.remote.clone();
            Arc::new(Handle { slot, queued: false.into(), yielded: 0.into(), remote })
        };
        if let Some(&Slot::Free(next)) = slots.all.get(at as usize) {
            let handle = make(at);
            slots.all[at as usize] = Slot::Taken { task: Some(task), handle: handle.clone() };
            slots.free = next;
            handle
        } else {
            // Bounded by memory long before 2³² tasks.
            let handle = make(slots.all.len() as u32);
            slots.all.push(Slot::Taken { task: Some(task), handle: handle.clone() });
            handle
        }
    }

    /// Runs the tasks that were woken, and once those that they woke; true if there are more.
    pub(crate) fn tick(&self) -> bool {
        self.take_remote();
        let tick = self.ticks.get().wrapping_add(1).max(1);
        self.ticks.set(tick);
        // Not until there is none, and no task again that woke itself: to let others run means I/O as well.
        for _ in 0..2 {
            let queued = LOCAL.with_borrow(|local| local.queue.len());
            for _ in 0..queued.min(AT_ONCE) {
                let Some(handle) = LOCAL.with_borrow_mut(|local| local.queue.pop_front()) else { break };
                if handle.yielded.load(Ordering::Relaxed) == tick {
                    LOCAL.with_borrow_mut(|local| local.queue.push_back(handle));
                } else {
                    self.run(handle, tick);
                }
            }
        }
        LOCAL.with_borrow(|local| !local.queue.is_empty())
    }

    fn take_remote(&self) {
        if self.remote.any.load(Ordering::Acquire) {
            self.remote.any.store(false, Ordering::Release);
            let woken = std::mem::take(&mut *self.remote.lock());
            // First: what another thread asked for before a peer sent something is done before that is looked at.
            LOCAL.with_borrow_mut(|local| {
                woken.into_iter().rev().for_each(|handle| local.queue.push_front(handle));
            });
        }
    }

    fn run(&self, handle: Arc<Handle>, tick: u32) {
        let at = handle.slot as usize;
        let task = match self.slots.borrow_mut().all.get_mut(at) {
            Some(Slot::Taken { task, handle: own }) if Arc::ptr_eq(own, &handle) => task.take(),
            _ => None,
        };
        // It ended before, and somebody still had its waker.
        let Some(mut task) = task else { return };
        // From here on a wake-up counts: the task sees what led to it, or runs again.
        handle.queued.store(false, Ordering::Release);
        let waker = Waker::from(handle);
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            if let Some(Slot::Taken { task: place, handle }) = self.slots.borrow_mut().all.get_mut(at) {
                *place = Some(task);
                // Nobody else ran meanwhile on this thread: it woke itself.
                if handle.queued.load(Ordering::Relaxed) {
                    handle.yielded.store(tick, Ordering::Relaxed);
                }
            }
            return;
        }
        let ended = {
            let slots = &mut *self.slots.borrow_mut();
            let ended = std::mem::replace(&mut slots.all[at], Slot::Free(slots.free));
            slots.free = at as u32;
            ended
        };
        // Outside of the borrow: what a task owns may wake or spawn others as it goes.
        drop((ended, task));
    }

    /// Drops all tasks, also those that others spawn as they are dropped.
    pub(crate) fn clear(&self) {
        // Those spawned meanwhile come behind the others.
        self.slots.borrow_mut().free = NONE;
        let mut at = 0;
        loop {
            let slot = match self.slots.borrow_mut().all.get_mut(at) {
                Some(slot) => std::mem::replace(slot, Slot::Free(NONE)),
                None => break,
            };
            drop(slot);
            at += 1;
        }
        self.slots.borrow_mut().all.clear();
    }
}

/// The thread is in a runtime while this lives.
pub(crate) struct Inside<'e> {
    executor: &'e Executor,
    outer: Option<Local>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            self.executor.resting.replace(LOCAL.replace(outer).queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;
    use crate::{IoChoice, Runtime, RuntimeConfig, spawn, yield_now};

    fn runtime() -> Runtime {
        Runtime::new(RuntimeConfig { io: IoChoice::Epoll, ..Default::default() }).expect("epoll")
    }

    #[test]
    fn slots_are_used_again_and_a_waker_of_before_wakes_nobody_else() {
        let (kept, runs) = (Rc::new(RefCell::new(None::<Waker>)), Rc::new(Cell::new(0)));
        runtime().block_on(async {
            let keeps = kept.clone();
            spawn(poll_fn(move |cx| {
                keeps.replace(Some(cx.waker().clone()));
                Poll::Ready(())
            }));
            yield_now().await;
            let counts = runs.clone();
            spawn(poll_fn(move |_| {
                counts.set(counts.get() + 1);
                Poll::<()>::Pending
            }));
            yield_now().await;
            kept.take().expect("the first task ran").wake();
            yield_now().await;
            yield_now().await;
        });
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_task_woken_while_it_runs_runs_again_and_once_for_many_wakes() {
        let runs = Rc::new(Cell::new(0));
        runtime().block_on(async {
            let counts = runs.clone();
            spawn(poll_fn(move |cx| {
                counts.set(counts.get() + 1);
                if counts.get() < 3 {
                    cx.waker().wake_by_ref();
                    cx.waker().wake_by_ref();
                }
                Poll::<()>::Pending
            }));
            for _ in 0..10 {
                yield_now().await;
            }
        });
        assert_eq!(runs.get(), 3);
    }

    #[test]
    fn a_started_task_runs_at_once_and_as_many_as_fit_the_share_of_who_starts_them() {
        let runs = Rc::new(Cell::new(0));
        runtime().block_on(async {
            let (counts, at_once) = (runs.clone(), Rc::new(Cell::new(0)));
            let seen = at_once.clone();
            spawn(async move {
                for _ in 0..1000 {
                    let counts = counts.clone();
                    crate::start(|| async move {
                        counts.set(counts.get() + 1);
                        yield_now().await;
                        counts.set(counts.get() + 1);
                    });
                }
                seen.set(counts.get());
            });
            while runs.get() < 2000 {
                yield_now().await;
            }
            assert!((1..100).contains(&at_once.get()), "{}", at_once.get());
        });
        assert_eq!(runs.get(), 2000);
    }

    #[test]
    fn another_thread_wakes_a_task_and_a_runtime_inside_another_keeps_its_own() {
        runtime().block_on(async {
            let (sender, mut receiver) = crate::mailbox();
            let thread = std::thread::spawn(move || sender.send(7).is_ok());
            // Its tasks, and what wakes them, are not those of the runtime around it.
            let inner = runtime().block_on(async {
                let done = Rc::new(Cell::new(false));
                let set = done.clone();
                spawn(async move { set.set(true) });
                while !done.get() {
                    yield_now().await;
                }
                done.get()
            });
            assert!(inner);
            assert_eq!(receiver.recv().await, Some(7));
            assert!(thread.join().expect("it does not panic"));
        });
    }

    #[test]
    fn what_a_dropped_task_spawns_is_dropped_too() {
        struct SpawnsAsItGoes(Rc<Cell<u32>>);
        impl Drop for SpawnsAsItGoes {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                if self.0.get() < 3 {
                    let next = Self(self.0.clone());
                    spawn(async move {
                        let _held = next;
                        std::future::pending::<()>().await;
                    });
                }
            }
        }
        let dropped = Rc::new(Cell::new(0));
        let runtime = runtime();
        let first = SpawnsAsItGoes(dropped.clone());
        runtime.block_on(async {
            spawn(async move {
                let _held = first;
                std::future::pending::<()>().await;
            });
            yield_now().await;
        });
        drop(runtime);
        assert_eq!(dropped.get(), 3);
    }
}
