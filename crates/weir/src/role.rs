//! Which part of Weir this process is.
//!
//! Owns: starting ourselves again as another part, and knowing in that process which one.
//! Never: takes a part from the command line, where a person could write it by mistake.
//! Driven by: `lib::main`, `life::daemon`, `keeper::child`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// What a person started.
    Front,
    /// Detached: reports on standard input (a pipe) that it serves, or ends.
    Daemon,
    /// Under a keeper: standard input is the channel.
    Plane,
    /// Looks up names for a keeper.
    Resolver,
}

const VARIABLE: &str = "WEIR_ROLE";

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Daemon => "daemon",
            Self::Plane => "data-plane",
            Self::Resolver => "resolver",
        }
    }

    /// This process's part.
    pub(crate) fn of_this_process() -> Self {
        let word = std::env::var(VARIABLE).unwrap_or_default();
        let parts = [Self::Daemon, Self::Plane, Self::Resolver];
        parts.into_iter().find(|role| role.word() == word).unwrap_or(Self::Front)
    }

    /// A command that starts this same program file as another part, shown as `title` in lists of processes.
    pub(crate) fn command(self, title: &str) -> Command {
        // The link leads to the file that runs, even when a newer one took its place.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(title);
        self.of_command(&mut command);
        command
    }

    /// Gives a command this part, and nothing that was meant for the process that starts it.
    pub(crate) fn of_command(self, command: &mut Command) {
        // Of sockets that are handed over, the process that starts others has taken its own.
        command.env_remove("NGINX");
        match self {
            Self::Front => command.env_remove(VARIABLE),
            part => command.env(VARIABLE, part.word()),
        };
    }
}

/// Names this process after the program it stands for: `start-stop-daemon --name` compares this.
pub(crate) fn name_process(name: &str) {
    // The kernel keeps fifteen bytes.
    let short: String = name.chars().take(15).collect();
    if let Ok(name) = CString::new(short) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Takes the descriptor that was handed over as standard input, and puts /dev/null in its place.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(fd)
}
