//! Descriptors that whoever started us meant for us.
//!
//! Owns: telling them from those that were merely left open, taking up listening sockets among them, and where those of a service
//! manager listen.
//! Never: keeps a listening socket from being taken up again: the descriptor itself stays open.
//! Driven by: `life::start`, before anything else is open, and once the configuration is known; `life::sockets`.
//! Why: which sockets a haproxy.cfg names (`fd@`) is known only once it is read. Until then no listening socket is closed.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{SocketType, sockopt};
use weir_diag::Diagnostic;
use weir_model::{Address, Model};
use weir_rt::{PeerAddr, listen_addr};

use super::upgrade;
use crate::launch::{Launch, Manner};

/// The first descriptor of sd_listen_fds(3).
const FIRST: RawFd = 3;

/// Those that were taken up, and so are marked like our own.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Whether descriptor `number` is one that a service manager passes on, that the command line names as a file, or that the
/// configuration may name: not known yet, every listening socket; known, those that the model names.
pub(crate) fn is_wanted(launch: &Launch, model: Option<&Model>, number: RawFd) -> bool {
    handed_over().contains(&number)
        || launch.manner == Manner::Nginx && upgrade::given().contains(&number)
        || launch.sourcing.paths.iter().any(|path| is_descriptor(path, number))
        || launch.master_socket.as_deref().and_then(of_master) == Some(number)
        || match model {
            None => weir_rt::confine::with_inherited(number, listens).unwrap_or(false),
            Some(model) => named(model).contains(&number),
        }
}

/// The descriptors that a service manager passes on to this process (sd_listen_fds(3)).
fn handed_over() -> Range<RawFd> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let ours = variable("LISTEN_PID").is_some_and(|pid| i64::from(pid) == i64::from(std::process::id()));
    let passed = variable("LISTEN_FDS").filter(|_| ours).unwrap_or(0);
    FIRST..FIRST.saturating_add(passed.max(0))
}

/// A descriptor that a service manager opened for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Its number.
    pub(crate) number: RawFd,
    /// Where it listens; nothing if it is no listening stream socket.
    pub(crate) address: Option<Address>,
}

/// What a service manager passes on, in its order.
pub(crate) fn passed() -> Vec<Passed> {
    handed_over().map(|number| Passed { number, address: address_of(number) }).collect()
}

fn address_of(number: RawFd) -> Option<Address> {
    let address = |fd: BorrowedFd<'_>| if listens(fd) { listen_addr(fd).ok() } else { None };
    match weir_rt::confine::with_inherited(number, address).ok()?? {
        PeerAddr::Inet(address) => Some(Address::Tcp(address)),
        PeerAddr::Unix(path) => path.map(Address::Unix),
    }
}

/// What to say of those that nothing listens on: what connects to them waits for ever.
pub(crate) fn unused(passed: &[Passed], model: &Model) -> Vec<Diagnostic> {
    let by_number = named(model);
    let control = model.process.control.iter().map(|one| &one.address);
    let by_address: Vec<&Address> =
        model.listeners.iter().map(|listener| &listener.address).chain(control).collect();
    let used = |one: &Passed| {
        by_number.contains(&one.number) || one.address.as_ref().is_some_and(|at| by_address.contains(&at))
    };
    let say = |one: &Passed| {
        let what = match &one.address {
            Some(address) => format!("a listening socket at {address}"),
            None => "a descriptor that is no listening stream socket".into(),
        };
        let title = format!(
            "the service manager passed {what} (LISTEN_FDS, number {}), and nothing uses it",
            one.number
        );
        Diagnostic::warning("process::socket-unused", title)
            .help("clients that connect there get no answer: let a listener have exactly this address, or take it out of the socket unit")
    };
    passed.iter().filter(|one| !used(one)).map(say).collect()
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

/// The descriptor that `-S` names, if it does.
fn of_master(written: &str) -> Option<i32> {
    written.split(',').next()?.strip_prefix("fd@")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Sourcing;

    #[test]
    fn a_file_that_is_a_descriptor_is_wanted() {
        let sourcing = Sourcing { paths: vec!["/dev/fd/63".into()], ..Sourcing::default() };
        let launch = Launch::new(Manner::Weir, sourcing);
        assert!(
            is_wanted(&launch, None, 63) && !is_wanted(&launch, None, 60) && !is_wanted(&launch, None, 61)
        );
    }
}
