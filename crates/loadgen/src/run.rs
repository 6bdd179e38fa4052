//! A run from its first connection to its report.
//!
//! Owns: the threads, the moment at which load begins, the sums of what they count.
//! Never: sends a request itself; prints.
//! Driven by: [`run`], in the caller's thread; [`Watch`] is told what happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use weir_rt::{Instant, Sender, mailbox};

use crate::judge;
use crate::machine::{Machine, ThreadTime, cpus};
use crate::plan::{Options, Plan};
use crate::report::{
    self, Connections, Errors, Generator, Model, Report, SCHEMA, Settings, Spread, Status, Tls,
};
use crate::script::{self, ThreadScript};
use crate::tally::Tally;
use crate::timeline::Timeline;
use crate::worker::{self, Event, INTERVAL, SAMPLE, Summary};

/// How long workers have to wake up between being told and the beginning.
const NOTICE: Duration = Duration::from_millis(20);
/// How often it is looked whether the run is to stop, while workers say nothing.
const LOOK: Duration = Duration::from_millis(50);

/// The most URLs that a report names.
const TOLD_URLS: usize = 100;

/// CPU time of this process so far, seconds.
fn process_cpu_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError {
    /// What was asked for cannot be: the text says why.
    Usage(String),
    /// No connection could be opened.
    Connect(String),
    /// The generator itself failed.
    Failed(String),
    /// The watcher gave it up.
    GivenUp,
    /// It was stopped before load began.
    Interrupted,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(text) | Self::Connect(text) | Self::Failed(text) => f.write_str(text),
            Self::GivenUp => f.write_str("the run was given up"),
            Self::Interrupted => f.write_str("stopped before load began: there are no figures"),
        }
    }
}

impl std::error::Error for RunError {}

/// One second of a run, all threads together.
pub struct Interval<'a> {
    /// Seconds since load began, at its end.
    pub at_s: f64,
    /// How long it is.
    pub length_s: f64,
    /// How long the whole run is, seconds.
    pub run_s: f64,
    /// The step it belongs to (from 0), of how many; none in a warm-up.
    pub step: (Option<usize>, usize),
    /// The rate wanted at its end; none in the closed model.
    pub rate_wanted: Option<f64>,
    /// Units completed.
    pub requests: u64,
    /// Units that the whole run has completed by its end, or failed.
    pub done: u64,
    /// How many are wanted in all, where that ends the run.
    pub wanted: Option<u64>,
    /// Answers of 400 and above, and gRPC calls that failed.
    pub failed: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Answers by status.
    pub status: Status,
    /// What became of connections.
    pub connections: Connections,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Latencies, nanoseconds.
    pub latency: &'a Histogram<u64>,
    /// The same from the moment of sending, in the open model.
    pub uncorrected: Option<&'a Histogram<u64>>,
}

/// Is told what happens.
pub trait Watch {
    /// What was asked for can be done. Connections are opened when this returns.
    fn checked(&mut self) {}

