//! Waking a polling thread from another.
//!
//! Owns: an eventfd.
//! Driven by: `life::local`, `keeper::plane`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// See the module.
pub(crate) struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// A counter that is full already is as loud as can be.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Silent again; look at what it was rung for afterwards.
    pub(crate) fn reset(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
