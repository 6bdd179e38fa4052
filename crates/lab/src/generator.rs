//! One run of the generator, with the server's accounts around it.
//!
//! Owns: the command line of `weir load`, the generator's time limit, what the server used while it was measured.
//! Never: carries load itself: the generator is a program of its own, so that its CPU time is.
//! Driven by: `run`.

use crate::accounting::{self, Cpu};
use crate::burst::{Account, Bucket};
use crate::cluster::Address;
use crate::instructions::Counter;
use crate::machine::{self, on};
use crate::results::Used;
use crate::scenario::{Effort, Generator, Mode, Point, Scenario};
use crate::servers::Running;
use crate::wrk;
use anyhow::{Context, Result, bail};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_loadgen::report::Report;
use weir_loadgen::verdict::TOO_FEW;

/// How often the server's accounts are read. Between two readings its use is taken to be even.
const TICK: Duration = Duration::from_millis(50);

/// How much longer than its time a run may take.
const GRACE: Duration = Duration::from_secs(30);

/// What is asked of the generator.
#[derive(Clone, Copy)]
pub struct LoadSpec<'a> {
    /// The program.
    pub weir: &'a Path,
    /// The other one, for scenarios that name it.
    pub wrk: Option<&'a Path>,
    /// The script that it runs, or that asks for many sites.
    pub script: &'a Path,
    /// What it belongs to.
    pub scenario: &'a Scenario,
    /// What is measured.
    pub point: &'a Point,
    /// For how long.
    pub effort: Effort,
    /// Requests a second; nothing for as fast as the connections allow.
    pub rate: Option<f64>,
    /// The CPUs it runs on.
    pub cpus: &'a [usize],
    /// Generators that share the work, if there are several.
    pub agents: Agents<'a>,
    /// Whether the machine counts instructions.
    pub instructions: bool,
    /// Whether processes of the server come and go meanwhile.
    pub changing: bool,
}

/// Generators that wait for orders.
#[derive(Clone, Copy)]
pub struct Agents<'a> {
    /// The processes; none where one generator does all the work.
    pub running: &'a [Running],
    /// What proves our orders.
    pub token: &'a str,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The generator's report.
    pub load: Report,
    /// CPU time of the server in the measured time, microseconds.
    pub cpu_us: f64,
    /// Context switches of the server in the measured time.
    pub switches: f64,
    /// The server's memory at its peak, bytes.
    pub memory_peak: u64,
    /// Instructions of the server in the measured time, where the machine counts them.
    pub instructions: Option<f64>,
    /// The server's account of credits, if it has one.
    pub account: Option<Account>,
    /// What the server used, second by second.
    pub course: Vec<Used>,
}

/// A reading of the server's accounts.
struct Reading {
    at: f64,
    cpu_ns: f64,
    switches: f64,
}

/// The server's use second by second, from readings in their order.
#[derive(Default)]
struct Course {
    seconds: Vec<Used>,
    /// Of the second that is not over: when it began, and CPU time by then.
    open: Option<(f64, f64)>,
}

impl Course {
    /// The most seconds that are told.
    const MOST: usize = 3600;

    fn take(&mut self, reading: &Reading, family: &[u32]) {
        let (begun, before) = *self.open.get_or_insert((reading.at, reading.cpu_ns));
        let length = reading.at - begun;
        if length >= 1.0 && self.seconds.len() < Self::MOST {
            let cpus = (reading.cpu_ns - before).max(0.0) / 1e9 / length;
            let used = Used { until_unix_s: reading.at, cpus, memory: accounting::resident(family) };
            self.seconds.push(used);
            self.open = Some((reading.at, reading.cpu_ns));
        }
    }
}

/// The server that is looked at.
struct Watch {
    pid: Option<u32>,
    family: Vec<u32>,
    begun: Cpu,
    /// Where processes come and go: what those that ended had used.
    last: Option<Cpu>,
}

