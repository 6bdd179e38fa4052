//! What the connections of one thread share.
//!
//! Owns: the thread's clock against the schedule, its tallies, which slot's unit is under way since when.
//! Never: shares anything with another worker while load runs; allocates for a request.
//! Driven by: `slot` and `h2`, which take units from it and count in it; `worker`, which begins and ends it.
//! Why the cached clock: all answers of a wake-up had arrived by then, so its time is right for them; what is sent after
//! them is stamped a little early, which errs to the side of longer latencies, and no clock is read for a request.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use weir_rt::{Buf, ClientTls, Instant, LARGE};

use crate::answer::HeadCache;
use crate::pace::{NEVER, Pace};
use crate::plan::Plan;
use crate::report::{Cause, Errors, Work};
use crate::schedule::Place;
use crate::script::ThreadScript;
use crate::tally::Tally;

/// How long the samples are that `Req/Sec` is made of, nanoseconds.
pub(crate) const SAMPLE: u64 = 100_000_000;

/// A slot's standing.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    pub(super) place: Place,
    /// When the unit under way was due; `NEVER` while none is.
    pub(super) since: u64,
}

/// What the connections of one thread share.
pub(super) struct Worker {
    pub(super) plan: Arc<Plan>,
    pub(super) tls: Option<ClientTls>,
    begin: OnceCell<Instant>,
    pub(super) pace: OnceCell<Pace>,
    /// When the one who watches has stopped the run; `NEVER` while nobody has.
    pub(super) halted: Cell<u64>,
    pub(super) phase: Cell<usize>,
    /// When the phase ends.
    pub(super) boundary: Cell<u64>,
    pub(super) tallies: RefCell<Vec<Option<Box<Tally>>>>,
    pub(super) scratch: RefCell<Buf>,
    pub(super) heads: RefCell<HeadCache>,
    pub(super) standings: RefCell<Vec<Standing>>,
    /// For each stream of each HTTP/2 connection: when its unit was due, `NEVER` while it has none.
    pub(super) flights: RefCell<Vec<u64>>,
    pub(super) samples: RefCell<Vec<u32>>,
    sample: Cell<u32>,
    sample_end: Cell<u64>,
    pub(super) total: Cell<u64>,
    /// Whether the run ends after a number of units.
    counting: bool,
    /// Without a rate: how many more units this thread begins.
    left: Cell<u64>,
    /// At a rate: the number of the first unit of the run that is not begun.
    pub(super) behind_last: u64,
    /// Slots that have come to their end, and when the last one had, where units are counted.
    ended: Cell<usize>,
    pub(super) finished: Cell<Option<u64>>,
    pub(super) negotiated: RefCell<Option<(String, String, Option<String>)>>,
    pub(super) setup: Setup,
    pub(super) script: Option<ThreadScript>,
}

