//! One thread of the generator: a runtime, and a task for each of its connections.
//!
//! Owns: the thread's life, the order in which its connections are opened, what it tells `run`.
//! Never: does a unit of work: its slots do, and count in what they share (`state`).
//! Driven by: `run`, which starts it, says when load begins, and receives what it counted once a second.
//!
//! ```text
//!   setup: each task opens its connection -> Ready -> go(begin) -> units of work until the end, or until go(stop) -> Done
//! ```

mod echo;
mod exchange;
mod h2;
mod link;
mod messages;
mod slot;
mod state;
mod unit;

use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use weir_rt::{Instant, Receiver, Runtime, RuntimeConfig, spawn};

pub(crate) use self::state::SAMPLE;
use self::state::Worker;
use crate::machine::ThreadTime;
use crate::plan::Plan;
use crate::report::Work;
use crate::script::ThreadScript;
use crate::tally::Tally;

/// How often workers hand over what they counted, nanoseconds.
pub(crate) const INTERVAL: u64 = 1_000_000_000;
/// Connections that one worker opens at the same time before load begins.
const OPENING: usize = 128;

/// What a worker tells `run`.
pub(crate) enum Event {
    /// Every slot has tried to open its connection.
    Ready { opened: usize, failure: Option<String>, driver: String },
    /// What was counted in one phase since the last time.
    Counted { thread: usize, phase: usize, tally: Box<Tally> },
    /// All of one interval was told.
    Tick { thread: usize, at: u64 },
    /// It is over.
    Done(usize, Box<Summary>),
    /// It could not even begin.
    Failed(String),
}

/// What is known at the end.
#[derive(Default)]
pub(crate) struct Summary {
    /// Units completed in each tenth of a second.
    pub(crate) samples: Vec<u32>,
    /// Units completed, warm-ups included.
    pub(crate) total: u64,
    /// CPU time and run delay.
    pub(crate) time: ThreadTime,
    /// Version, suite and group of the last TLS connection.
    pub(crate) tls: Option<(String, String, Option<String>)>,
    /// When a script, the one who watches or its last unit ended the thread early, nanoseconds since load began.
    pub(crate) stopped: Option<u64>,
}

/// Runs one thread's share of a plan, to its end.
pub(crate) fn run(
    plan: Arc<Plan>,
    thread: usize,
    script: Option<ThreadScript>,
    events: Sender<Event>,
    go: Receiver<Instant>,
) {
    // The default of 50 µs would be the least lateness of every request that is due at a moment.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let runtime = match Runtime::new(RuntimeConfig { io: plan.options.io, ..RuntimeConfig::default() }) {
        Ok(runtime) => runtime,
        Err(error) => return drop(events.send(Event::Failed(format!("cannot open an I/O driver: {error}")))),
    };
    let driver = runtime.driver().to_string();
    let crew = Crew { thread, script, driver };
    runtime.block_on(main(plan, crew, &events, go));
}

/// What a thread is given besides the plan.
struct Crew {
    thread: usize,
    script: Option<ThreadScript>,
    driver: String,
}

async fn main(plan: Arc<Plan>, crew: Crew, events: &Sender<Event>, mut go: Receiver<Instant>) {
    let Crew { thread, script, driver } = crew;
    let threads = plan.options.threads as usize;
    let slots: Vec<u32> = (0..plan.options.connections).filter(|n| *n as usize % threads == thread).collect();
    let worker = Rc::new(Worker::new(plan, script, &slots, (thread as u64, threads as u64)));
    worker.open_all(&slots).await;
    let (opened, failure) = (worker.setup.opened.get(), worker.setup.failure.take());
    if events.send(Event::Ready { opened, failure, driver }).is_err() {
        return;
    }
    // The run was given up before it began.
    let Some(begin) = go.recv().await else { return };
    let before = ThreadTime::now();
    worker.start(begin, slots.len());
    // What comes after the beginning is the moment to stop at, or that nobody waits for the run any more.
    spawn({
        let worker = worker.clone();
        async move {
            let at = go.recv().await.unwrap_or_else(Instant::now);
            worker.halt(at);
        }
    });
    let end = worker.plan.schedule.end();
    let mut tick = INTERVAL;
    loop {
        let pace = worker.pace();
        pace.next(tick.min(end).min(worker.boundary.get())).await;
        let now = worker.now();
        pace.fire(now);
        while now >= tick && tick < end.min(worker.halted.get()) {
            worker.hand_over(thread, events);
            if events.send(Event::Tick { thread, at: tick }).is_err() {
                return;
            }
            tick += INTERVAL;
        }
        if now >= end.min(worker.halted.get()) || worker.is_stopped() || worker.finished.get().is_some() {
            break;
        }
    }
    let halted = Some(worker.halted.get()).filter(|&at| at < end);
    let finished = worker.finished.get().map(|at| at.min(end));
    let stopped = halted.or(finished).or_else(|| worker.is_stopped().then(|| worker.now().min(end)));
    if let Some(why) = worker.script.as_ref().and_then(ThreadScript::failure) {
        return drop(events.send(Event::Failed(why)));
    }
    // What was not done because a script did not want it is nothing left over.
    if stopped.is_none() || halted.is_some() {
        worker.leave_over(halted.unwrap_or(end));
    }
    worker.hand_over(thread, events);
    let summary = Summary {
        samples: worker.samples.take(),
        total: worker.total.get(),
        time: ThreadTime::now().since(before),
        tls: worker.negotiated.take(),
        stopped,
    };
    let _ = events.send(Event::Tick { thread, at: halted.or(finished).unwrap_or(end) });
    let _ = events.send(Event::Done(thread, Box::new(summary)));
}

impl Worker {
    /// Starts a task for each slot, and waits until each has tried to open its connection.
    async fn open_all(self: &Rc<Self>, slots: &[u32]) {
        for (begun, &slot) in slots.iter().enumerate() {
            let (worker, local) = (self.clone(), begun as u32);
            if self.plan.options.h2.is_some() && self.plan.work != Work::Handshakes {
                spawn(h2::run(worker, local, slot));
            } else {
                spawn(slot::run(worker, local, slot));
            }
            self.tried(|tried| begun + 1 - tried < OPENING).await;
        }
        self.tried(|tried| tried == slots.len()).await;
    }

    /// Gives everything counted so far to `run`.
    fn hand_over(&self, thread: usize, events: &Sender<Event>) {
        for (phase, slot) in self.tallies.borrow_mut().iter_mut().enumerate() {
            if let Some(tally) = slot.take_if(|tally| !tally.is_empty()) {
                // Nobody listens any more only when the run was given up.
                let _ = events.send(Event::Counted { thread, phase, tally });
            }
        }
    }
}