impl Watch {
    fn begin(target: &Target<'_>, changing: bool) -> Self {
        let pid = match target {
            Target::Here(server) => Some(server.pid()),
            Target::Elsewhere { .. } => None,
        };
        let family = pid.map_or_else(Vec::new, accounting::family);
        let begun = Cpu::of_processes(&family);
        Self { pid, family, begun, last: changing.then(Cpu::default) }
    }

    fn look(&mut self) -> Reading {
        let at = now();
        if let (Some(pid), Some(_)) = (self.pid, &self.last) {
            self.family = accounting::family(pid);
        }
        let mut cpu = Cpu::of_processes(&self.family);
        let changing = self.last.is_some();
        if let Some(last) = self.last.take() {
            cpu = cpu.with_ended(last);
        }
        let cpu_ns = cpu.since(&self.begun) as f64;
        self.last = changing.then_some(cpu);
        Reading { at, cpu_ns, switches: accounting::switches(&self.family) as f64 }
    }
}

impl LoadSpec<'_> {
    /// wrk, where it makes the load: it shakes no hands in full, and speaks no HTTP/2.
    fn by_wrk(&self) -> Option<&Path> {
        let mode = self.point.mode;
        let able = mode.handshakes().is_none() && !mode.is_http2();
        let wanted = self.scenario.generator == Generator::Wrk && able;
        self.wrk.filter(|_| wanted)
    }

    fn threads(&self) -> usize {
        let clients = self.agents.running.len().max(1);
        self.cpus.len().min(self.scenario.connections as usize).div_ceil(clients).max(1)
    }
}

/// Who is loaded.
pub enum Target<'a> {
    /// A server that runs here.
    Here(&'a mut Running),
    /// One that runs elsewhere and is asked by a name: its use of CPU time is not seen.
    Elsewhere {
        /// Where it answers.
        address: &'a Address,
        /// The name.
        name: &'a str,
    },
}

/// Loads `target` once. With a `bucket`, its CPU time is rationed as that says.
///
/// # Errors
/// The generator fails, or takes too long; `stop` was set; a control group cannot be changed.
pub fn run(
    spec: &LoadSpec<'_>,
    target: &mut Target<'_>,
    bucket: Option<Bucket>,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let by_wrk = spec.by_wrk();
    let command = match by_wrk {
        Some(wrk) => {
            let work = (spec.scenario, spec.point);
            wrk::command(wrk, work, spec.effort, spec.threads(), spec.script, &url(spec, target))
        }
        None => command(spec, target),
    };
    let mut watch = Watch::begin(target, spec.changing);
    let counts = spec.instructions && !watch.family.is_empty();
    let counter = counts.then(|| Counter::start(&watch.family)).transpose().context("perf stat")?;
    let mut ration = bucket.map(Ration::new);
    let (stolen, started) = (machine::steal_ticks(), now());
    let mut child = on(spec.cpus, || Ok(Process::start(command)?))?;
    let limit = Duration::from_secs_f64(spec.effort.seconds + spec.effort.warmup) + GRACE;
    let deadline = std::time::Instant::now() + limit;
    let mut readings: Vec<Reading> = Vec::new();
    let mut course = Course::default();
    let ended = loop {
        let reading = watch.look();
        if let (Some(ration), Target::Here(server)) = (&mut ration, &mut *target) {
            ration.book(readings.last(), &reading);
            server.allow(ration.bucket.allowance())?;
        }
        if watch.pid.is_some() {
            course.take(&reading, &watch.family);
        }
        readings.push(reading);
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        if let Some(status) = child.child.try_wait()? {
            break status;
        }
        if std::time::Instant::now() > deadline {
            bail!("the generator did not end within {limit:?}");
        }
        std::thread::sleep(TICK);
    };
    readings.push(watch.look());
    let memory_peak = accounting::memory_peak(&watch.family);
    let counts = counter.map(Counter::end);
    let (text, complaints) = child.printed();
    // How much failed stands in its report, and is judged with it.
    if !ended.success() && ended.code() != Some(TOO_FEW.into()) {
        bail!("the generator failed ({ended}): {}", complaints.trim());
    }
    let (load, from, to) = if by_wrk.is_some() {
        let (work, asked) = ((spec.scenario, spec.point), url(spec, target));
        let mut load = wrk::report(&text, started, work, spec.threads(), &asked)?;
        load.generator.steal = machine::steal_since(stolen);
        // It tells no beginning; its requests are those of all its time.
        (load, started, now())
    } else {
        let load =
            Report::from_json(&text).map_err(|bad| anyhow::anyhow!("the generator's report: {bad}"))?;
        let from = load.started_unix_s + spec.effort.warmup;
        let to = from + load.total.elapsed_s;
        (load, from, to)
    };
    let used = |what: fn(&Reading) -> f64| {
        let line: Vec<(f64, f64)> = readings.iter().map(|r| (r.at, what(r))).collect();
        (at(&line, to) - at(&line, from)).max(0.0)
    };
    Ok(Outcome {
        cpu_us: used(|r| r.cpu_ns) / 1e3,
        switches: used(|r| r.switches),
        memory_peak,
        instructions: counts.map(|line| at(&line, to) - at(&line, from)).filter(|n| *n > 0.0),
        account: ration.map(Ration::account),
        course: course.seconds,
        load,
    })
}

