//! Detaching from the terminal.
//!
//! Owns: starting ourselves again in the background, and the pipe on which that process says that it serves.
//! Never: lets the parent exit 0 before the ports are bound: scripts take that as "it runs".
//! Driven by: `life::start`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{ExitCode, Stdio};

use crate::launch::Manner;
use crate::role::{Role, take_stdin};

/// Starts the background process, and waits until it serves or ends. It prints why by itself.
pub(crate) fn detach() -> io::Result<ExitCode> {
    let (mut ready, write) = io::pipe()?;
    let arguments: Vec<_> = std::env::args_os().collect();
    let title = arguments.first().map_or_else(|| "weir".into(), |first| first.to_string_lossy());
    let mut command = Role::Daemon.command(&title);
    command.args(arguments.get(1..).unwrap_or_default()).stdin(Stdio::from(OwnedFd::from(write)));
    let mut child = command.spawn()?;
    // Our copy of the writing end must go, or its end is never seen.
    drop(command);
    let mut told = [0];
    if ready.read(&mut told)? == 1 {
        return Ok(ExitCode::SUCCESS);
    }
    let code = child.wait()?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1).max(1)))
}

/// The background process's end of the pipe.
pub(crate) struct Ready {
    pipe: File,
}

impl Ready {
    /// Takes the pipe from standard input and leaves the terminal's session. In HAProxy's manner what is logged to
    /// standard output is lost from here on, as there.
    pub(crate) fn begin(manner: Manner) -> io::Result<Self> {
        if manner == Manner::Haproxy {
            rustix::stdio::dup2_stdout(nowhere()?)?;
        }
        let pipe = File::from(take_stdin()?);
        // Fails only for a leader of a group, which a fresh child is not.
        let _ = nix::unistd::setsid();
        Ok(Self { pipe })
    }

    /// Tells the parent that we serve, and leaves its outputs; standard error stays where there is no other for it.
    pub(crate) fn tell(mut self, stderr: Option<&File>) -> io::Result<()> {
        rustix::stdio::dup2_stdout(nowhere()?)?;
        if let Some(stderr) = stderr {
            rustix::stdio::dup2_stderr(stderr)?;
        }
        self.pipe.write_all(b"0")
    }
}

/// What keeps nothing.
pub(crate) fn nowhere() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}
