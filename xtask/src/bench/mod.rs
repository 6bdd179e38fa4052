//! Weir's CPU a request beside its rivals'.
//!
//! Owns: the order of measurements, on one core, interleaved in pairs; what is written at the end.
//! Never: is a timed test: nothing fails because a machine is slow, only because a row could not be measured.
//! Driven by: `make bench`.
//! Why: server, generator and origin share one core, and the figure is the server's own time on it; so a neighbour on the
//! machine disturbs little, and pairs that are measured one after the other are disturbed alike.

mod configs;
mod drive;
mod idle;
mod report;
mod rows;
mod servers;
mod sites;

use crate::{build, dist};
use anyhow::{Context, Result, bail};
use report::{Finding, Measured, Samples};
use rows::{ROWS, Row, Work};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use servers::{Contender, Ground, Kind, Server};
use std::path::{Path, PathBuf};
use weir_lab::accounting::Cpu;
use weir_testkit::Io;

/// How the benchmark runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only rows whose id starts with one of these (`static`, `proxy-1k`, …), separated by commas
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Three pairs of two seconds: a look, not a verdict
    #[arg(long)]
    quick: bool,
    /// Pairs a row
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Whole seconds of each measurement
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// A `weir` that is built already; otherwise one is built as `make dist` does
    #[arg(long)]
    weir: Option<PathBuf>,
    /// The driver of the rows that are not epoll's own
    #[arg(long, value_enum, default_value = "uring")]
    io: Driver,
    /// The core that everything shares (the last one unless told)
    #[arg(long)]
    core: Option<usize>,
    /// Writes the table into docs/performance.md, between its marks
    #[arg(long)]
    docs: bool,
    /// Lists the rows and ends
    #[arg(long)]
    list: bool,
}

/// The words of `--io`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Driver {
    Auto,
    Uring,
    Epoll,
}

impl From<Driver> for Io {
    fn from(driver: Driver) -> Self {
        match driver {
            Driver::Auto => Self::Auto,
            Driver::Uring => Self::Uring,
            Driver::Epoll => Self::Epoll,
        }
    }
}

/// Measures the rows asked for, prints and writes what came of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows: Vec<&'static Row> = ROWS.iter().filter(|r| options.wants(r)).collect();
    if rows.is_empty() || options.list {
        for row in ROWS {
            println!("{:<20}{}", row.id, row.title);
        }
        return if options.list { Ok(()) } else { bail!("no row of this name") };
    }
    let weir = match &options.weir {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => dist::weir()?,
    };
    let mut bench = Bench::prepare(options, weir)?;
    println!("{}", report::head());
    let mut findings = Vec::new();
    for work in works(&rows) {
        let of_work: Vec<&'static Row> = rows.iter().copied().filter(|r| r.work == work).collect();
        for finding in bench.measure(work, &of_work) {
            println!("{}", finding.line());
            findings.push(finding);
        }
    }
    findings.sort_by_key(|f| ROWS.iter().position(|r| r.id == f.row.id));
    println!("\n{}", report::summary(&findings));
    bench.notes.iter().for_each(|note| println!("{note}"));
    bench.write(options, &findings)?;
    let failed = findings.iter().filter(|f| f.outcome.is_err()).count();
    if failed > 0 { bail!("{failed} rows could not be measured") } else { Ok(()) }
}

impl Options {
    fn wants(&self, row: &Row) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|r| !r.is_empty() && row.id.starts_with(r.as_str()))
    }

    fn runs(&self) -> usize {
        if self.quick { 3 } else { self.runs.max(1) }
    }

    fn seconds(&self) -> u64 {
        if self.quick { 2 } else { self.seconds.max(1) }
    }
}

/// Each kind of work once, in the order of its first row: its contenders are measured side by side.
fn works(rows: &[&'static Row]) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    for row in rows {
        if !works.contains(&row.work) {
            works.push(row.work);
        }
    }
    works
}

struct Bench {
    weir: PathBuf,
    io: Io,
    rivals: Vec<Contender>,
    ground: Ground,
    runs: usize,
    seconds: u64,
    environment: Value,
    notes: Vec<String>,
}

/// A contender with its server, and what was measured.
struct Seat {
    contender: Contender,
    server: Server,
    samples: Samples,
    failed: Option<String>,
}

