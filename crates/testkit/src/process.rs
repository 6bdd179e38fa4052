//! Processes that cannot outlive their handle.
//!
//! Owns: a child in a process group of its own, what it prints, its end.
//! Never: waits without a deadline; ends a process it did not start.
//! Driven by: `Proxy`, `programs`, the demo and the benchmark.

use crate::deadline::{Deadline, patience};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

pub use rustix::process::Signal as UnixSignal;

/// A running child. Dropping it kills the whole process group.
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    text: Mutex<String>,
    /// Told when the text grew, or one of its sources ended.
    grew: Condvar,
    /// Sources that have not ended.
    open: AtomicU8,
}

impl Output {
    /// Waits for the end of all sources, but not for children that hold them open.
    fn wait_for_end(&self) {
        let deadline = Deadline::after(LEFT_OVER);
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        while self.open.load(Acquire) > 0 {
            let Some(left) = deadline.left() else { return };
            (text, _) = self.grew.wait_timeout(text, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How long after a process's end its last words may still be on their way to us.
const LEFT_OVER: Duration = Duration::from_secs(2);

impl Process {
    /// Starts `command` with no input, and collects what it prints on both outputs.
    ///
    /// # Errors
    /// When it cannot be started: usually because it is not installed.
    pub fn spawn(command: Command) -> std::io::Result<Self> {
        Self::spawn_reading(command, Stdio::null())
    }

    /// As [`spawn`](Self::spawn), with `input` as its standard input: a socket that it takes over, say.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_reading(mut command: Command, input: impl Into<Stdio>) -> std::io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let output = Arc::new(Output::default());
        collect(child.stdout.take(), &output);
        collect(child.stderr.take(), &output);
        Ok(Self { name, child, output })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process itself (not to its children).
    ///
    /// # Panics
    /// When it is gone already.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let sent = kill_process(Pid::from_child(&self.child), signal);
        assert!(sent.is_ok(), "{} is gone:\n{}", self.name, self.printed());
    }

    /// What it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        self.output.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until what it prints contains `text`.
    ///
    /// # Panics
    /// When that does not happen before the deadline.
    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        let deadline = Deadline::standard();
        let mut printed = self.output.text.lock().unwrap_or_else(PoisonError::into_inner);
        while !printed.contains(text) {
            let Some(left) = deadline.left() else {
                panic!("{} never printed `{text}`:\n{printed}", self.name)
            };
            (printed, _) =
                self.output.grew.wait_timeout(printed, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Its exit status, if it has ended; what it printed is then all here.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.output.wait_for_end();
        Some(status)
    }

    /// Waits for its end; `None` when the deadline passes first.
    pub fn wait(&mut self, deadline: Deadline) -> Option<ExitStatus> {
        if let Ok(fd) = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            && let Some(left) = deadline.left()
        {
            let limit = left.try_into().ok();
            // Becomes readable when the process ends; a failure shows in `ended` below.
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], limit.as_ref());
        }
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if !deadline.look_again() {
                return None;
            }
        }
    }

    /// Sends `signal` and fails the test unless it then exits with status 0.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn expect_clean_exit(&mut self, signal: Signal) {
        self.signal(signal);
        match self.wait(Deadline::standard()) {
            Some(status) => {
                assert!(status.success(), "{} ended with {status}:\n{}", self.name, self.printed())
            }
            None => panic!("{} still runs {:?} after {signal:?}:\n{}", self.name, patience(), self.printed()),
        }
    }
}

fn collect(source: Option<impl Read + Send + 'static>, output: &Arc<Output>) {
    let (Some(source), output) = (source, Arc::clone(output)) else { return };
    output.open.fetch_add(1, AcqRel);
    std::thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            output
                .text
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(&String::from_utf8_lossy(&line));
            output.grew.notify_all();
            line.clear();
        }
        // Under the lock, so that nobody who looked before misses it.
        let _text = output.text.lock().unwrap_or_else(PoisonError::into_inner);
        output.open.fetch_sub(1, AcqRel);
        output.grew.notify_all();
    });
}

impl Drop for Process {
    fn drop(&mut self) {
        // The leader may have been reaped while children live on, so the group goes first, and always.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn(command).unwrap()
    }

    #[test]
    fn output_and_end_are_seen() {
        let mut p = shell("echo hello; echo oops >&2; exit 3");
        p.wait_for_output("hello");
        p.wait_for_output("oops");
        assert_eq!(p.wait(Deadline::standard()).and_then(|s| s.code()), Some(3));
    }

    #[test]
    fn a_signal_ends_it() {
        let mut p = shell("trap 'exit 0' TERM; echo up; while :; do read -r _ < /dev/zero & wait; done");
        p.wait_for_output("up");
        p.expect_clean_exit(Signal::TERM);
    }

    #[test]
    fn children_die_with_the_handle() {
        let p = shell("sleep 1000 & echo child $!; wait");
        p.wait_for_output("child ");
        let text = p.printed();
        let child: u32 = text.trim().rsplit(' ').next().unwrap().parse().unwrap();
        drop(p);
        crate::eventually("the grandchild to be gone", || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        });
    }
}
