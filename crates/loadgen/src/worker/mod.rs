//! One thread of the generator: a runtime, and a task for each of its connections.
//!
//! Owns: the thread's clock against the schedule, its tallies, what its connections share.
//! Never: shares anything with another worker while load runs; allocates for a request.
//! Driven by: `run`, which starts it, says when load begins, and receives what it counted once a second.
//! Why the cached clock: all answers of a wake-up had arrived by then, so its time is right for them; what is sent after
//! them is stamped a little early, which errs to the side of longer latencies, and no clock is read for a request.
//!
//! ```text
//!   setup: each task opens its connection -> Ready -> go(begin) -> units of work until the end -> Done
//! ```

mod echo;
mod exchange;
mod h2;
mod link;
mod unit;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Poll, Waker};

use weir_rt::{Buf, ClientTls, Instant, LARGE, Receiver, Runtime, RuntimeConfig, spawn};

use crate::answer::HeadCache;
use crate::machine::ThreadTime;
use crate::pace::{NEVER, Pace};
use crate::plan::Plan;
use crate::report::{Errors, Work};
use crate::schedule::Place;
use crate::script::ThreadScript;
use crate::tally::Tally;

/// How often workers hand over what they counted, nanoseconds.
pub(crate) const INTERVAL: u64 = 1_000_000_000;
/// How long the samples are that `Req/Sec` is made of, nanoseconds.
pub(crate) const SAMPLE: u64 = 100_000_000;
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
    Done(Box<Summary>),
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
    /// When a script stopped the thread, nanoseconds since load began.
    pub(crate) stopped: Option<u64>,
}

/// A slot's standing.
#[derive(Clone, Copy)]
struct Standing {
    place: Place,
    /// When the unit under way was due; `NEVER` while none is.
    since: u64,
}

/// What the connections of one thread share.
pub(crate) struct Worker {
    plan: Arc<Plan>,
    tls: Option<ClientTls>,
    begin: OnceCell<Instant>,
    pace: OnceCell<Pace>,
    phase: Cell<usize>,
    /// When the phase ends.
    boundary: Cell<u64>,
    tallies: RefCell<Vec<Option<Box<Tally>>>>,
    scratch: RefCell<Buf>,
    heads: RefCell<HeadCache>,
    standings: RefCell<Vec<Standing>>,
    /// For each stream of each HTTP/2 connection: when its unit was due, `NEVER` while it has none.
    flights: RefCell<Vec<u64>>,
    samples: RefCell<Vec<u32>>,
    sample: Cell<u32>,
    sample_end: Cell<u64>,
    total: Cell<u64>,
    negotiated: RefCell<Option<(String, String, Option<String>)>>,
    setup: Setup,
    script: Option<ThreadScript>,
}

/// The time before load begins.
#[derive(Default)]
struct Setup {
    tried: Cell<usize>,
    opened: Cell<usize>,
    failure: RefCell<Option<String>>,
    main: RefCell<Option<Waker>>,
    waiting: RefCell<Vec<Waker>>,
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
    let worker = Rc::new(Worker::new(plan, script, &slots));
    worker.open_all(&slots).await;
    let (opened, failure) = (worker.setup.opened.get(), worker.setup.failure.take());
    if events.send(Event::Ready { opened, failure, driver }).is_err() {
        return;
    }
    // The run was given up before it began.
    let Some(begin) = go.recv().await else { return };
    let before = ThreadTime::now();
    worker.start(begin, slots.len());
    let end = worker.plan.schedule.end();
    let mut tick = INTERVAL;
    loop {
        let pace = worker.pace();
        pace.next(tick.min(end).min(worker.boundary.get())).await;
        let now = worker.now();
        pace.fire(now);
        while now >= tick && tick < end {
            worker.hand_over(thread, events);
            if events.send(Event::Tick { thread, at: tick }).is_err() {
                return;
            }
            tick += INTERVAL;
        }
        if now >= end || worker.is_stopped() {
            break;
        }
    }
    let stopped = worker.is_stopped().then(|| worker.now().min(end));
    if let Some(why) = worker.script.as_ref().and_then(ThreadScript::failure) {
        return drop(events.send(Event::Failed(why)));
    }
    // What was not done because it was not to be done is nothing left over.
    if stopped.is_none() {
        worker.leave_over(end);
    }
    worker.hand_over(thread, events);
    let summary = Summary {
        samples: worker.samples.take(),
        total: worker.total.get(),
        time: ThreadTime::now().since(before),
        tls: worker.negotiated.take(),
        stopped,
    };
    let _ = events.send(Event::Tick { thread, at: end });
    let _ = events.send(Event::Done(Box::new(summary)));
}

impl Worker {
    fn new(plan: Arc<Plan>, script: Option<ThreadScript>, slots: &[u32]) -> Self {
        let standing = |&slot: &u32| Standing { place: Place::first(u64::from(slot)), since: NEVER };
        Self {
            tls: plan.tls(),
            begin: OnceCell::new(),
            pace: OnceCell::new(),
            phase: Cell::new(0),
            boundary: Cell::new(plan.schedule.phases().first().map_or(0, |phase| phase.end)),
            tallies: RefCell::new(plan.schedule.phases().iter().map(|_| None).collect()),
            scratch: RefCell::new(Buf::with_capacity(LARGE)),
            heads: RefCell::default(),
            standings: RefCell::new(slots.iter().map(standing).collect()),
            flights: RefCell::new(vec![NEVER; slots.len() * plan.options.h2.unwrap_or(0) as usize]),
            samples: RefCell::default(),
            sample: Cell::new(0),
            sample_end: Cell::new(NEVER),
            total: Cell::new(0),
            negotiated: RefCell::default(),
            setup: Setup::default(),
            script,
            plan,
        }
    }