    /// A flag that stops the run when it is set: asked for once, before anything is done. What was measured by then is
    /// reported, [`Report::interrupted`].
    fn halt(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Every connection has been tried. Load begins when this returns; `false` gives the run up.
    fn ready(&mut self) -> bool {
        true
    }

    /// Load begins now.
    fn begun(&mut self, _unix: Duration) {}

    /// A second has passed.
    fn interval(&mut self, _interval: &Interval<'_>) {}

    /// Whether to give the run up: asked once a second.
    fn gives_up(&mut self) -> bool {
        false
    }

    /// It is over. A script's `done` is called after this.
    fn finished(&mut self, _report: &Report) {}
}

/// Nobody watches.
impl Watch for () {}

/// Runs what `options` ask for, in threads of its own, and returns when it is over.
///
/// # Errors
/// See [`RunError`].
pub fn run(options: Options, watch: &mut dyn Watch) -> Result<Report, RunError> {
    let halt = watch.halt();
    let plan = Arc::new(Plan::new(options).map_err(RunError::Usage)?);
    let setup = Instant::now();
    let (script, threads) = match script::load(&plan).map_err(RunError::Usage)? {
        Some((script, threads)) => (Some(script), threads),
        None => (None, Vec::new()),
    };
    watch.checked();
    let mut crew = Crew::start(&plan, threads, halt)?;
    let io = crew.wait_until_ready()?;
    let setup_s = setup.elapsed().as_secs_f64();
    if !watch.ready() {
        return Err(RunError::GivenUp);
    }
    let machine = Machine::now();
    let own = ThreadTime::now();
    crew.go(Instant::now() + NOTICE);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + NOTICE;
    watch.begun(started);
    let (sums, timeline) = crew.collect(&plan, watch)?;
    let own = ThreadTime::now().since(own);
    let mut report = sums.report(&plan, io);
    report.setup_s = setup_s;
    report.timeline = timeline.finish();
    report.started_unix_s = started.as_secs_f64();
    let now = Machine::now();
    report.generator.steal = now.steal_since(&machine);
    report.generator.throttled_s = now.throttled_since(&machine);
    report.generator.cpu_s += own.cpu as f64 / 1e9;
    if sums.total > 0 {
        report.generator.cpu_us_per_request = report.generator.cpu_s * 1e6 / sums.total as f64;
    }
    report.warnings = judge::warnings(&report);
    watch.finished(&report);
    if let Some(script) = script {
        script.done(&report).map_err(RunError::Failed)?;
    }
    Ok(report)
}

/// The threads of a run. Dropping it ends them.
struct Crew {
    events: Receiver<Event>,
    go: Vec<Sender<Instant>>,
    threads: Vec<JoinHandle<()>>,
    /// Set by somebody else: the run is to stop.
    halt: Option<Arc<AtomicBool>>,
    begun: bool,
    interrupted: bool,
}

impl Crew {
    fn start(
        plan: &Arc<Plan>,
        scripts: Vec<ThreadScript>,
        halt: Option<Arc<AtomicBool>>,
    ) -> Result<Self, RunError> {
        let mut scripts = scripts.into_iter();
        let (sender, events) = channel();
        let mut crew =
            Self { events, go: Vec::new(), threads: Vec::new(), halt, begun: false, interrupted: false };
        for thread in 0..plan.options.threads as usize {
            let (plan, sender, script) = (plan.clone(), sender.clone(), scripts.next());
            let (go, gone) = mailbox();
            crew.go.push(go);
            let started = std::thread::Builder::new()
                .name(format!("load-{thread}"))
                .spawn(move || worker::run(plan, thread, script, sender, gone));
            match started {
                Ok(started) => crew.threads.push(started),
                Err(error) => return Err(RunError::Failed(format!("cannot start a thread: {error}"))),
            }
        }
        Ok(crew)
    }

    fn next(&mut self) -> Result<Event, RunError> {
        loop {
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Failed(why)) => return Err(RunError::Failed(why)),
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::Failed("a worker thread has died".into()));
                }
                Err(RecvTimeoutError::Timeout) => self.look()?,
            }
        }
    }

    /// Stops the threads, all at one moment, if somebody wants it.
    fn look(&mut self) -> Result<(), RunError> {
        let wanted = self.halt.as_ref().is_some_and(|halt| halt.load(Ordering::Relaxed));
        if wanted && !self.begun {
            return Err(RunError::Interrupted);
        }
        if wanted && !self.interrupted {
            self.interrupted = true;
            self.tell(Instant::now());
        }
        Ok(())
    }

    /// Waits until all slots of all threads have tried; the driver in use. An error if none has a connection.
    fn wait_until_ready(&mut self) -> Result<String, RunError> {
        let (mut ready, mut all, mut why, mut io) = (0, 0, None, String::new());
        while ready < self.go.len() {
            if let Event::Ready { opened, failure, driver } = self.next()? {
                ready += 1;
                all += opened;
                why = why.or(failure);
                io = driver;
            }
        }
        match why {
            Some(why) if all == 0 => Err(RunError::Connect(why)),
            _ => Ok(io),
        }
    }

    fn go(&mut self, begin: Instant) {
        self.begun = true;
        self.tell(begin);
    }

    /// The first moment told is that at which load begins, the second that at which it stops.
    fn tell(&self, moment: Instant) {
        for go in &self.go {
            // A worker that is gone shows when its events end.
            let _ = go.send(moment);
        }
    }

    fn collect(&mut self, plan: &Plan, watch: &mut dyn Watch) -> Result<(Sums, Timeline), RunError> {
        let mut sums = Sums::new(plan);
        let mut intervals = Intervals::new(plan, self.go.len());
        let mut done = 0;
        // What a thread counted before its tick belongs to the interval that the tick ends.
        let mut held: BTreeMap<usize, Vec<(usize, Box<Tally>)>> = BTreeMap::new();
        while done < self.go.len() {
            match self.next()? {
                Event::Counted { thread, phase, tally } => {
                    held.entry(thread).or_default().push((phase, tally))
                }
                Event::Tick { thread, at } => {
                    for (phase, tally) in held.remove(&thread).unwrap_or_default() {
                        sums.add(phase, &tally);
                        if intervals.takes(plan, at, phase) {
                            intervals.sum(plan, at).add(&tally);
                        }
                    }
                    intervals.told(thread, at, plan, watch);
                    // Events may come without a pause.
                    self.look()?;
                    if watch.gives_up() {
                        return Err(RunError::GivenUp);
                    }
                }
                Event::Done(thread, summary) => {
                    done += 1;
                    intervals.over(thread, plan, watch);
                    sums.end(*summary);
                }
                Event::Ready { .. } | Event::Failed(_) => {}
            }
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err(RunError::Failed("a worker thread has died".into()));
            }
        }
        sums.interrupted = self.interrupted;
        Ok((sums, intervals.timeline))
    }
}

