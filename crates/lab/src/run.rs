//! A run of the lab: every contender at every point, interleaved.
//!
//! Owns: the order of measurements, what happens when one fails, going on where a run was stopped.
//! Never: judges figures.
//! Driven by: `weir lab run`.
//! Why: the contenders of a point all stand ready, and are loaded one after the other, A B C, B C A, …: what disturbs the
//! machine disturbs all alike, and no one is always first.

use crate::accounting;
use crate::burst::Bucket;
use crate::callgrind;
use crate::cgroup::Group;
use crate::changes::{Changing, Echo, Order};
use crate::cluster::{self, Address, Cluster};
use crate::contender::{Contender, Driver, Kind, Rival};
use crate::generator::{self, Agents, LoadSpec, Target};
use crate::idle;
use crate::instructions;
use crate::machine::{self, CpuSplit, Environment};
use crate::programs::Programs;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::results::{Record, Results, SCHEMA, Settings, not_done};
use crate::scenario::{Effort, Generator, Mode, Origin, Point, Scenario};
use crate::scope::Scope;
use crate::servers::{Ports, Running, Setup, Testbed};
use crate::stats::median;
use crate::wrk;
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A rate above this share of what the fastest contender does tells nothing more.
const BEYOND: f64 = 1.25;

/// How the lab runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is run.
    pub scenarios: Vec<Scenario>,
    /// The quick form of it.
    pub quick: bool,
    /// The part of each that is wanted.
    pub scope: Scope,
    /// Where results go.
    pub out: PathBuf,
    /// This program.
    pub weir: PathBuf,
    /// Rivals that are not to be searched for.
    pub programs: BTreeMap<Contender, PathBuf>,
    /// Rivals besides those that scenarios name.
    pub rivals: Vec<Rival>,
    /// Contenders that are left out.
    pub without: Vec<Contender>,
    /// How Weir's sockets are driven; nothing: as it does unless told.
    pub driver: Option<Driver>,
    /// Whether instructions are counted where scenarios ask for it.
    pub instructions: bool,
    /// Where servers listen.
    pub ports: Ports,
    /// Where ingress controllers answer, instead of where their Ingresses say.
    pub ingresses: BTreeMap<Contender, Address>,
}

