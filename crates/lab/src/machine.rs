//! The machine: what a figure means nothing without, and who runs on which CPU.
//!
//! Owns: the environment record, the division of CPUs between server and generator.
//! Never: changes the machine's settings.
//! Driven by: `run`.

use crate::instructions;
use crate::programs::Programs;
use crate::scenario::{Placement, Point};
use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Where figures come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's name.
    pub processor: String,
    /// CPUs that we may use.
    pub cpus: usize,
    /// The kernel's version.
    pub kernel: String,
    /// What virtualises it, as far as it can be seen; empty for none.
    pub virtualisation: String,
    /// Memory, bytes.
    pub memory: u64,
    /// The limit of CPU time that our control group has, as `cpu.max` says it (microseconds, of how many); empty for none.
    pub cpu_limit: String,
    /// Program, version.
    pub versions: BTreeMap<String, String>,
    /// The commit that Weir was built from; empty if the build does not know it.
    #[serde(default)]
    pub commit: String,
    /// Program, its TLS library.
    #[serde(default)]
    pub tls_libraries: BTreeMap<String, String>,
    /// CPUs that share a core with another one.
    #[serde(default)]
    pub hyper_threading: bool,
    /// CPUs of a core, as far as they are ours; 0 of machines that did not tell.
    #[serde(default)]
    pub threads_per_core: usize,
    /// Share of the machine's CPU time that its host took away since the start of the machine. Each run has its own.
    #[serde(default)]
    pub steal: f64,
    /// `counted`, or why instructions are not.
    #[serde(default)]
    pub instructions: String,
}