impl Seat {
    /// Works the server once, and keeps what it cost if that counts.
    fn work(&mut self, work: Work, ground: &Ground, seconds: u64, counts: bool) -> Result<()> {
        let before = Cpu::of(self.server.process.pid());
        let done = drive::drive(work, &self.server, ground, seconds)?;
        let used = Cpu::of(self.server.process.pid()).since(&before);
        if counts {
            self.samples.costs.push(used as f64 / 1000.0 / done.requests as f64);
            self.samples.rates.push(done.requests as f64 / done.seconds);
        }
        Ok(())
    }
}

impl Bench {
    fn prepare(options: &Options, weir: PathBuf) -> Result<Self> {
        let descriptors = raise_descriptors()?;
        // Everything started from here on inherits the core.
        let core = pin(options.core)?;
        let rivals = servers::rivals()?;
        let ground = Ground::prepare(descriptors)?;
        let environment = environment(&weir, &rivals, core, options);
        Ok(Self {
            weir,
            io: options.io.into(),
            rivals,
            ground,
            runs: options.runs(),
            seconds: options.seconds(),
            environment,
            notes: Vec::new(),
        })
    }

    fn weir(&self, row: &Row) -> Contender {
        let io = if row.epoll { Io::Epoll } else { self.io };
        Contender { name: format!("weir {}", io.word()), kind: Kind::Weir(io), program: self.weir.clone() }
    }

