//! Instructions that a server takes, where the machine counts them.
//!
//! Owns: `perf stat` beside a run.
//! Never: estimates: a machine without counters has no such figures.
//! Driven by: `generator`.
//! Why: an instruction is an instruction, however busy the machine is.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the environment says where they are counted.
pub const COUNTED: &str = "counted";

/// Milliseconds between two counts.
const INTERVAL_MS: &str = "50";

/// Whether this machine counts instructions; else the reason, for people.
///
/// # Errors
/// It does not.
pub fn counted() -> Result<(), String> {
    let output = Command::new("perf").args(["stat", "-x,", "-e", "instructions", "--", "true"]).output();
    let Ok(output) = output else { return Err("perf is not on this machine".into()) };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|l| l.contains("instructions"));
    match line.and_then(|l| l.split(',').next()) {
        Some(count) if count.parse::<u64>().is_ok() => Ok(()),
        Some(why) => Err(format!("perf says {why}")),
        None => Err(format!("perf says: {}", text.trim())),
    }
}

/// Counts of processes, while it lives.
pub(crate) struct Counter {
    perf: Child,
    begun: f64,
    printed: Option<JoinHandle<String>>,
}

impl Counter {
    /// Begins to count.
    pub(crate) fn start(pids: &[u32]) -> std::io::Result<Self> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut perf = Command::new("perf")
            .args(["stat", "-x,", "-I", INTERVAL_MS, "-e", "instructions", "-p", &pids.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let printed = perf.stderr.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = out.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Self { perf, begun, printed })
    }

    /// Ends, and tells how many there had been at each moment (seconds since 1970).
    pub(crate) fn end(mut self) -> Vec<(f64, f64)> {
        let _ = self.perf.kill();
        let _ = self.perf.wait();
        let text = self.printed.take().and_then(|t| t.join().ok()).unwrap_or_default();
        sums(&text, self.begun)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// Lines such as `     0.050123456,123456,,instructions,50000000,100.00,,` summed up.
fn sums(text: &str, begun: f64) -> Vec<(f64, f64)> {
    let mut sum = 0.0;
    let mut all = vec![(begun, 0.0)];
    for line in text.lines().filter(|l| l.contains("instructions")) {
        let mut parts = line.trim().split(',');
        let (Some(at), Some(count)) = (parts.next(), parts.next()) else { continue };
        let (Ok(at), Ok(count)) = (at.trim().parse::<f64>(), count.trim().parse::<f64>()) else { continue };
        sum += count;
        all.push((begun + at, sum));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_prints_is_summed_up() {
        let text = "     0.050100000,1000,,instructions,50000000,100.00,1.2,insn per cycle\n\
                    # a remark\n     0.100200000,500,,instructions:u,50000000,100.00,,\n\
                    0.150000000,<not counted>,,instructions,0,100.00,,\n";
        assert_eq!(sums(text, 10.0), [(10.0, 0.0), (10.0501, 1000.0), (10.1002, 1500.0)]);
    }

    #[test]
    fn machines_without_counters_say_why() {
        if let Err(why) = counted() {
            assert!(why.contains("perf"), "{why}");
        }
    }
}