impl Environment {
    /// Of this machine.
    ///
    /// # Errors
    /// A program does not tell its version.
    pub fn read(programs: &Programs) -> Result<Self> {
        let cpuinfo = text("/proc/cpuinfo");
        let field = |file: &str, name: &str| -> String {
            let line = file.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(['\t', ' ', ':']).trim().to_owned()
        };
        let product = text("/sys/class/dmi/id/product_name");
        let hypervisor = cpuinfo.lines().any(|l| l.starts_with("flags") && l.contains(" hypervisor"));
        let kilobytes =
            field(&text("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
        Ok(Self {
            processor: field(&cpuinfo, "model name"),
            cpus: cpus()?.len(),
            kernel: text("/proc/sys/kernel/osrelease"),
            virtualisation: match (hypervisor, product.is_empty()) {
                (true, false) => product,
                (true, true) => "a hypervisor".to_owned(),
                (false, _) => String::new(),
            },
            memory: u64::saturating_mul(kilobytes, 1024),
            cpu_limit: cpu_limit(),
            commit: programs.commit()?,
            versions: programs.versions()?,
            tls_libraries: programs.tls_libraries(),
            hyper_threading: text("/sys/devices/system/cpu/smt/active") == "1",
            threads_per_core: cores()?.iter().map(Vec::len).min().unwrap_or(1),
            steal: steal(&text("/proc/stat")),
            instructions: instructions::counted().err().unwrap_or_else(|| instructions::COUNTED.into()),
        })
    }
}

/// The limit of the group that this process is in: v2 as it stands there, v1 in the same words.
fn cpu_limit() -> String {
    let own = text("/proc/self/cgroup");
    let path = |wanted: fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(path) = path(|c| c.split(',').any(|c| c == "cpu")) {
        let read = |file: &str| {
            let places = [format!("/sys/fs/cgroup/cpu/{path}/{file}"), format!("/sys/fs/cgroup/cpu/{file}")];
            places.iter().map(|place| text(place)).find(|t| !t.is_empty()).unwrap_or_default()
        };
        let quota = read("cpu.cfs_quota_us");
        return if quota.is_empty() || quota == "-1" {
            String::new()
        } else {
            format!("{quota} {}", read("cpu.cfs_period_us"))
        };
    }
    let path = path(str::is_empty).unwrap_or_default();
    let limit = [format!("/sys/fs/cgroup/{path}/cpu.max"), "/sys/fs/cgroup/cpu.max".to_owned()]
        .iter()
        .map(|place| text(place))
        .find(|t| !t.is_empty())
        .unwrap_or_default();
    if limit.starts_with("max") { String::new() } else { limit }
}

/// Share of CPU time that the host took away, from the first line of `/proc/stat`.
fn steal(stat: &str) -> f64 {
    share(ticks(stat))
}

/// Ticks that the host took away, and all of them.
fn ticks(stat: &str) -> [f64; 2] {
    let line = stat.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; guests are counted in user.
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).take(8).map(|n| n.parse().unwrap_or(0.0)).collect();
    [ticks.get(7).copied().unwrap_or(0.0), ticks.iter().sum()]
}

fn share([stolen, all]: [f64; 2]) -> f64 {
    if all > 0.0 { stolen / all } else { 0.0 }
}

/// What the machine's account of stolen time stands at.
pub(crate) fn steal_ticks() -> [f64; 2] {
    ticks(&text("/proc/stat"))
}

/// Share of CPU time that the host took away since.
pub(crate) fn steal_since(before: [f64; 2]) -> f64 {
    let now = steal_ticks();
    share([now[0] - before[0], now[1] - before[1]])
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The CPUs that this process may use.
///
/// # Errors
/// The kernel does not tell.
pub fn cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read which CPUs are ours")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// The same by cores: CPUs that share one are together.
///
/// # Errors
/// The kernel does not tell.
pub fn cores() -> Result<Vec<Vec<usize>>> {
    Ok(by_core(&cpus()?, |cpu| {
        text(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
    }))
}

/// CPUs by what names their core; one whose core has no name is a core of its own.
fn by_core(cpus: &[usize], core: impl Fn(usize) -> String) -> Vec<Vec<usize>> {
    let mut cores: Vec<(String, Vec<usize>)> = Vec::new();
    for &cpu in cpus {
        let name = core(cpu);
        match cores.iter_mut().find(|(other, _)| !name.is_empty() && *other == name) {
            Some((_, together)) => together.push(cpu),
            None => cores.push((name, vec![cpu])),
        }
    }
    cores.into_iter().map(|(_, together)| together).collect()
}

/// Who has which CPUs at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSplit {
    /// The server under test.
    pub server: Vec<usize>,
    /// Generator and origin.
    pub generator: Vec<usize>,
}

impl CpuSplit {
    /// Divides the CPUs of `cores`, or says why they do not suffice.
    ///
    /// The first cores are the server's, one for each worker, and what else runs on a core of its own would count as the server's
    /// speed: the second threads of these cores stay idle, or at a point of hyper-threading have workers, too.
    ///
    /// # Errors
    /// The server wants more than there are, or threads that these cores do not have.
    pub fn divide(placement: Placement, point: &Point, cores: &[Vec<usize>]) -> Result<Self, String> {
        let workers = usize::from(point.workers);
        if point.hyper_threading && !cores.iter().all(|threads| threads.len() > 1) {
            return Err("the cores of this machine have one thread each".to_owned());
        }
        if placement == Placement::Packed {
            let last: Vec<usize> =
                cores.last().and_then(|threads| threads.last()).copied().into_iter().collect();
            return Ok(Self { server: last.clone(), generator: last });
        }
        let Some((own, rest)) = cores.split_at_checked(workers) else {
            let (noun, there) = match cores.iter().any(|threads| threads.len() > 1) {
                true => ("cores", cores.len()),
                false => ("CPUs", cores.len()),
            };
            return Err(format!("{workers} workers want {workers} {noun}, and this machine has {there}"));
        };
        let threads = if point.hyper_threading { usize::MAX } else { 1 };
        let server: Vec<usize> = own.iter().flat_map(|core| core.iter().copied().take(threads)).collect();
        let generator: Vec<usize> = if rest.is_empty() { server.clone() } else { rest.concat() };
        Ok(Self { server, generator })
    }

    /// Whether server and generator take CPU time from each other.
    #[must_use]
    pub fn shared(&self) -> bool {
        self.server == self.generator
    }
}

/// Runs `start` with this thread on `cpus`: a program that it starts stays there.
///
/// # Errors
/// The CPUs cannot be had; what `start` fails with.
pub fn on<T>(cpus: &[usize], start: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None).context("cannot read which CPUs are ours")?;
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPUs {cpus:?}"))?;
    let done = start();
    sched_setaffinity(None, &before).context("cannot return to all CPUs")?;
    done
}

/// As many descriptors as the system grants, for everything that is started from here on.
///
/// # Errors
/// The limit cannot be raised to what it may be.
pub fn raise_descriptors() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })
        .context("cannot raise the limit of descriptors")?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_all_time() {
        assert_eq!(steal("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1 1"), 0.1);
        assert_eq!(steal(""), 0.0);
    }

    #[test]
    fn cpus_are_divided() {
        let divide = |placement, workers| {
            CpuSplit::divide(placement, &at(workers, false), &by_core(&[0, 1, 2], |_| String::new()))
        };
        let split = divide(Placement::Split, 2).unwrap();
        assert_eq!((split.server.as_slice(), split.generator.as_slice()), (&[0, 1][..], &[2][..]));
        assert!(!split.shared());
        assert!(divide(Placement::Split, 3).unwrap().shared());
        assert!(divide(Placement::Packed, 3).unwrap().shared());
        let why = divide(Placement::Split, 4).unwrap_err();
        assert!(why.contains("this machine has 3"), "{why}");
    }

    fn at(workers: u16, hyper_threading: bool) -> Point {
        Point {
            mode: crate::scenario::Mode::Http,
            keepalive: true,
            size: "1k".into(),
            workers,
            rate: None,
            streams: None,
            closes_behind: false,
            hyper_threading,
        }
    }

    #[test]
    fn cores_have_threads() {
        // As Linux often numbers them: the second threads come after all the first.
        let cores = by_core(&[0, 1, 2, 3, 4, 5], |cpu| format!("{},{}", cpu % 3, cpu % 3 + 3));
        assert_eq!(cores, [[0, 3], [1, 4], [2, 5]]);
        let divide = |workers, both| CpuSplit::divide(Placement::Split, &at(workers, both), &cores);
        let one_each = divide(2, false).unwrap();
        assert_eq!((one_each.server, one_each.generator), (vec![0, 1], vec![2, 5]));
        let both = divide(2, true).unwrap();
        assert_eq!((both.server, both.generator), (vec![0, 3, 1, 4], vec![2, 5]));
        assert!(divide(4, false).unwrap_err().contains("4 cores, and this machine has 3"));
        let plain = CpuSplit::divide(Placement::Split, &at(1, true), &by_core(&[0, 1], |_| String::new()));
        assert!(plain.unwrap_err().contains("one thread each"));
    }

    #[test]
    fn a_started_program_stays_where_it_was_put() {
        let cpu = *cpus().unwrap().last().unwrap();
        let output =
            on(&[cpu], || Ok(std::process::Command::new("cat").arg("/proc/self/status").output()?)).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().any(|l| l == format!("Cpus_allowed_list:\t{cpu}")), "{text}");
        assert!(!cpus().unwrap().is_empty());
    }
}
