//! What each signal asks for.
//!
//! Owns: the table from (manner, signal) to [`Order`], and the descriptor that signals arrive on.
//! Never: runs code in a signal handler.
//! Driven by: `life::master`, which polls the descriptor beside its others.
//! Why: the same signal means different things to the users of nginx and of HAProxy (USR1 reopens logs in the one
//! and stops the other), and scripts, units and logrotate files rely on it.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::launch::{Launch, Manner};

/// What somebody asks of the running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Read the configuration again and change over.
    Reload,
    /// Open log files again.
    Reopen,
    /// Take no new connections, end when the old ones are done.
    Drain,
    /// As `Drain`, but only for a short while (`weir run`'s TERM and INT).
    DrainBriefly,
    /// End at once.
    Stop,
    /// Write a line about what is going on.
    Status,
    /// A child ended.
    Child,
    /// Start the program that stands in the place of this one's now, on the same sockets.
    Upgrade,
    /// Take no new connections, and go on without workers once the old ones are done.
    Retire,
    /// Known, and not built yet; the text says what.
    Later(&'static str),
}

/// Signals that are taken; all others keep their default meaning.
const TAKEN: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGCHLD,
];

/// Signals as a descriptor.
pub(crate) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks the taken signals in this thread, and so in all that it starts: call it before any thread exists.
    pub(crate) fn take() -> std::io::Result<Self> {
        let mask: SigSet = TAKEN.into_iter().collect();
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd })
    }

    /// The next signal that has arrived, if any.
    pub(crate) fn next(&self) -> Option<Signal> {
        let info = self.fd.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const NO_UPGRADE: &str =
    "`weir run` is not replaced by USR2 and WINCH; start it anew by its service manager; nothing was done";

/// What `signal` asks for in this launch.
pub(crate) fn order_of(launch: &Launch, signal: Signal) -> Order {
    match (launch.manner, signal) {
        (_, Signal::SIGCHLD) => Order::Child,
        (Manner::Weir, signal) => weir_order(signal),
        (Manner::Nginx, signal) => nginx_order(signal),
        (Manner::Haproxy, signal) => haproxy_order(launch.master_worker, signal),
    }
}

fn weir_order(signal: Signal) -> Order {
    match signal {
        Signal::SIGHUP => Order::Reload,
        Signal::SIGUSR1 => Order::Reopen,
        Signal::SIGQUIT => Order::Drain,
        Signal::SIGTERM | Signal::SIGINT => Order::DrainBriefly,
        Signal::SIGUSR2 | Signal::SIGWINCH => Order::Later(NO_UPGRADE),
        _ => Order::Status,
    }
}

/// See nginx.org/en/docs/control.html.
fn nginx_order(signal: Signal) -> Order {
    match signal {
        Signal::SIGHUP => Order::Reload,
        Signal::SIGUSR1 => Order::Reopen,
        Signal::SIGQUIT => Order::Drain,
        Signal::SIGTERM | Signal::SIGINT => Order::Stop,
        Signal::SIGUSR2 => Order::Upgrade,
        Signal::SIGWINCH => Order::Retire,
        _ => Order::Status,
    }
}

/// See HAProxy's management.txt, "Signals". A master takes USR2 and HUP as reload; without one HUP dumps a status.
fn haproxy_order(master_worker: bool, signal: Signal) -> Order {
    match signal {
        Signal::SIGUSR2 => Order::Reload,
        Signal::SIGHUP if master_worker => Order::Reload,
        Signal::SIGUSR1 => Order::Drain,
        Signal::SIGTERM | Signal::SIGINT => Order::Stop,
        Signal::SIGTTOU | Signal::SIGTTIN => Order::Later(
            "listeners are never paused for another process: sockets are shared; nothing was done",
        ),
        _ => Order::Status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usr1_means_two_things() {
        assert_eq!(nginx_order(Signal::SIGUSR1), Order::Reopen);
        assert_eq!(haproxy_order(true, Signal::SIGUSR1), Order::Drain);
    }

    #[test]
    fn haproxys_hup_depends_on_its_master() {
        assert_eq!(haproxy_order(true, Signal::SIGHUP), Order::Reload);
        assert_eq!(haproxy_order(false, Signal::SIGHUP), Order::Status);
        assert_eq!(haproxy_order(false, Signal::SIGUSR2), Order::Reload);
    }
}
