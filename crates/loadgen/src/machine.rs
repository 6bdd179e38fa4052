//! What the machine says about the generator itself.
//!
//! Owns: CPU time and run delay of threads, steal, throttling by control groups.
//! Never: fails: where the kernel does not tell, zero is told.
//! Driven by: workers (their own time), `run` (the machine's).

use std::fs::read_to_string;
use std::path::PathBuf;

/// CPU time of one thread, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    pub(crate) cpu: u64,
    /// Time that it was ready to run and waited for a CPU.
    pub(crate) run_delay: u64,
}

impl ThreadTime {
    /// Of the calling thread, so far (schedstat; see the kernel's sched-stats.rst).
    pub(crate) fn now() -> Self {
        let text = read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().unwrap_or_default());
        Self { cpu: numbers.next().unwrap_or_default(), run_delay: numbers.next().unwrap_or_default() }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            run_delay: self.run_delay.saturating_sub(before.run_delay),
        }
    }
}

/// The machine at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Machine {
    /// Ticks of all CPUs together, and those that the host took.
    ticks: u64,
    stolen: u64,
    /// Time that our control group was stopped, seconds.
    throttled_s: f64,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let (ticks, stolen) = steal(&stat);
        Self { ticks, stolen, throttled_s: throttled() }
    }

    /// The share of CPU time that was stolen since `before`, 0 to 1.
    pub(crate) fn steal_since(&self, before: &Self) -> f64 {
        let ticks = self.ticks.saturating_sub(before.ticks);
        if ticks == 0 { 0.0 } else { self.stolen.saturating_sub(before.stolen) as f64 / ticks as f64 }
    }

    /// Seconds of throttling since `before`.
    pub(crate) fn throttled_since(&self, before: &Self) -> f64 {
        (self.throttled_s - before.throttled_s).max(0.0)
    }
}

/// All ticks and stolen ones, from the first line of /proc/stat (proc(5)): the first eight columns, of which the eighth is
/// steal; guests are counted in user time already.
fn steal(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let columns: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).map(|n| n.parse().unwrap_or_default()).collect();
    (columns.iter().sum(), columns.get(7).copied().unwrap_or_default())
}

/// Seconds of throttling of our control group and its parents so far; the most of any.
fn throttled() -> f64 {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut most = 0.0_f64;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            list if list.split(',').any(|one| one == "cpu") => "/sys/fs/cgroup/cpu,cpuacct",
            _ => continue,
        };
        let mut folder = PathBuf::from(root);
        folder.push(path.trim_start_matches('/'));
        while folder.starts_with(root) {
            let text = read_to_string(folder.join("cpu.stat")).unwrap_or_default();
            most = most.max(throttled_s(&text));
            if !folder.pop() {
                break;
            }
        }
    }
    most
}

/// From a cpu.stat: version 2 tells microseconds, version 1 nanoseconds.
fn throttled_s(text: &str) -> f64 {
    let number = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap_or_default()
    };
    number("throttled_usec ") / 1e6 + number("throttled_time ") / 1e9
}

/// CPUs that this process may run on.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        assert_eq!(steal("cpu  10 0 20 60 5 0 1 4 9 9\ncpu0 1"), (100, 4));
        assert!((throttled_s("nr_throttled 3\nthrottled_usec 1500000\n") - 1.5).abs() < 1e-9);
        assert!((throttled_s("nr_throttled 3\nthrottled_time 2000000000\n") - 2.0).abs() < 1e-9);
        let before = Machine { ticks: 100, stolen: 1, throttled_s: 1.0 };
        let after = Machine { ticks: 300, stolen: 21, throttled_s: 1.5 };
        assert!((after.steal_since(&before) - 0.1).abs() < 1e-9);
        assert!((after.throttled_since(&before) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_threads_own_time_grows() {
        let before = ThreadTime::now();
        let mut n = 0_u64;
        let deadline = std::time::Instant::now() + std::time::Duration::from_millis(20);
        while std::time::Instant::now() < deadline {
            n = std::hint::black_box(n.wrapping_mul(31).wrapping_add(1));
        }
        assert!(ThreadTime::now().since(before).cpu > 0);
    }
}