/// Runs what is not yet in the results folder, and gives how many contenders failed at a point: each is noted there and
/// told, and the run goes on without it.
///
/// # Errors
/// A program is missing, a port is used, the folder holds other results, or the run was stopped.
pub fn run(options: Options) -> Result<usize> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot take signals")?;
    }
    let scenarios: Vec<Scenario> = options
        .scenarios
        .iter()
        .map(|s| s.clone().narrowed(&options.scope, options.quick))
        .collect::<Result<_>>()?;
    let taking_part = |s: &Scenario| -> Vec<Contender> {
        s.contenders.iter().copied().filter(|w| !options.without.contains(w)).collect()
    };
    // Ingress controllers are found in the cluster.
    let here = || scenarios.iter().filter(|s| s.kubernetes.is_none());
    let mut everybody: Vec<Contender> = here().flat_map(taking_part).collect();
    everybody.extend(here().any(|s| s.origin == Origin::Nginx).then_some(Contender::Nginx));
    let mut programs = Programs::find(options.weir.clone(), &everybody, &options.programs, &options.rivals)?;
    programs.driver = options.driver;
    programs.wrk = here().find(|s| s.generator == Generator::Wrk).and_then(|_| wrk::find().ok());
    let descriptors = machine::raise_descriptors()?;
    let environment = Environment::read(&programs)?;
    let debug_build = programs.is_development()?;
    let rivals: BTreeMap<Contender, Kind> = options.rivals.iter().map(|r| (r.who, r.kind)).collect();
    let more: Vec<Contender> = rivals.keys().copied().collect();
    let settings = Settings {
        schema: SCHEMA.into(),
        quick: options.quick,
        debug_build,
        driver: options.driver,
        rivals,
        environment,
    };
    let results = Results::open(&options.out, &settings)?;
    for scenario in &scenarios {
        results.begin(scenario, &options.scope)?;
    }
    let cores = machine::cores()?;
    let mut lab = Lab {
        quick: options.quick,
        programs,
        results,
        cores,
        ports: options.ports.clone(),
        token: token()?,
        instructions: settings.environment.instructions == instructions::COUNTED,
        counting: options.instructions,
        without: options.without.clone(),
        more,
        stop,
        failures: 0,
    };
    let mut todo = Vec::new();
    for scenario in &scenarios {
        let unable = unable(scenario, &taking_part(scenario));
        lab.results.skip(scenario, unable.as_deref())?;
        match unable {
            Some(why) => eprintln!("{} is skipped: {why}", scenario.id),
            None => todo.extend(lab.todo(scenario)),
        }
    }
    let mut progress = Progress::new(todo.iter().map(Job::seconds).sum());
    for jobs in todo.chunk_by(|a, b| a.scenario.id == b.scenario.id) {
        let Some(first) = jobs.first() else { continue };
        let testbed = Testbed::prepare(first.scenario, options.quick, descriptors)?;
        let cluster = match cluster_of(first, &testbed, &options.ingresses) {
            Ok(cluster) => cluster,
            Err(why) => {
                let why = format!("the cluster cannot be used: {why:#}");
                progress.clear();
                eprintln!("{} is skipped: {why}", first.scenario.id);
                lab.results.skip(first.scenario, Some(&why))?;
                lab.failures += 1;
                continue;
            }
        };
        let place = Place { testbed: &testbed, cluster: cluster.as_ref() };
        if first.scenario.soak {
            lab.soak(jobs, &place, &mut progress)?;
        } else {
            jobs.iter().try_for_each(|job| lab.point(job, &place, &mut progress))?;
        }
    }
    progress.clear();
    println!("{} points measured; results are in {}", todo.len(), options.out.display());
    Ok(lab.failures)
}

/// Why this machine cannot run a scenario.
fn unable(scenario: &Scenario, contenders: &[Contender]) -> Option<String> {
    if scenario.kubernetes.is_some() {
        return cluster::classes(contenders).err();
    }
    if scenario.generator == Generator::Wrk
        && let Err(why) = wrk::find()
    {
        return Some(why.to_string());
    }
    scenario.burstable?;
    let tried = Group::make(&scenario.id.to_ascii_lowercase());
    tried.err().map(|why| format!("CPU time cannot be rationed on this machine: {why:#}"))
}

/// What a scenario wants of a cluster, deployed there; nothing for scenarios of this machine.
fn cluster_of(
    job: &Job<'_>,
    testbed: &Testbed,
    told: &BTreeMap<Contender, Address>,
) -> Result<Option<Cluster>> {
    let Some(wanted) = &job.scenario.kubernetes else { return Ok(None) };
    let classes = cluster::classes(&job.contenders).map_err(anyhow::Error::msg)?;
    let pages: Vec<(String, usize)> = job
        .scenario
        .pages()
        .into_iter()
        .map(|size| Ok((size.clone(), usize::try_from(crate::scenario::bytes(&size)?)?)))
        .collect::<Result<_>>()?;
    let [chain, key, _] = testbed.certificate(job.scenario.tls.key);
    Cluster::prepare(wanted, &pages, [&chain, &key], &classes, told).map(Some)
}

/// Where contenders run.
struct Place<'a> {
    testbed: &'a Testbed,
    cluster: Option<&'a Cluster>,
}

/// What proves our orders to generators that we start.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).context("/dev/urandom")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// What is still to be measured at a point.
struct Job<'a> {
    scenario: &'a Scenario,
    point: Point,
    split: CpuSplit,
    effort: Effort,
    /// About how long one run takes, seconds.
    each: f64,
    contenders: Vec<Contender>,
    missing: Vec<(Contender, u32)>,
}

