//! A run of the lab: every contender at every point, interleaved.
//!
//! Owns: the order of measurements, what happens when one fails, going on where a run was stopped.
//! Never: judges figures.
//! Driven by: `weir lab run`.
//! Why: the contenders of a point all stand ready, and are loaded one after the other, A B C, B C A, …: what disturbs the
//! machine disturbs all alike, and no one is always first.

use crate::generator::{self, Order};
use crate::machine::{self, Environment, Seats};
use crate::programs::Programs;
use crate::progress::Progress;
use crate::results::{Record, Results, SCHEMA, Settings};
use crate::scenario::{Effort, Mode, Point, Scenario, Who};
use crate::servers::{Ground, Ports, Running};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the lab runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is run.
    pub scenarios: Vec<Scenario>,
    /// The quick form of it.
    pub quick: bool,
    /// Where results go.
    pub out: PathBuf,
    /// This program.
    pub weir: PathBuf,
    /// Rivals that are not to be searched for.
    pub programs: BTreeMap<Who, PathBuf>,
    /// Contenders that are left out.
    pub without: Vec<Who>,
    /// Where servers listen.
    pub ports: Ports,
}

/// Runs what is not yet in the results folder.
///
/// # Errors
/// A program is missing, a port is used, the folder holds other results, or the run was stopped. A contender that fails
/// at a point is noted, and the run goes on without it; all such are told at the end.
pub fn run(options: Options) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot take signals")?;
    }
    let taking_part = |s: &Scenario| -> Vec<Who> {
        s.contenders.iter().copied().filter(|w| !options.without.contains(w)).collect()
    };
    let everybody: Vec<Who> = options.scenarios.iter().flat_map(taking_part).collect();
    let programs = Programs::find(options.weir.clone(), &everybody, &options.programs)?;
    let descriptors = machine::raise_descriptors()?;
    let environment = Environment::read(&programs)?;
    let debug_build = cfg!(debug_assertions);
    let settings = Settings { schema: SCHEMA.into(), quick: options.quick, debug_build, environment };
    let results = Results::open(&options.out, &settings)?;
    for scenario in &options.scenarios {
        results.begin(scenario)?;
    }
    let cpus = machine::cpus()?;
    let mut lab = Lab {
        quick: options.quick,
        programs,
        results,
        cpus,
        ports: options.ports.clone(),
        stop,
        failures: 0,
    };
    let mut todo = Vec::new();
    for scenario in &options.scenarios {
        todo.extend(lab.todo(scenario, &taking_part(scenario))?);
    }
    let mut progress = Progress::new(todo.iter().map(Job::seconds).sum());
    let mut ground: Option<(&str, Ground)> = None;
    for job in &todo {
        if ground.as_ref().is_none_or(|(id, _)| *id != job.scenario.id) {
            ground = Some((&job.scenario.id, Ground::prepare(job.scenario, descriptors)?));
        }
        if let Some((_, ground)) = &ground {
            lab.point(job, ground, &mut progress)?;
        }
    }
    progress.clear();
    println!("{} points measured; results are in {}", todo.len(), options.out.display());
    if lab.failures > 0 {
        bail!("{} contenders failed, as told above; run again, and only they are measured", lab.failures);
    }
    Ok(())
}

/// What is still to be measured at a point.
struct Job<'a> {
    scenario: &'a Scenario,
    point: Point,
    seats: Seats,
    effort: Effort,
    missing: Vec<(Who, u32)>,
}

impl Job<'_> {
    fn seconds(&self) -> f64 {
        self.missing.len() as f64 * (self.effort.seconds + self.effort.warmup + 0.2)
    }
}

struct Lab {
    quick: bool,
    programs: Programs,
    results: Results,
    cpus: Vec<usize>,
    ports: Ports,
    stop: Arc<AtomicBool>,
    failures: usize,
}

/// Whether a contender has something to do in a mode.
#[must_use]
pub fn takes_part(who: Who, mode: Mode) -> bool {
    // Nobody between is the same whatever is passed through.
    who != Who::Direct || matches!(mode, Mode::Http | Mode::Https)
}

