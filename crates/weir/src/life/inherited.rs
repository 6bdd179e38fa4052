//! Descriptors that whoever started us meant for us.
//!
//! Owns: telling them from those that were merely left open, and taking up listening sockets among them.
//! Never: keeps a listening socket from being taken up again: the descriptor itself stays open.
//! Driven by: `life::start`, before anything else is open, and once the configuration is known; `life::sockets`.
//! Why: which sockets a haproxy.cfg names (`fd@`) is known only once it is read. Until then no listening socket is closed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{SocketType, sockopt};
use weir_model::{Address, Model};

use crate::launch::Launch;

/// The first descriptor of sd_listen_fds(3).
const FIRST: RawFd = 3;

/// Those that were taken up, and so are marked like our own.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Whether descriptor `number` is one that a service manager passes on, that the command line names as a file, or that the
/// configuration may name: not known yet, every listening socket; known, those that the model names.
pub(crate) fn is_wanted(launch: &Launch, model: Option<&Model>, number: RawFd) -> bool {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let ours = variable("LISTEN_PID").is_some_and(|pid| i64::from(pid) == i64::from(std::process::id()));
    let passed = variable("LISTEN_FDS").filter(|_| ours).unwrap_or(0);
    (FIRST..FIRST.saturating_add(passed)).contains(&number)
        || launch.sourcing.paths.iter().any(|path| is_descriptor(path, number))
        || match model {
            None => weir_rt::confine::with_inherited(number, listens).unwrap_or(false),
            Some(model) => named(model).contains(&number),
        }
}

/// Descriptors that a model listens on.
fn named(model: &Model) -> BTreeSet<RawFd> {
    let number = |address: &Address| match address {
        Address::Inherited(number) => Some(*number),
        _ => None,
    };
    let control = model.process.control.iter().map(|one| &one.address);
    model.listeners.iter().map(|listener| &listener.address).chain(control).filter_map(number).collect()
}

/// A further descriptor of the listening socket that was handed over as `number`. It is not handed on to other programs.
pub(crate) fn listener(number: RawFd) -> io::Result<OwnedFd> {
    weir_rt::confine::with_inherited(number, |fd| {
        if !listens(fd) {
            return Err(io::Error::other("it is no listening stream socket"));
        }
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = fcntl_getfd(fd)?;
        // All of our own are marked.
        if flags.contains(FdFlags::CLOEXEC) && !taken.contains(&number) {
            return Err(io::Error::from(rustix::io::Errno::BADF));
        }
        fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?;
        taken.insert(number);
        rustix::io::ioctl_fionbio(fd, true)?;
        fd.try_clone_to_owned()
    })?
}

fn listens(fd: BorrowedFd<'_>) -> bool {
    let stream = sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM);
    stream && sockopt::socket_acceptconn(fd).unwrap_or(false)
}

/// `<(command)` of a shell is a file of this kind.
fn is_descriptor(path: &Path, number: RawFd) -> bool {
    ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path == Path::new(folder).join(number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Manner, Sourcing};

    #[test]
    fn a_file_that_is_a_descriptor_is_wanted() {
        let sourcing = Sourcing { paths: vec!["/dev/fd/63".into()], ..Sourcing::default() };
        let launch = Launch::new(Manner::Weir, sourcing);
        assert!(
            is_wanted(&launch, None, 63) && !is_wanted(&launch, None, 60) && !is_wanted(&launch, None, 61)
        );
    }
}
