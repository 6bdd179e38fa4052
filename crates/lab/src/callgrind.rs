//! Instructions a request by valgrind's callgrind, where the processor counts none.
//!
//! Owns: running a contender under callgrind, and what a request adds to its count.
//! Never: is measured in time: a server is some fifty times slower there.
//! Driven by: `run`, for scenarios that ask for instructions.
//! Why: what starting and opening connections takes is in every count, so two counts of different length are subtracted.
//!
//! Instructions of the kernel are not in it. Valgrind knows no io_uring: Weir runs with its epoll driver.

use crate::servers::Running;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// Seconds of load of the two counts.
pub(crate) const SECONDS: [f64; 2] = [1.0, 3.0];

/// Whether valgrind is on this machine.
#[must_use]
pub fn is_here() -> bool {
    let version = Command::new("valgrind").arg("--version").stdin(Stdio::null()).output();
    version.is_ok_and(|output| output.status.success())
}

/// The same command under callgrind.
pub(crate) fn under(command: &Command) -> Command {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"]);
    counted.arg(command.get_program()).args(command.get_args()).env("WEIR_IO", "epoll");
    if let Some(dir) = command.get_current_dir() {
        counted.current_dir(dir);
    }
    counted
}

/// Instructions a request: `start` starts the server anew, `load` asks it for so many seconds and tells how often.
///
/// # Errors
/// What they fail with; the server does not end, or has counted nothing.
pub(crate) fn per_request(
    mut start: impl FnMut() -> Result<Running>,
    mut load: impl FnMut(&mut Running, f64) -> Result<u64>,
) -> Result<f64> {
    let mut count = |seconds: f64| -> Result<(f64, f64)> {
        let mut server = start()?;
        let loaded = load(&mut server, seconds);
        // A server that ended explains it better.
        server.check()?;
        let requests = loaded?;
        let printed = server.end()?;
        let collected = collected(&printed).context("valgrind told no count")?;
        Ok((collected as f64, requests as f64))
    };
    let (short, long) = (count(SECONDS[0])?, count(SECONDS[1])?);
    ensure!(long.1 > short.1 && long.0 > short.0, "more time made no more requests");
    Ok((long.0 - short.0) / (long.1 - short.1))
}

/// The counts of all processes: `==123== Collected : 456`.
fn collected(printed: &str) -> Option<u64> {
    let counts: Vec<u64> = printed
        .lines()
        .filter_map(|line| line.split_once("Collected : "))
        .filter_map(|(_, count)| count.trim().parse().ok())
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_processes_are_summed() {
        let printed =
            "==7== Events    : Ir\n==7== Collected : 1200\nbye\n==8== Collected : 34\n==8== I refs: 1,234\n";
        assert_eq!(collected(printed), Some(1234));
        assert_eq!(collected("nothing"), None);
    }
}