/// What threads told of intervals that not all have told of yet.
struct Intervals {
    /// Sums by the end of their interval.
    open: BTreeMap<u64, Tally>,
    /// How far each thread has told; one that is over will tell no more.
    reached: Vec<u64>,
    /// The latest moment told of.
    latest: u64,
    last: u64,
    done: u64,
    is_open: bool,
    timeline: Timeline,
}

impl Intervals {
    fn new(plan: &Plan, threads: usize) -> Self {
        Self {
            open: BTreeMap::new(),
            reached: vec![0; threads],
            latest: 0,
            last: 0,
            done: 0,
            is_open: plan.schedule.is_open(),
            timeline: Timeline::new(plan.schedule.end() as f64 / 1e9, process_cpu_s()),
        }
    }

    /// The end of the interval that `at` is in, or that it ends. A thread may be over within one.
    fn end(plan: &Plan, at: u64) -> u64 {
        at.div_ceil(INTERVAL).max(1).saturating_mul(INTERVAL).min(plan.schedule.end())
    }

    /// Whether what was counted in `phase` is part of the interval that ends at `at`: where a warm-up ends in it, what is
    /// left of the warm-up is not.
    fn takes(&self, plan: &Plan, at: u64, phase: usize) -> bool {
        let phases = plan.schedule.phases();
        let measured = |phase: usize| phases.get(phase).is_some_and(|phase| phase.step.is_some());
        measured(phase) || !measured(plan.schedule.phase_at(at.saturating_sub(1), 0))
    }

    fn sum(&mut self, plan: &Plan, at: u64) -> &mut Tally {
        let is_open = self.is_open;
        self.open.entry(Self::end(plan, at)).or_insert_with(|| Tally::new(is_open))
    }

    /// A thread has told all of the interval that ends at `at`.
    fn told(&mut self, thread: usize, at: u64, plan: &Plan, watch: &mut dyn Watch) {
        self.latest = self.latest.max(at);
        // Even where nothing happened.
        self.sum(plan, at);
        self.reach(thread, Self::end(plan, at), plan, watch);
    }

    /// A thread is over.
    fn over(&mut self, thread: usize, plan: &Plan, watch: &mut dyn Watch) {
        self.reach(thread, u64::MAX, plan, watch);
    }

    fn reach(&mut self, thread: usize, at: u64, plan: &Plan, watch: &mut dyn Watch) {
        if let Some(reached) = self.reached.get_mut(thread) {
            *reached = at;
        }
        let whole = self.reached.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(entry) = self.open.first_entry()
            && *entry.key() <= whole
        {
            let (end, tally) = entry.remove_entry();
            // The last one may be shorter.
            self.pass(end.min(self.latest.max(self.last + 1)), &tally, plan, watch);
        }
    }

    fn pass(&mut self, at: u64, tally: &Tally, plan: &Plan, watch: &mut dyn Watch) {
        let phase = &plan.schedule.phases()[plan.schedule.phase_at(at.saturating_sub(1), 0)];
        self.done += tally.requests + tally.errors.sum() - tally.errors.timeout.min(tally.errors.sum());
        let interval = Interval {
            at_s: at as f64 / 1e9,
            length_s: (at - self.last) as f64 / 1e9,
            run_s: plan.schedule.end() as f64 / 1e9,
            step: (phase.step, plan.steps()),
            rate_wanted: self.is_open.then(|| phase.rate_at(at)),
            requests: tally.requests,
            done: self.done,
            wanted: plan.options.requests,
            failed: tally.class(4) + tally.class(5) + tally.failed_calls(),
            errors: tally.errors,
            status: tally.statuses(),
            connections: tally.connections,
            received: tally.bytes.received,
            sent: tally.bytes.sent,
            latency: &tally.latency,
            uncorrected: tally.uncorrected.as_ref(),
        };
        self.timeline.take(&interval, process_cpu_s());
        watch.interval(&interval);
        self.last = at;
    }
}

/// The sums of a run.
struct Sums {
    steps: Vec<Tally>,
    samples: Vec<f64>,
    total: u64,
    time: ThreadTime,
    busiest: u64,
    tls: Option<(String, String, Option<String>)>,
    /// When each thread stopped, nanoseconds since load began, if a script stopped it.
    stopped: Vec<Option<u64>>,
    step_of: Vec<Option<usize>>,
    interrupted: bool,
}