impl Lab {
    fn todo<'a>(&self, scenario: &'a Scenario, contenders: &[Who]) -> Result<Vec<Job<'a>>> {
        let effort = scenario.effort(self.quick);
        let mut jobs = Vec::new();
        for point in scenario.points(self.quick) {
            // Points without enough CPUs: the report says why they are missing.
            let Ok(seats) = Seats::divide(scenario.placement, point.workers, &self.cpus) else { continue };
            let mut missing = Vec::new();
            for run in 0..effort.runs {
                // Another one begins each round.
                let turn = run as usize % contenders.len().max(1);
                let order = contenders.iter().cycle().skip(turn).take(contenders.len());
                missing.extend(
                    order
                        .filter(|w| {
                            takes_part(**w, point.mode) && !self.results.has(scenario, &point, **w, run)
                        })
                        .map(|w| (*w, run)),
                );
            }
            if !missing.is_empty() {
                jobs.push(Job { scenario, point, seats, effort, missing });
            }
        }
        Ok(jobs)
    }

    /// Measures one point.
    fn point(&mut self, job: &Job<'_>, ground: &Ground, progress: &mut Progress) -> Result<()> {
        let what = format!("{} {}", job.scenario.id, job.point.name());
        progress.at(&what);
        let origin = ground
            .origin(&job.point, &job.seats.generator, &self.programs, &mut self.ports)
            .with_context(|| format!("{what}: the origin does not start"))?;
        let origin_port = origin.as_ref().map_or(0, |o| o.port);
        let mut servers: BTreeMap<Who, Running> = BTreeMap::new();
        let mut out: Vec<Who> = Vec::new();
        for &(who, run) in &job.missing {
            if out.contains(&who) {
                progress.done(job.effort);
                continue;
            }
            let done = self.once(job, ground, &mut servers, (who, run), origin_port);
            if self.stop.load(Ordering::Relaxed) {
                progress.clear();
                bail!("stopped; what was measured is kept, and the same command goes on from here");
            }
            match done {
                Ok(true) => self.results.failed(job.scenario, &job.point, who, None)?,
                Ok(false) => {
                    let why = format!("{} does not do this", who.name());
                    self.results.failed(job.scenario, &job.point, who, Some(&why))?;
                    out.push(who);
                }
                Err(why) => {
                    let why = format!("{why:#}");
                    self.results.failed(job.scenario, &job.point, who, Some(&why))?;
                    progress.clear();
                    eprintln!("{what}: {why}");
                    self.failures += 1;
                    out.push(who);
                }
            }
            progress.done(job.effort);
        }
        Ok(())
    }

    /// One run of one contender, which is started if it does not stand ready; false if it does no such work.
    fn once(
        &mut self,
        job: &Job<'_>,
        ground: &Ground,
        servers: &mut BTreeMap<Who, Running>,
        (who, run): (Who, u32),
        origin: u16,
    ) -> Result<bool> {
        if let std::collections::btree_map::Entry::Vacant(seat) = servers.entry(who) {
            let point = own_work(who, &job.point);
            let cpus = &job.seats.server;
            match ground.start(who, &point, origin, cpus, &self.programs, &mut self.ports)? {
                Some(server) => _ = seat.insert(server),
                None => return Ok(false),
            }
        }
        let server = servers.get_mut(&who).context("it was started above")?;
        let order = Order {
            weir: &self.programs.weir,
            scenario: job.scenario,
            point: &job.point,
            effort: job.effort,
            cpus: &job.seats.generator,
            port: server.port,
            pid: server.pid(),
        };
        let outcome = generator::run(&order, &self.stop);
        // A server that died explains a generator that failed.
        server.check().context("while it was measured")?;
        let outcome = outcome.with_context(|| who.name())?;
        let requests = outcome.load.total.requests;
        if requests == 0 {
            bail!("{} answered no request: {:?}", who.name(), outcome.load.total.errors);
        }
        let record = Record {
            point: job.point.clone(),
            contender: who,
            run,
            shared_cpus: job.seats.shared(),
            cpu_us_per_request: outcome.cpu_us / requests as f64,
            switches_per_request: outcome.switches / requests as f64,
            memory_peak: outcome.memory_peak,
            load: outcome.load,
        };
        self.results.keep(job.scenario, &record)?;
        Ok(true)
    }
}

/// Nobody between: the origin itself, in the server's place.
fn own_work(who: Who, point: &Point) -> Point {
    let mode = match (who, point.mode) {
        (Who::Direct, Mode::Http) => Mode::FilesHttp,
        (Who::Direct, Mode::Https) => Mode::FilesHttps,
        (_, mode) => mode,
    };
    Point { mode, ..point.clone() }
}
