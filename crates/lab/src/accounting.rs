//! What a server used, by the kernel's own accounts.
//!
//! Owns: CPU time (schedstat) and memory (smaps_rollup) of a process with all its threads and children.
//! Never: samples: both are exact counts, read before and after.
//! Driven by: `generator` and `idle`, around each measurement; `servers`, at a server's start.
//! Why: the first field of `/proc/PID/task/TID/schedstat` is the time on a core in nanoseconds; utime and stime are sampled in ticks.

use std::collections::HashMap;
use std::fs;

/// CPU time of every thread, by thread id, in nanoseconds.
#[derive(Debug, Default)]
pub struct Cpu(HashMap<u32, u64>);

impl Cpu {
    /// Reads the accounts of `pid`, its children and theirs. Kernel threads that serve a ring are threads of the process.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self::of_processes(&family(pid))
    }

    /// Reads the accounts of these processes, which [`family`] finds.
    #[must_use]
    pub fn of_processes(pids: &[u32]) -> Self {
        let mut threads = HashMap::new();
        for process in pids {
            for thread in entries(&format!("/proc/{process}/task")) {
                let path = format!("/proc/{process}/task/{thread}/schedstat");
                let time = fs::read_to_string(path).ok();
                if let Some(time) = time.and_then(|t| t.split_ascii_whitespace().next()?.parse().ok()) {
                    threads.insert(thread, time);
                }
            }
        }
        Self(threads)
    }

    /// Takes over what `earlier` says of threads that have ended since.
    #[must_use]
    pub fn with_ended(mut self, earlier: Self) -> Self {
        for (thread, time) in earlier.0 {
            self.0.entry(thread).or_insert(time);
        }
        self
    }

    /// Nanoseconds since `before`. A thread that began since counts whole; one that ended since is lost, and servers here keep theirs.
    #[must_use]
    pub fn since(&self, before: &Self) -> u64 {
        self.0
            .iter()
            .map(|(thread, now)| now.saturating_sub(before.0.get(thread).copied().unwrap_or(0)))
            .sum()
    }
}

/// Proportional memory of `pid` with its children, in bytes: pages that a master and its workers share count once.
#[must_use]
pub fn memory(pid: u32) -> u64 {
    proportional(pid, |text| field(text, "Pss:"))
}

/// The same without pages of files: another process of the same program, such as a generator, takes its part in those.
#[must_use]
pub fn own_memory(pid: u32) -> u64 {
    proportional(pid, |text| {
        if text.contains("Pss_Anon:") {
            field(text, "Pss_Anon:") + field(text, "Pss_Shmem:")
        } else {
            // Linux before 5.4.
            field(text, "Pss:")
        }
    })
}

fn proportional(pid: u32, kilobytes: fn(&str) -> u64) -> u64 {
    let texts =
        family(pid).into_iter().filter_map(|p| fs::read_to_string(format!("/proc/{p}/smaps_rollup")).ok());
    texts.map(|text| kilobytes(&text)).sum::<u64>() * 1024
}

/// Context switches of these processes so far, wanted and unwanted. Threads that have ended are lost.
#[must_use]
pub fn switches(pids: &[u32]) -> u64 {
    pids.iter()
        .flat_map(|pid| entries(&format!("/proc/{pid}/task")).map(move |thread| (*pid, thread)))
        .filter_map(|(pid, thread)| fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok())
        .flat_map(|text| {
            ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| field(&text, name))
        })
        .sum()
}

/// The most memory that each of these processes has had at once, summed, in bytes. Pages that they share count for each.
#[must_use]
pub fn memory_peak(pids: &[u32]) -> u64 {
    pids.iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .map(|text| field(&text, "VmHWM:") * 1024)
        .sum()
}

/// The memory that these processes have at this moment, summed, in bytes. Pages that they share count for each.
#[must_use]
pub fn resident(pids: &[u32]) -> u64 {
    pids.iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .map(|text| field(&text, "VmRSS:") * 1024)
        .sum()
}

/// The number after `name` at the start of a line; 0 for none.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// `pid` and all its descendants.
#[must_use]
pub fn family(pid: u32) -> Vec<u32> {
    let parents: HashMap<u32, u32> = entries("/proc").filter_map(|p| Some((p, parent(p)?))).collect();
    let belongs = |mut p: u32| loop {
        if p == pid {
            return true;
        }
        match parents.get(&p) {
            Some(&up) if up != 0 => p = up,
            _ => return false,
        }
    };
    parents.keys().copied().filter(|&p| belongs(p)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces; the state and the parent follow the last one.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn entries(dir: &str) -> impl Iterator<Item = u32> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_accounted_and_children_belong() {
        let me = std::process::id();
        let before = Cpu::of(me);
        let sum = (0..20_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        std::hint::black_box(sum);
        assert!(Cpu::of(me).since(&before) > 1_000_000);
        let worked = Cpu::of(me);
        let so_far = worked.since(&before);
        assert_eq!(Cpu::default().with_ended(worked).since(&before), so_far, "whoever ended counts on");
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(family(me).contains(&child.id()));
        assert!(memory(me) > 100 << 10);
        assert!((100 << 10..=memory(me)).contains(&own_memory(me)));
        assert!(memory_peak(&[me]) > 100 << 10);
        assert!((100 << 10..=memory_peak(&[me])).contains(&resident(&[me])));
        assert!(switches(&[me]) > 0);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