/// The server's account during one run.
struct Ration {
    bucket: Bucket,
    before: f64,
    limited_s: f64,
    elapsed_s: f64,
}

impl Ration {
    fn new(bucket: Bucket) -> Self {
        Self { bucket, before: bucket.credits(), limited_s: 0.0, elapsed_s: 0.0 }
    }

    fn book(&mut self, before: Option<&Reading>, now: &Reading) {
        let Some(before) = before else { return };
        let elapsed_s = (now.at - before.at).max(0.0);
        if self.bucket.limited() {
            self.limited_s += elapsed_s;
        }
        self.elapsed_s += elapsed_s;
        self.bucket.book((now.cpu_ns - before.cpu_ns).max(0.0) / 1e9, elapsed_s);
    }

    fn account(self) -> Account {
        Account {
            before: self.before,
            after: self.bucket.credits(),
            held: self.bucket.limited(),
            limited: if self.elapsed_s > 0.0 { self.limited_s / self.elapsed_s } else { 0.0 },
            scale: self.bucket.scale(),
        }
    }
}

/// The time, seconds since 1970-01-01 UTC.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What a sum stood at, at a moment between two readings.
fn at(line: &[(f64, f64)], moment: f64) -> f64 {
    let after = line.partition_point(|(at, _)| *at < moment);
    match (after.checked_sub(1).and_then(|i| line.get(i)), line.get(after)) {
        (Some((a, was)), Some((b, is))) if b > a => was + (is - was) * (moment - a) / (b - a),
        (Some((_, only)), _) | (None, Some((_, only))) => *only,
        (None, None) => 0.0,
    }
}

/// The command line of `weir load`.
fn command(spec: &LoadSpec<'_>, target: &Target<'_>) -> Command {
    let (scenario, point) = (spec.scenario, spec.point);
    let mut command = Command::new(spec.weir);
    command.args(["load", "--json", "--timeout", "10s"]).args([
        format!("-t{}", spec.threads()),
        format!("-c{}", scenario.connections),
        format!("-d{}ms", (spec.effort.seconds * 1e3).round()),
    ]);
    command.args(["--warmup".to_owned(), format!("{}ms", (spec.effort.warmup * 1e3).round())]);
    if let Some(rate) = spec.rate {
        command.arg(format!("-R{rate}"));
    }
    if !spec.agents.running.is_empty() {
        let agents: Vec<String> =
            spec.agents.running.iter().map(|a| format!("127.0.0.1:{}", a.port)).collect();
        command.args(["--agents", &agents.join(",")]).env("WEIR_LOAD_TOKEN", spec.agents.token);
    }
    match (point.mode.handshakes(), point.keepalive) {
        (Some(_), _) => _ = command.arg("--handshakes"),
        (None, false) => _ = command.arg("--new-connections"),
        (None, true) => {}
    }
    if point.mode == Mode::Sites {
        command.arg("-s").arg(spec.script);
    }
    if point.mode.is_http2() {
        command.args(["--h2", "--streams", &point.streams.unwrap_or(1).to_string()]);
    }
    if point.mode == Mode::Gzip {
        command.args(["-H", "Accept-Encoding: gzip"]);
    }
    if point.mode.encrypted() {
        if let Target::Elsewhere { name, .. } = target {
            command.args(["--sni", name]);
        }
        let tls = &scenario.tls;
        for (word, value) in [("--tls", &tls.version), ("--suite", &tls.suite), ("--curve", &tls.curve)] {
            if let Some(value) = value {
                command.args([word, value]);
            }
        }
    }
    // A handshake has no request.
    if let Target::Elsewhere { name, .. } = target
        && point.mode.handshakes().is_none()
    {
        command.args(["-H", &format!("Host: {name}")]);
    }
    command.arg(url(spec, target));
    command
}