impl Job<'_> {
    fn seconds(&self) -> f64 {
        self.missing.len() as f64 * self.each
    }

    /// Whether the configuration changes here: what full speed is, is measured without.
    fn is_changed(&self) -> bool {
        self.scenario.changes.is_some() && self.point.rate.is_some()
    }

    /// Whether the server's CPU time is rationed here: what full speed is, is measured without.
    fn is_rationed(&self) -> bool {
        self.scenario.burstable.is_some() && self.point.rate.is_some()
    }
}

/// The contenders that stand ready, and those that failed.
#[derive(Default)]
struct Crew {
    servers: BTreeMap<Contender, Running>,
    out: Vec<Contender>,
}

/// What stands ready at a point, besides the contenders.
struct Stage {
    rate: Option<f64>,
    origins: Vec<Running>,
    /// What takes sockets, where the configuration changes.
    sockets: Option<Echo>,
    agents: Vec<Running>,
    /// Instructions a request, by callgrind.
    counts: BTreeMap<Contender, f64>,
}

struct Lab {
    quick: bool,
    programs: Programs,
    results: Results,
    cores: Vec<Vec<usize>>,
    ports: Ports,
    token: String,
    /// Whether the processor counts instructions.
    instructions: bool,
    /// Whether anything is to count them.
    counting: bool,
    without: Vec<Contender>,
    /// Rivals besides those that scenarios name.
    more: Vec<Contender>,
    stop: Arc<AtomicBool>,
    failures: usize,
}

