//! One run of the generator, with the server's accounts around it.
//!
//! Owns: the command line of `weir load`, its time limit, what the server used while it was measured.
//! Never: carries load itself: the generator is a program of its own, so that its CPU time is.
//! Driven by: `run`.

use crate::accounting::{self, Cpu};
use crate::machine::on;
use crate::scenario::{Effort, Point, Scenario};
use anyhow::{Result, bail};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_loadgen::report::Report;

/// How often the server's accounts are read. Between two readings its use is taken to be even.
const TICK: Duration = Duration::from_millis(50);

/// How much longer than its time a run may take.
const GRACE: Duration = Duration::from_secs(30);

/// What is asked of the generator.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The program.
    pub weir: &'a Path,
    /// What it belongs to.
    pub scenario: &'a Scenario,
    /// What is measured.
    pub point: &'a Point,
    /// For how long.
    pub effort: Effort,
    /// The CPUs it runs on.
    pub cpus: &'a [usize],
    /// The server's port.
    pub port: u16,
    /// The server's process.
    pub pid: u32,
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
}

/// A reading of the server's accounts.
struct Reading {
    at: f64,
    cpu_ns: f64,
    switches: f64,
}

/// Loads the server once.
///
/// # Errors
/// The generator fails, or takes too long; `stop` was set.
pub fn run(order: &Order<'_>, stop: &AtomicBool) -> Result<Outcome> {
    let command = command(order);
    let family = accounting::family(order.pid);
    let begun = Cpu::of_processes(&family);
    let mut child = on(order.cpus, || Ok(Generator::start(command)?))?;
    let limit = Duration::from_secs_f64(order.effort.seconds + order.effort.warmup) + GRACE;
    let deadline = std::time::Instant::now() + limit;
    let mut readings = Vec::new();
    let ended = loop {
        readings.push(Reading {
            at: now(),
            cpu_ns: Cpu::of_processes(&family).since(&begun) as f64,
            switches: accounting::switches(&family) as f64,
        });
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
    let memory_peak = accounting::memory_peak(&family);
    let (text, complaints) = child.printed();
    if !ended.success() {
        bail!("the generator failed ({ended}): {}", complaints.trim());
    }
    let load = Report::from_json(&text).map_err(|bad| anyhow::anyhow!("the generator's report: {bad}"))?;
    let from = load.started_unix_s + order.effort.warmup;
    let used = |what: fn(&Reading) -> f64| {
        (at(&readings, from + load.total.elapsed_s, what) - at(&readings, from, what)).max(0.0)
    };
    Ok(Outcome { cpu_us: used(|r| r.cpu_ns) / 1e3, switches: used(|r| r.switches), memory_peak, load })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// What the account stood at, at a moment between two readings.
fn at(readings: &[Reading], moment: f64, what: fn(&Reading) -> f64) -> f64 {
    let after = readings.partition_point(|r| r.at < moment);
    match (after.checked_sub(1).and_then(|i| readings.get(i)), readings.get(after)) {
        (Some(a), Some(b)) if b.at > a.at => what(a) + (what(b) - what(a)) * (moment - a.at) / (b.at - a.at),
        (Some(only), _) | (None, Some(only)) => what(only),
        (None, None) => 0.0,
    }
}

/// The command line of `weir load`.
fn command(order: &Order<'_>) -> Command {
    let (scenario, point) = (order.scenario, order.point);
    let threads = order.cpus.len().min(scenario.connections as usize).max(1);
    let mut command = Command::new(order.weir);
    command.args(["load", "--json", "--timeout", "10s"]).args([
        format!("-t{threads}"),
        format!("-c{}", scenario.connections),
        format!("-d{}ms", (order.effort.seconds * 1e3).round()),
    ]);
    command.args(["--warmup".to_owned(), format!("{}ms", (order.effort.warmup * 1e3).round())]);
    if let Some(rate) = scenario.rate {
        command.arg(format!("-R{rate}"));
    }
    if !point.keepalive {
        command.arg("--new-connections");
    }
    let scheme = if point.mode.encrypted() {
        if let Some(version) = &scenario.tls.version {
            command.args(["--tls", version]);
        }
        if let Some(suite) = &scenario.tls.suite {
            command.args(["--suite", suite]);
        }
        "https"
    } else {
        "http"
    };
    command.arg(format!("{scheme}://127.0.0.1:{}/{}", order.port, point.size));
    command
}

/// The generator's process; dropping it ends it.
struct Generator {
    child: Child,
    printed: Option<(JoinHandle<String>, JoinHandle<String>)>,
}

impl Generator {
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

impl Drop for Generator {
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
    fn accounts_are_read_between_the_lines() {
        let reading = |at: f64, cpu_ns: f64| Reading { at, cpu_ns, switches: 0.0 };
        let readings = [reading(1.0, 0.0), reading(2.0, 100.0), reading(3.0, 300.0)];
        let cpu = |moment| at(&readings, moment, |r| r.cpu_ns);
        assert_eq!([cpu(0.0), cpu(1.5), cpu(2.0), cpu(2.25), cpu(9.0)], [0.0, 50.0, 100.0, 150.0, 300.0]);
    }
}
