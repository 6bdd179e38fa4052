//! Finding a running server and sending it a signal.
//!
//! Owns: pid file to process id, and the words of what went wrong.
//! Driven by: `nginx -s`, `weir reload`.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::life::pid_file;

/// The process id in a file, or nginx's words for why there is none.
pub(super) fn pid_in(path: &Path) -> Result<i32, String> {
    pid_file::read(path).map_err(|error| match error.raw_os_error() {
        Some(code) => {
            format!("open() \"{}\" failed ({code}: {})", path.display(), Errno::from_raw(code).desc())
        }
        None => error.to_string(),
    })
}

/// Sends a signal, or says in nginx's words why not.
pub(super) fn send(pid: i32, signal: Signal) -> Result<(), String> {
    kill(Pid::from_raw(pid), signal).map_err(|error| {
        format!("kill({pid}, {}) failed ({}: {})", signal as i32, error as i32, error.desc())
    })
}
