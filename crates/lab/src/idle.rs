//! What a waiting connection costs a server in memory.
//!
//! Owns: having many connections opened and used once, and reading the server's memory before and after.
//! Never: counts what the kernel holds for sockets: it is the same for all. Nor pages of files: those of Weir's program are
//! shared with the process that holds the connections.
//! Driven by: `run`, with a fresh server for each reading (memory that was freed is not always given back).

use crate::accounting::own_memory;
use crate::machine::on;
use crate::servers::Running;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Opened and closed first, so that what a server sets up once is not counted.
const WARM_UP: u32 = 64;

/// Descriptors that client and server need besides.
pub(crate) const SPARE: u64 = 200;

/// Memory that changes longer than this is read as it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often memory is read while it changes.
const PAUSE: Duration = Duration::from_millis(200);

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Connections that waited.
    pub connections: u32,
    /// What each costs, bytes.
    pub bytes_each: f64,
}

/// Holds `count` connections to `server`, by the program `weir` on `cpus`.
///
/// # Errors
/// One cannot be opened; `stop` was set.
pub(crate) fn measure(
    weir: &Path,
    cpus: &[usize],
    server: &Running,
    scheme: &str,
    count: u32,
    stop: &AtomicBool,
) -> Result<Idle> {
    let url = format!("{scheme}://127.0.0.1:{}/0", server.port);
    let hold = |count: u32| Holder::start(weir, cpus, &url, count);
    hold(WARM_UP.min(count))?.end()?;
    let before = settled(server.pid(), stop)?;
    let holder = hold(count)?;
    let after = settled(server.pid(), stop)?;
    holder.end()?;
    Ok(Idle { connections: count, bytes_each: after.saturating_sub(before) as f64 / f64::from(count) })
}

/// `weir load hold`, which has said that it holds them; dropping it ends it.
struct Holder {
    child: Child,
}

impl Holder {
    fn start(weir: &Path, cpus: &[usize], url: &str, count: u32) -> Result<Self> {
        let mut command = Command::new(weir);
        command.args(["load", "hold", "-c", &count.to_string(), url]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = on(cpus, || command.spawn().with_context(|| format!("cannot run {}", weir.display())))?;
        let mut holder = Self { child };
        let mut line = String::new();
        let printed = holder.child.stdout.as_mut().context("its output is ours")?;
        BufReader::new(printed).read_line(&mut line)?;
        ensure!(line.starts_with("holding "), "connections cannot be held: {}", holder.complaint());
        Ok(holder)
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text.trim().to_owned()
    }

    /// Has it close them in good order.
    fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "weir load hold ended with {status}: {}", self.complaint());
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory once it no longer changes.
fn settled(pid: u32, stop: &AtomicBool) -> Result<u64> {
    let begun = Instant::now();
    let mut last = own_memory(pid);
    loop {
        // There is no signal for "nothing more is allocated"; two equal readings have to do.
        std::thread::sleep(PAUSE);
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let now = own_memory(pid);
        if now == last || begun.elapsed() > PATIENCE {
            return Ok(now);
        }
        last = now;
    }
}