    /// Starts a task for each slot, and waits until each has tried to open its connection.
    async fn open_all(self: &Rc<Self>, slots: &[u32]) {
        for (begun, &slot) in slots.iter().enumerate() {
            let (worker, local) = (self.clone(), begun as u32);
            if self.plan.options.h2.is_some() && self.plan.work != Work::Handshakes {
                spawn(h2::run(worker, local, slot));
            } else {
                spawn(unit::run(worker, local, slot));
            }
            self.tried(|tried| begun + 1 - tried < OPENING).await;
        }
        self.tried(|tried| tried == slots.len()).await;
    }

    async fn tried(&self, enough: impl Fn(usize) -> bool) {
        poll_fn(|cx| {
            if enough(self.setup.tried.get()) {
                return Poll::Ready(());
            }
            *self.setup.main.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// A slot has tried to open its connection; it now waits for the beginning.
    async fn ready(&self, opened: bool) {
        self.setup.tried.set(self.setup.tried.get() + 1);
        self.setup.opened.set(self.setup.opened.get() + usize::from(opened));
        if let Some(main) = self.setup.main.borrow_mut().take() {
            main.wake();
        }
        poll_fn(|cx| {
            if self.begin.get().is_some() {
                return Poll::Ready(());
            }
            self.setup.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn start(&self, begin: Instant, slots: usize) {
        let phases = self.plan.schedule.phases();
        let measured = phases.iter().find(|phase| phase.step.is_some()).map_or(0, |phase| phase.start);
        self.sample_end.set(measured + SAMPLE);
        // Both are set once, here.
        let _ = self.pace.set(Pace::new(slots, begin));
        let _ = self.begin.set(begin);
        for waker in self.setup.waiting.take() {
            waker.wake();
        }
    }

    /// The queue of moments. Called after the beginning only.
    fn pace(&self) -> &Pace {
        match self.pace.get() {
            Some(pace) => pace,
            None => unreachable!("slots go on only once load has begun"),
        }
    }

    /// Whether load has begun.
    fn has_begun(&self) -> bool {
        self.begin.get().is_some()
    }

    /// Nanoseconds since load began, at this wake-up; moves on to the phase of that moment.
    fn now(&self) -> u64 {
        let Some(&begin) = self.begin.get() else { return 0 };
        let now = weir_rt::now().saturating_duration_since(begin).as_nanos() as u64;
        if now >= self.boundary.get() {
            let phase = self.plan.schedule.phase_at(now, self.phase.get());
            self.phase.set(phase);
            self.boundary.set(match self.plan.schedule.phases().get(phase) {
                Some(phase) if phase.end > now => phase.end,
                _ => NEVER,
            });
        }
        now
    }

    /// Counts in the tally of `phase`.
    fn count_in(&self, phase: usize, count: impl FnOnce(&mut Tally)) {
        if let Some(slot) = self.tallies.borrow_mut().get_mut(phase) {
            count(slot.get_or_insert_with(|| Box::new(Tally::new(self.plan.schedule.is_open()))));
        }
    }

    /// Counts in the tally of the present phase; before load begins, nowhere.
    fn count(&self, count: impl FnOnce(&mut Tally)) {
        if self.has_begun() {
            self.count_in(self.phase.get(), count);
        }
    }

    fn error(&self, pick: impl FnOnce(&mut Errors) -> &mut u64) {
        self.count(|tally| *pick(&mut tally.errors) += 1);
    }

    /// Notes a connection that failed before load began; the first one's reason is told.
    fn setup_failure(&self, why: impl FnOnce() -> String) {
        if !self.has_begun() {
            self.setup.failure.borrow_mut().get_or_insert_with(why);
        }
    }

    /// One more unit is done, for the samples.
    fn sampled(&self, now: u64) {
        self.total.set(self.total.get() + 1);
        if now >= self.sample_end.get() {
            let mut samples = self.samples.borrow_mut();
            while now >= self.sample_end.get() {
                samples.push(self.sample.take());
                self.sample_end.set(self.sample_end.get() + SAMPLE);
            }
        }
        let measured = now + SAMPLE >= self.sample_end.get();
        self.sample.set(self.sample.get() + u32::from(measured));
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

    /// Counts what is unfinished at the end.
    fn leave_over(&self, end: u64) {
        let Plan { schedule, options, .. } = &*self.plan;
        let timeout = u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let stride = u64::from(options.connections);
        let last = schedule.phases().len() - 1;
        let standings = &mut *self.standings.borrow_mut();
        let flights = self.flights.borrow();
        let under_way = standings.iter().map(|standing| standing.since).chain(flights.iter().copied());
        for since in under_way.filter(|&since| since != NEVER) {
            let age = end.saturating_sub(since);
            self.count_in(last, |tally| {
                tally.left_over(1, 0, age);
                tally.errors.timeout += u64::from(age > timeout);
            });
        }
        for standing in standings {
            let unsent = schedule.left(standing.place, stride);
            if unsent > 0 && schedule.is_open() {
                let due = schedule.due(&mut standing.place).map_or(end, |(due, _)| due);
                self.count_in(last, |tally| tally.left_over(0, unsent, end.saturating_sub(due)));
            }
        }
    }

    /// Whether a script has stopped this thread.
    fn is_stopped(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.control.stopped())
    }

    /// Wakes the main task, so that it sees that a script has stopped the thread.
    fn note_stop(&self) {
        if self.is_stopped() {
            self.pace().wake();
        }
    }

    /// Whether a full handshake is what was asked for.
    fn wants_full(&self) -> bool {
        !self.plan.options.resume
    }

    fn keeps_connections(&self) -> bool {
        matches!(self.plan.work, Work::Requests | Work::Echo)
    }
}