    /// All rows of one kind of work.
    fn measure(&mut self, work: Work, rows: &[&'static Row]) -> Vec<Finding> {
        let judged = match work {
            Work::Idle { tls } => self.idle(rows, tls),
            Work::Sites => self.sites(rows),
            _ => self.pairs(work, rows),
        };
        match judged {
            Ok(findings) => findings,
            Err(why) => {
                let why = format!("{why:#}");
                rows.iter().map(|&row| Finding { row, outcome: Err(why.clone()) }).collect()
            }
        }
    }

    fn contenders(&self, rows: &[&'static Row]) -> Vec<Contender> {
        rows.iter().map(|r| self.weir(r)).chain(self.rivals.iter().cloned()).collect()
    }

    /// Server CPU a request: all contenders stand ready, and work one after the other, in an order that turns.
    fn pairs(&self, work: Work, rows: &[&'static Row]) -> Result<Vec<Finding>> {
        let mut seats = Vec::new();
        let mut failures = Vec::new();
        for contender in self.contenders(rows) {
            match servers::start(&contender, work, &self.ground) {
                Ok(Some(server)) => {
                    let samples =
                        Samples { name: contender.name.clone(), costs: Vec::new(), rates: Vec::new() };
                    seats.push(Seat { contender, server, samples, failed: None });
                }
                Ok(None) => {}
                Err(why) => failures.push((contender, format!("{why:#}"))),
            }
        }
        // In the first round caches, pools and connections to the origin come to their steady state.
        for round in 0..=self.runs {
            for turn in 0..seats.len() {
                let at = (round + turn) % seats.len();
                let seconds = if round == 0 { 1 } else { self.seconds };
                let seat = &mut seats[at];
                if seat.failed.is_none()
                    && let Err(why) = seat.work(work, &self.ground, seconds, round > 0)
                {
                    seat.failed = Some(format!("{why:#} {}", seat.server.process.printed().trim()));
                }
            }
        }
        failures.extend(seats.iter().filter_map(|s| Some((s.contender.clone(), s.failed.clone()?))));
        // A rival that fails spoils the comparison; a driver of Weir's that fails spoils its own rows.
        if let Some((rival, why)) = failures.iter().find(|(c, _)| !c.is_weir()) {
            bail!("{}: {why}", rival.name);
        }
        let samples = seats.into_iter().map(|s| (s.contender, s.samples)).collect();
        Ok(self.judge(rows, samples, &failures))
    }

    fn judge(
        &self,
        rows: &[&'static Row],
        samples: Vec<(Contender, Samples)>,
        failures: &[(Contender, String)],
    ) -> Vec<Finding> {
        let rivals: Vec<Samples> =
            samples.iter().filter(|(c, _)| !c.is_weir()).map(|(_, s)| s.clone()).collect();
        let judge = |name: &str| {
            if let Some((_, why)) = failures.iter().find(|(c, _)| c.name == name) {
                return Err(format!("{name}: {why}"));
            }
            let weir = samples.iter().find(|(c, _)| c.name == name).map(|(_, s)| s.clone());
            weir.and_then(|w| Measured::judge(w, rivals.clone()))
                .ok_or_else(|| "nobody to compare with".into())
        };
        rows.iter().map(|&row| Finding { row, outcome: judge(&self.weir(row).name) }).collect()
    }

    /// Bytes an idle connection: exact to a page, so a few fresh starts are enough.
    fn idle(&mut self, rows: &[&'static Row], tls: bool) -> Result<Vec<Finding>> {
        let contenders = self.contenders(rows);
        let mut samples: Vec<(Contender, Samples)> = Vec::new();
        for _ in 0..self.runs.min(3) {
            for contender in &contenders {
                let measured =
                    idle::measure(contender, tls, &self.ground).with_context(|| contender.name.clone())?;
                let Some(bytes) = measured else { continue };
                match samples.iter_mut().find(|(c, _)| c.name == contender.name) {
                    Some((_, s)) => s.costs.push(bytes),
                    None => {
                        let name = contender.name.clone();
                        samples.push((
                            contender.clone(),
                            Samples { name, costs: vec![bytes], rates: Vec::new() },
                        ));
                    }
                }
            }
        }
        self.notes.push(format!(
            "idle connections held: {} ({})",
            idle::connections(&self.ground),
            if tls { "TLS" } else { "plain" }
        ));
        Ok(self.judge(rows, samples, &[]))
    }

    fn sites(&mut self, rows: &[&'static Row]) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for &row in rows {
            let weir = self.weir(row);
            let found = sites::measure(&weir, &self.rivals, &self.ground, self.runs, self.seconds)?;
            for start in &found.starts {
                self.notes.push(format!(
                    "{} with {} sites of {} locations: up in {:.2} s, {:.0} MB",
                    start.name,
                    configs::SITES,
                    configs::LOCATIONS,
                    start.seconds,
                    start.megabytes
                ));
            }
            let many = Samples { name: weir.name.clone(), costs: found.many, rates: found.many_rates };
            let one = Samples { name: "one site".into(), costs: found.one, rates: found.one_rates };
            let judged = Measured::judge(many, vec![one]);
            findings.push(Finding { row, outcome: judged.ok_or_else(|| "no samples".into()) });
        }
        Ok(findings)
    }

    fn write(&self, options: &Options, findings: &[Finding]) -> Result<()> {
        let dir = build::root().join(".bench");
        std::fs::create_dir_all(&dir)?;
        let record = serde_json::to_string_pretty(&report::record(&self.environment, findings, &self.notes))?;
        let table = report::markdown(&self.environment, findings, &self.notes);
        let stamp = self.environment["date"].as_str().unwrap_or("now").replace(':', "");
        for name in [format!("{stamp}.json"), "latest.json".into()] {
            std::fs::write(dir.join(name), &record)?;
        }
        std::fs::write(dir.join("latest.md"), &table)?;
        println!("\nwritten: .bench/{stamp}.json, .bench/latest.json, .bench/latest.md");
        if options.docs {
            let path = build::root().join("docs/performance.md");
            let document = std::fs::read_to_string(&path).context("docs/performance.md")?;
            let new = report::spliced(&document, &table)
                .context("docs/performance.md has no marks for the table")?;
            std::fs::write(path, new)?;
        }
        Ok(())
    }
}

/// As many descriptors as the system grants: idle connections take one on each side.
fn raise_descriptors() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })?;
    Ok(most)
}

/// Binds this process, and so all it starts, to one core.
fn pin(wanted: Option<usize>) -> Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&c| allowed.is_set(c)).context("a process has a core")?;
    let core = wanted.unwrap_or(last);
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).with_context(|| format!("cannot run on core {core}"))?;
    Ok(core)
}

/// What a figure means nothing without.
fn environment(weir: &Path, rivals: &[Contender], core: usize, options: &Options) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .unwrap_or("unknown")
        .trim_start_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .max(cpuinfo.matches("processor\t").count());
    let shell = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).current_dir(build::root()).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    let mut value = json!({
        "date": shell("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": shell("git", &["describe", "--always", "--dirty"]),
        "processor": format!("{model}, {cores} cores, core {core} used"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load before": read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        "weir": build::version_of(weir, "--version"),
        "pairs": format!("{} of {} s", options.runs(), options.seconds()),
    });
    for rival in rivals {
        value[&rival.name] = json!(build::version_of(&rival.program, "-v"));
    }
    value
}