impl Sums {
    fn new(plan: &Plan) -> Self {
        let open = plan.schedule.is_open();
        Self {
            steps: (0..plan.steps()).map(|_| Tally::new(open)).collect(),
            samples: Vec::new(),
            total: 0,
            time: ThreadTime::default(),
            busiest: 0,
            tls: None,
            stopped: Vec::new(),
            step_of: plan.schedule.phases().iter().map(|phase| phase.step).collect(),
            interrupted: false,
        }
    }

    fn add(&mut self, phase: usize, tally: &Tally) {
        // What was counted in a warm-up is left out.
        if let Some(step) = self.step_of.get(phase).copied().flatten()
            && let Some(sum) = self.steps.get_mut(step)
        {
            sum.add(tally);
        }
    }

    fn end(&mut self, summary: Summary) {
        self.samples.extend(summary.samples.iter().map(|&n| f64::from(n) * 1e9 / SAMPLE as f64));
        self.total += summary.total;
        self.time.cpu += summary.time.cpu;
        self.time.run_delay += summary.time.run_delay;
        self.busiest = self.busiest.max(summary.time.cpu);
        self.tls = self.tls.take().or(summary.tls);
        self.stopped.push(summary.stopped);
    }

    fn report(&self, plan: &Plan, io: String) -> Report {
        let phases = plan.schedule.phases();
        let open = plan.schedule.is_open();
        let mut all = Tally::new(open);
        let (mut seconds, mut wanted, mut steps) = (0.0, 0.0, Vec::new());
        // All threads were stopped: so much shorter was the run.
        let end = self.stopped.iter().copied().try_fold(0, |end, stopped| stopped.map(|at: u64| at.max(end)));
        let end = end.unwrap_or(plan.schedule.end()).max(1);
        for phase in phases.iter().filter_map(|phase| phase.until(end)) {
            let Some(tally) = phase.step.and_then(|step| self.steps.get(step)) else { continue };
            all.add(tally);
            seconds += phase.seconds();
            wanted += phase.rate() * phase.seconds();
            if plan.steps() > 1 {
                steps.push(tally.figures(phase.seconds(), open.then(|| phase.rate())));
            }
        }
        let run_ns = end as f64;
        Report {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: self.settings(plan, io),
            interrupted: self.interrupted,
            total: all.figures(seconds, open.then(|| wanted / seconds.max(1e-9))),
            steps,
            thread_rate: Spread::of(&self.samples),
            generator: Generator {
                cpu_s: self.time.cpu as f64 / 1e9,
                busiest_thread: self.busiest as f64 / run_ns,
                run_delay_s: self.time.run_delay as f64 / 1e9,
                late_mean_us: if all.late_n > 0 {
                    all.late_sum as f64 / all.late_n as f64 / 1e3
                } else {
                    0.0
                },
                late_max_us: all.late_max as f64 / 1e3,
                cpus: cpus(),
                ..Generator::default()
            },
            ..Report::default()
        }
    }

    fn settings(&self, plan: &Plan, io: String) -> Settings {
        let Plan { options, origins, .. } = plan;
        let asked = options.urls.iter().chain(options.targets.iter().map(|asked| &asked.url));
        let urls = asked.take(TOLD_URLS).filter_map(|url| crate::target::Target::parse(url).ok());
        let tls = origins.iter().find(|origin| origin.target.scheme.is_encrypted()).map(|origin| {
            let (version, suite, group) = match self.tls.clone() {
                Some((version, suite, group)) => (Some(version), Some(suite), group),
                None => (None, None, None),
            };
            Tls {
                server_name: Some(origin.server_name.clone()),
                resume: options.resume,
                version,
                suite,
                group,
            }
        });
        Settings {
            urls: urls.map(|target| report::Url { url: target.url, weight: target.weight }).collect(),
            targets: (options.urls.len() + options.targets.len()) as u64,
            requests: options.requests,
            work: plan.work,
            model: if plan.schedule.is_open() { Model::Open } else { Model::Closed },
            threads: options.threads,
            connections: options.connections,
            duration_s: options.duration.as_secs_f64(),
            warmup_s: options.warmup.as_secs_f64(),
            rates: options.rates.iter().map(|rate| (rate.from + rate.to) / 2.0).collect(),
            timeout_s: options.timeout.as_secs_f64(),
            method: plan.method.clone(),
            body_bytes: options.body.as_ref().map_or(0, |body| body.len() as u64),
            tls,
            script: options.script.as_ref().map(|script| script.name.clone()),
            sources: options.sources.iter().map(ToString::to_string).collect(),
            h2_streams: options.h2,
            io,
        }
    }
}
