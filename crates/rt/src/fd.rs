//! A socket's descriptor, shared by its handle and the operations in flight on it.
//!
//! Owns: the close. Never: closes while the kernel may still look at the number.
//! Driven by: `Stream`, `Listener`, and ring operations.
//! Why: a queued ring operation names a descriptor by number; were it closed before submission, the operation would
//! hit whatever reuses the number.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

#[derive(Clone)]
pub(crate) struct SharedFd(Rc<OwnedFd>);

impl SharedFd {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(Rc::new(fd))
    }

    pub(crate) fn try_unwrap(self) -> Result<OwnedFd, Self> {
        Rc::try_unwrap(self.0).map_err(Self)
    }
}

impl AsFd for SharedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SharedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