impl Lab {
    fn todo<'a>(&self, scenario: &'a Scenario) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        for point in scenario.points(self.quick) {
            // Points without enough CPUs: the report says why they are missing.
            let split = if scenario.kubernetes.is_some() {
                Ok(CpuSplit { server: Vec::new(), generator: self.cores.concat() })
            } else {
                CpuSplit::divide(scenario.placement, &point, &self.cores)
            };
            let Ok(split) = split else { continue };
            let effort = scenario.effort_at(&point, self.quick);
            let mut contenders = scenario.contenders_at(&point, self.quick, &self.more);
            contenders.retain(|who| !self.without.contains(who));
            let mut missing = Vec::new();
            for run in 0..effort.runs {
                // Another one begins each round.
                let turn = run as usize % contenders.len().max(1);
                let order = contenders.iter().cycle().skip(turn).take(contenders.len());
                let todo = order.filter(|who| !self.results.has(scenario, &point, **who, run));
                missing.extend(todo.map(|who| (*who, run)));
            }
            if !missing.is_empty() {
                let each = scenario.run_seconds(&point, self.quick);
                jobs.push(Job { scenario, point, split, effort, each, contenders, missing });
            }
        }
        jobs
    }

    /// Measures one point.
    fn point(&mut self, job: &Job<'_>, place: &Place<'_>, progress: &mut Progress) -> Result<()> {
        let what = format!("{} {}", job.scenario.id, job.point.name());
        progress.at(&what);
        let stage = match self.rate(job)? {
            Ok(rate) => {
                let mut stage = self.stage(job, place, rate).with_context(|| what.clone())?;
                for (who, why) in self.count(job, place, &mut stage)? {
                    progress.clear();
                    eprintln!("{what}: instructions of {} are not counted: {why:#}", who.name());
                }
                stage
            }
            Err(why) => return self.leave_out(job, &job.missing, &why, progress),
        };
        let mut crew = Crew::default();
        job.missing.iter().try_for_each(|turn| self.turn(job, place, &mut crew, *turn, &stage, progress))
    }

    /// Measures a scenario whose servers live through all of it: every rate, from the lowest to the highest, and again.
    fn soak(&mut self, jobs: &[Job<'_>], place: &Place<'_>, progress: &mut Progress) -> Result<()> {
        let (full_speed, paced): (Vec<&Job<'_>>, Vec<&Job<'_>>) =
            jobs.iter().partition(|job| job.point.rate.is_none());
        full_speed.into_iter().try_for_each(|job| self.point(job, place, progress))?;
        let Some(first) = paced.first() else { return Ok(()) };
        let mut stage = self.stage(first, place, None).with_context(|| first.scenario.id.clone())?;
        let mut crew = Crew::default();
        for run in 0..first.effort.runs {
            for job in &paced {
                progress.at(&format!("{} {}", job.scenario.id, job.point.name()));
                let turns: Vec<(Contender, u32)> =
                    job.missing.iter().copied().filter(|turn| turn.1 == run).collect();
                match self.rate(job)? {
                    Ok(rate) => stage.rate = rate,
                    Err(why) => {
                        self.leave_out(job, &turns, &why, progress)?;
                        continue;
                    }
                }
                turns
                    .into_iter()
                    .try_for_each(|turn| self.turn(job, place, &mut crew, turn, &stage, progress))?;
            }
        }
        Ok(())
    }

    /// Notes why turns are not taken.
    fn leave_out(
        &self,
        job: &Job<'_>,
        turns: &[(Contender, u32)],
        why: &str,
        progress: &mut Progress,
    ) -> Result<()> {
        for &(who, _) in turns {
            self.results.failed(job.scenario, &job.point, who, Some(why))?;
            progress.done(job.each);
        }
        Ok(())
    }

    /// One run of one contender, unless it has failed before.
    fn turn(
        &mut self,
        job: &Job<'_>,
        place: &Place<'_>,
        crew: &mut Crew,
        (who, run): (Contender, u32),
        stage: &Stage,
        progress: &mut Progress,
    ) -> Result<()> {
        if crew.out.contains(&who) {
            progress.done(job.each);
            return Ok(());
        }
        let done = self.once(job, place, &mut crew.servers, (who, run), stage);
        if job.is_changed() {
            // What old processes have left is no matter of the next run.
            crew.servers.remove(&who);
        }
        if self.stop.load(Ordering::Relaxed) {
            progress.clear();
            bail!("stopped; what was measured is kept, and the same command goes on from here");
        }
        match done {
            Ok(true) => self.results.failed(job.scenario, &job.point, who, None)?,
            Ok(false) => {
                let why = not_done(who);
                self.results.failed(job.scenario, &job.point, who, Some(&why))?;
                crew.out.push(who);
            }
            Err(why) => {
                let why = format!("{why:#}");
                self.results.failed(job.scenario, &job.point, who, Some(&why))?;
                progress.clear();
                eprintln!("{} {}: {why}", job.scenario.id, job.point.name());
                self.failures += 1;
                crew.out.push(who);
            }
        }
        progress.done(job.each);
        Ok(())
    }

    /// The rate of a point, or why it is left out.
    fn rate(&self, job: &Job<'_>) -> Result<Result<Option<f64>, String>> {
        let Some(rate) = job.point.rate else { return Ok(Ok(None)) };
        let runs = job.effort.runs;
        let mut capacities = Vec::new();
        // A load balancer is compared with load balancers: what nobody between does is not its capacity.
        for &who in job.contenders.iter().filter(|who| **who != Contender::Direct) {
            let records = self.results.records(job.scenario, &job.point.at_full_speed(), who, runs)?;
            let rates: Vec<f64> = records.iter().map(|r| r.load.total.rate).collect();
            capacities.extend((!rates.is_empty()).then(|| median(&rates)));
        }
        let fastest = capacities.iter().copied().max_by(f64::total_cmp);
        Ok(match (rate, rate.resolve(&capacities), fastest) {
            (Rate::PerSecond(wanted), _, Some(fastest)) if wanted > fastest * BEYOND => {
                Err(format!("{wanted} a second is far beyond what the fastest contender does ({fastest:.0})"))
            }
            (_, Some(wanted), _) => Ok(Some(wanted)),
            (_, None, _) => Err(format!("{rate}: no contender has figures at full speed here")),
        })
    }

    /// Starts what contenders of a point have in common.
    fn stage(&mut self, job: &Job<'_>, place: &Place<'_>, rate: Option<f64>) -> Result<Stage> {
        let (cpus, clients) = (&job.split.generator, job.scenario.clients);
        let origins = if place.cluster.is_some() {
            Vec::new()
        } else {
            let started = place.testbed.origins(&job.point, cpus, &self.programs, &mut self.ports);
            started.context("the origin does not start")?
        };
        let agents = if clients > 1 {
            place
                .testbed
                .agents(clients, &self.token, cpus, &self.programs, &mut self.ports)
                .context("a generator does not start")?
        } else {
            Vec::new()
        };
        let sockets = job.is_changed().then(Echo::start).transpose()?;
        Ok(Stage { rate, origins, sockets, agents, counts: BTreeMap::new() })
    }

    /// Has callgrind count, where that is wanted and the processor does not; tells of whom it could not.
    fn count(
        &mut self,
        job: &Job<'_>,
        place: &Place<'_>,
        stage: &mut Stage,
    ) -> Result<Vec<(Contender, anyhow::Error)>> {
        let mut failed = Vec::new();
        let wanted = self.counting && job.scenario.instructions && !self.quick && place.cluster.is_none();
        if !wanted
            || job.point.mode.is_idle()
            || job.point.mode == Mode::Sites
            || self.instructions
            || !callgrind::is_here()
        {
            return Ok(failed);
        }
        let origins: Vec<u16> = stage.origins.iter().map(|o| o.port).collect();
        // Weir runs with its epoll driver there anyway.
        for &who in
            job.contenders.iter().filter(|who| !matches!(who, Contender::Direct | Contender::WeirEpoll))
        {
            // Runs before a stop have it already.
            let before = self.results.records(job.scenario, &job.point, who, job.effort.runs)?;
            if let Some(count) = before.iter().find_map(|r| r.instructions_per_request) {
                stage.counts.insert(who, count);
                continue;
            }
            let point = own_work(who, &job.point);
            let kind = self.programs.kind(who)?;
            if place.testbed.configuration((who, kind), &point, 0, &origins, None)?.is_none() {
                continue;
            }
            let (programs, ports, stop) = (&self.programs, &mut self.ports, &self.stop);
            let setup = Setup { origins: &origins, cpus: &job.split.server, counted: true, sockets: None };
            let counted = callgrind::per_request(
                || place.testbed.start(who, &point, setup, programs, ports)?.context("it does no such work"),
                |server, seconds| {
                    let spec = LoadSpec {
                        weir: &programs.weir,
                        // It takes whole seconds only, and what it counts is the same.
                        wrk: None,
                        script: Path::new(""),
                        scenario: job.scenario,
                        point: &job.point,
                        effort: Effort { runs: 1, seconds, warmup: 0.0 },
                        rate: None,
                        cpus: &job.split.generator,
                        agents: Agents { running: &[], token: "" },
                        instructions: false,
                        changing: false,
                    };
                    let outcome = generator::run(&spec, &mut Target::Here(server), None, stop)?;
                    Ok(outcome.load.total.requests)
                },
            );
            match counted {
                Ok(count) => _ = stage.counts.insert(who, count),
                Err(why) => failed.push((who, why)),
            }
        }
        Ok(failed)
    }

    /// One run of one contender, which is started if it does not stand ready; false if it does no such work.
    fn once(
        &mut self,
        job: &Job<'_>,
        place: &Place<'_>,
        servers: &mut BTreeMap<Contender, Running>,
        (who, run): (Contender, u32),
        stage: &Stage,
    ) -> Result<bool> {
        if job.point.mode.is_idle() {
            return self.idle(job, place, (who, run), stage);
        }
        let name = cluster::host(who);
        let mut fresh = false;
        let mut target = if let Some(cluster) = place.cluster {
            let Some(address) = cluster.of(who) else { return Ok(false) };
            Target::Elsewhere { address, name: &name }
        } else {
            match servers.entry(who) {
                Entry::Occupied(there) => Target::Here(there.into_mut()),
                Entry::Vacant(seat) => match self.start(job, place.testbed, who, stage)? {
                    Some(server) => {
                        fresh = true;
                        Target::Here(seat.insert(server))
                    }
                    None => return Ok(false),
                },
            }
        };
        let spec = LoadSpec {
            weir: &self.programs.weir,
            wrk: self.programs.wrk.as_deref(),
            script: &place.testbed.script(&job.point),
            scenario: job.scenario,
            point: &job.point,
            effort: job.effort,
            rate: stage.rate,
            cpus: &job.split.generator,
            agents: Agents { running: &stage.agents, token: &self.token },
            instructions: self.instructions && self.counting,
            changing: job.is_changed(),
        };
        // Caches, pools and connections to the origin come to their steady state in a run that does not count.
        if fresh && job.scenario.generator == Generator::Wrk && job.effort.warmup > 0.0 {
            let effort = Effort { runs: 1, seconds: job.effort.warmup.ceil(), warmup: 0.0 };
            let warmed = generator::run(&LoadSpec { effort, ..spec }, &mut target, None, &self.stop);
            warmed.with_context(|| format!("{}, before it was measured", who.name()))?;
        }
        let bucket = if job.is_rationed() { self.bucket(job, who, run)? } else { None };
        let changing = if job.is_changed() { self.change(job, place, who, &target, stage)? } else { None };
        let outcome = generator::run(&spec, &mut target, bucket, &self.stop);
        let changes = match (changing, &target) {
            (Some(changing), Target::Here(server)) => {
                Some(changing.finish(accounting::family(server.pid()).len())?)
            }
            _ => None,
        };
        // A server that died explains a generator that failed.
        let mut start = None;
        if let Target::Here(server) = target {
            server.check().context("while it was measured")?;
            start = Some(server.start);
        }
        let outcome = outcome.with_context(|| who.name().to_owned())?;
        let total = &outcome.load.total;
        let requests = total.requests;
        if requests == 0 {
            bail!("{} answered no request: {:?}", who.name(), total.errors);
        }
        // Those under way when time was taken are in one count and not in the other.
        let (full, resumed) = (total.connections.full_handshakes, total.connections.resumed_handshakes);
        let under_way = u64::from(job.scenario.connections);
        if job.point.mode.handshakes().is_some() && (resumed > 0 || full + under_way < requests) {
            bail!("{}: of {requests} handshakes {full} were full, and {resumed} resumed", who.name());
        }
        let agreed = outcome.load.settings.tls.as_ref().and_then(|tls| tls.version.as_deref());
        if let (Some(wanted), Some(agreed)) = (&job.scenario.tls.version, agreed)
            && !agreed.ends_with(wanted)
        {
            bail!("{}: TLS {wanted} was wanted, and {agreed} agreed on", who.name());
        }
        let record = Record {
            point: job.point.clone(),
            contender: who,
            run,
            shared_cpus: job.split.shared(),
            cpu_us_per_request: outcome.cpu_us / requests as f64,
            switches_per_request: outcome.switches / requests as f64,
            memory_peak: outcome.memory_peak,
            instructions_per_request: outcome
                .instructions
                .map(|n| n / requests as f64)
                .or_else(|| stage.counts.get(&who).copied()),
            account: outcome.account,
            start,
            idle: None,
            changes,
            course: outcome.course,
            load: outcome.load,
        };
        self.results.keep(job.scenario, &record)?;
        Ok(true)
    }

    /// Begins to change the configuration of a contender: the last of its origins goes, and comes back.
    fn change(
        &self,
        job: &Job<'_>,
        place: &Place<'_>,
        who: Contender,
        target: &Target<'_>,
        stage: &Stage,
    ) -> Result<Option<Changing>> {
        let (Target::Here(server), Some(echo)) = (target, &stage.sockets) else { return Ok(None) };
        let kind = self.programs.kind(who)?;
        let origins: Vec<u16> = stage.origins.iter().map(|o| o.port).collect();
        let text = |origins: &[u16]| {
            let port = Some(echo.port);
            let text = place.testbed.configuration((who, kind), &job.point, server.port, origins, port)?;
            text.context("it does no such work")
        };
        let count = job.scenario.changes(self.quick);
        let seconds = job.effort.warmup + job.effort.seconds;
        let order = Order {
            count,
            pause: Duration::from_secs_f64(seconds / f64::from(count + 1)),
            file: place.testbed.place(who, server.port).1,
            texts: [text(&origins[..origins.len() - 1])?, text(&origins)?],
            signal: if kind == Kind::Haproxy { Signal::USR2 } else { Signal::HUP },
        };
        Ok(Some(Changing::start(order, server)))
    }

    /// One reading of what waiting connections cost a contender that is started for it; false if it does no such work.
    fn idle(
        &mut self,
        job: &Job<'_>,
        place: &Place<'_>,
        (who, run): (Contender, u32),
        stage: &Stage,
    ) -> Result<bool> {
        let Some(mut server) = self.start(job, place.testbed, who, stage)? else { return Ok(false) };
        let count = place.testbed.idle(job.scenario.idle(self.quick));
        let scheme = if job.point.mode.encrypted() { "https" } else { "http" };
        let mut load = weir_loadgen::report::Report {
            schema: weir_loadgen::report::SCHEMA.into(),
            started_unix_s: generator::now(),
            ..Default::default()
        };
        let (weir, cpus) = (&self.programs.weir, &job.split.generator);
        let found = idle::measure(weir, cpus, &server, scheme, count, &self.stop);
        server.check().context("while it was measured")?;
        let found = found.with_context(|| who.name().to_owned())?;
        load.total.requests = u64::from(found.connections);
        load.settings.connections = found.connections;
        let record = Record {
            point: job.point.clone(),
            contender: who,
            run,
            shared_cpus: job.split.shared(),
            cpu_us_per_request: 0.0,
            switches_per_request: 0.0,
            memory_peak: accounting::memory_peak(&accounting::family(server.pid())),
            instructions_per_request: None,
            account: None,
            start: Some(server.start),
            idle: Some(found),
            changes: None,
            course: Vec::new(),
            load,
        };
        self.results.keep(job.scenario, &record)?;
        Ok(true)
    }

    /// Starts a contender; nothing if it does no such work.
    fn start(
        &mut self,
        job: &Job<'_>,
        testbed: &Testbed,
        who: Contender,
        stage: &Stage,
    ) -> Result<Option<Running>> {
        let point = own_work(who, &job.point);
        let origins: Vec<u16> = stage.origins.iter().map(|o| o.port).collect();
        let (programs, ports) = (&self.programs, &mut self.ports);
        let sockets = stage.sockets.as_ref().map(|echo| echo.port);
        let setup = Setup { origins: &origins, cpus: &job.split.server, counted: false, sockets };
        let server = testbed.start(who, &point, setup, programs, ports)?;
        match server {
            Some(mut server) if job.is_rationed() => {
                server.ration(Group::make(who.name())?)?;
                Ok(Some(server))
            }
            server => Ok(server),
        }
    }

    /// The account of a contender before one of its runs: what the run before has left.
    fn bucket(&self, job: &Job<'_>, who: Contender, run: u32) -> Result<Option<Bucket>> {
        let Some(machine) = job.scenario.burstable else { return Ok(None) };
        // A quick run stands for a full one, and spends as much.
        let scale = job.scenario.full.seconds / job.effort.seconds;
        let bucket = Bucket::new(machine, job.point.workers, scale);
        let records = self.results.records(job.scenario, &job.point, who, run)?;
        let left = records.iter().rfind(|r| r.run + 1 == run).and_then(|r| r.account);
        Ok(Some(left.map_or(bucket, |account| bucket.after(account))))
    }
}

/// Nobody between: the origin itself, in the server's place.
fn own_work(who: Contender, point: &Point) -> Point {
    let mode = match (who, point.mode) {
        (Contender::Direct, Mode::Http) => Mode::FilesHttp,
        (Contender::Direct, Mode::Https) => Mode::FilesHttps,
        (_, mode) => mode,
    };
    Point { mode, ..point.clone() }
}