/// What is asked for.
fn url(spec: &LoadSpec<'_>, target: &Target<'_>) -> String {
    let encrypted = spec.point.mode.encrypted();
    let (host, port) = match target {
        Target::Here(server) => ("127.0.0.1", server.port),
        Target::Elsewhere { address, .. } => {
            (address.host.as_str(), if encrypted { address.https } else { address.http })
        }
    };
    let scheme = if encrypted { "https" } else { "http" };
    format!("{scheme}://{host}:{port}/{}", spec.point.size)
}

/// The generator's process; dropping it ends it.
struct Process {
    child: Child,
    printed: Option<(JoinHandle<String>, JoinHandle<String>)>,
}

impl Process {
    fn start(mut command: Command) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let printed = match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(err)) => Some((collect(out), collect(err))),
            _ => None,
        };
        Ok(Self { child, printed })
    }

    fn printed(&mut self) -> (String, String) {
        let joined = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
        self.printed.take().map_or_else(Default::default, |(out, err)| (joined(out), joined(err)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end on a thread of its own, so that neither pipe fills up.
fn collect(mut source: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = source.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_between_the_lines() {
        let line = [(1.0, 0.0), (2.0, 100.0), (3.0, 300.0)];
        assert_eq!([0.0, 1.5, 2.0, 2.25, 9.0].map(|m| at(&line, m)), [0.0, 50.0, 100.0, 150.0, 300.0]);
        assert_eq!(at(&[], 1.0), 0.0);
    }

    #[test]
    fn use_is_told_by_the_second() {
        let mut course = Course::default();
        for tick in 0..=50 {
            let at = 100.0 + f64::from(tick) * 0.05;
            // Half a CPU.
            let reading = Reading { at, cpu_ns: f64::from(tick) * 0.025e9, switches: 0.0 };
            course.take(&reading, &[std::process::id()]);
        }
        assert_eq!(course.seconds.len(), 2);
        for used in course.seconds {
            assert!((used.cpus - 0.5).abs() < 1e-6 && used.memory > 0, "{used:?}");
        }
    }

    #[test]
    fn a_run_books_what_it_used() {
        let machine = crate::burst::Burstable { baseline: 0.5, launch_credits: 1.0, most_credits: 9.0 };
        let mut ration = Ration::new(Bucket::new(machine, 1, 60.0));
        let reading = |at: f64| Reading { at, cpu_ns: at * 1e9, switches: 0.0 };
        ration.book(None, &reading(0.0));
        // It uses a whole CPU and earns half of one: a credit lasts two simulated minutes.
        for tick in 1..=40 {
            ration.book(Some(&reading(f64::from(tick - 1) * 0.1)), &reading(f64::from(tick) * 0.1));
        }
        let account = ration.account();
        assert_eq!((account.before, account.after), (1.0, 0.0));
        assert!((account.limited - 0.5).abs() < 0.05, "{account:?}");
    }
}