/// The time before load begins.
#[derive(Default)]
pub(super) struct Setup {
    tried: Cell<usize>,
    pub(super) opened: Cell<usize>,
    pub(super) failure: RefCell<Option<String>>,
    main: RefCell<Option<Waker>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Worker {
    pub(super) fn new(
        plan: Arc<Plan>,
        script: Option<ThreadScript>,
        slots: &[u32],
        (thread, threads): (u64, u64),
    ) -> Self {
        let share = |all: u64| all / threads + u64::from(thread < all % threads);
        let standing = |&slot: &u32| Standing { place: Place::first(u64::from(slot)), since: NEVER };
        Self {
            tls: plan.tls(),
            begin: OnceCell::new(),
            pace: OnceCell::new(),
            halted: Cell::new(NEVER),
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
            counting: plan.options.requests.is_some(),
            left: Cell::new(plan.options.requests.map_or(0, share)),
            behind_last: plan.options.requests.unwrap_or(u64::MAX),
            ended: Cell::new(0),
            finished: Cell::new(None),
            negotiated: RefCell::default(),
            setup: Setup::default(),
            script,
            plan,
        }
    }

    pub(super) async fn tried(&self, enough: impl Fn(usize) -> bool) {
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
    pub(super) async fn ready(&self, opened: bool) {
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

    pub(super) fn start(&self, begin: Instant, slots: usize) {
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
    pub(super) fn pace(&self) -> &Pace {
        match self.pace.get() {
            Some(pace) => pace,
            None => unreachable!("slots go on only once load has begun"),
        }
    }

    /// The run is to stop at this moment.
    pub(super) fn halt(&self, at: Instant) {
        let begin = self.begin.get().copied().unwrap_or(at);
        self.halted.set(at.saturating_duration_since(begin).as_nanos() as u64);
        self.pace().wake();
    }

    /// Whether load has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begin.get().is_some()
    }

    /// Nanoseconds since load began, at this wake-up; moves on to the phase of that moment.
    pub(super) fn now(&self) -> u64 {
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
    pub(super) fn count_in(&self, phase: usize, count: impl FnOnce(&mut Tally)) {
        if let Some(slot) = self.tallies.borrow_mut().get_mut(phase) {
            count(slot.get_or_insert_with(|| Box::new(Tally::new(self.plan.schedule.is_open()))));
        }
    }

    /// Counts in the tally of the present phase; before load begins, nowhere.
    pub(super) fn count(&self, count: impl FnOnce(&mut Tally)) {
        if self.has_begun() {
            self.count_in(self.phase.get(), count);
        }
    }

    pub(super) fn error(&self, cause: Cause, pick: impl FnOnce(&mut Errors) -> &mut u64) {
        self.count(|tally| {
            *pick(&mut tally.errors) += 1;
            tally.errors.causes.add(cause);
        });
    }

    /// Notes a connection that failed before load began; the first one's reason is told.
    pub(super) fn setup_failure(&self, why: impl FnOnce() -> String) {
        if !self.has_begun() {
            self.setup.failure.borrow_mut().get_or_insert_with(why);
        }
    }

    /// One more unit is done, for the samples.
    pub(super) fn sampled(&self, now: u64) {
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

    /// Counts what is unfinished at the end.
    pub(super) fn leave_over(&self, end: u64) {
        let Plan { schedule, options, .. } = &*self.plan;
        let timeout = u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let stride = u64::from(options.connections);
        let last = schedule.phase_at(end.saturating_sub(1), 0);
        let standings = &mut *self.standings.borrow_mut();
        let flights = self.flights.borrow();
        let under_way = standings.iter().map(|standing| standing.since).chain(flights.iter().copied());
        for since in under_way.filter(|&since| since != NEVER) {
            let age = end.saturating_sub(since);
            self.count_in(last, |tally| {
                tally.left_over(1, 0, age);
                if age > timeout {
                    tally.late_answer();
                }
            });
        }
        for standing in standings {
            let unsent = schedule.left(standing.place, stride, end);
            if unsent > 0 && schedule.is_open() {
                let due = schedule.due(&mut standing.place).map_or(end, |(due, _)| due);
                self.count_in(last, |tally| tally.left_over(0, unsent, end.saturating_sub(due)));
            }
        }
    }

    /// Whether the run ends after a number of units.
    pub(super) fn counts_down(&self) -> bool {
        self.counting
    }

    /// Takes one of the units that are left to this thread, in the closed model; whether there was one.
    #[inline]
    pub(super) fn take_one(&self) -> bool {
        if !self.counting {
            return true;
        }
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// Whether a slot has begun all the units that it will.
    pub(super) fn is_spent(&self, local: u32) -> bool {
        if !self.plan.schedule.is_open() {
            return self.left.get() == 0;
        }
        self.standings.borrow().get(local as usize).is_none_or(|s| s.place.next >= self.behind_last)
    }

    /// A slot has nothing more to do. Where units are counted, the thread is over with its last slot.
    pub(super) fn slot_ended(&self) {
        self.ended.set(self.ended.get() + 1);
        if self.counts_down() && self.ended.get() == self.standings.borrow().len() {
            self.finished.set(Some(self.now()));
            self.pace().wake();
        }
    }

    /// Whether a script has stopped this thread.
    pub(super) fn is_stopped(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.control.stopped())
    }

    /// Wakes the main task, so that it sees that a script has stopped the thread.
    pub(super) fn note_stop(&self) {
        if self.is_stopped() {
            self.pace().wake();
        }
    }

    /// Whether a full handshake is what was asked for.
    pub(super) fn wants_full(&self) -> bool {
        !self.plan.options.resume
    }

    pub(super) fn keeps_connections(&self) -> bool {
        matches!(self.plan.work, Work::Requests | Work::Echo | Work::Messages)
    }
}
