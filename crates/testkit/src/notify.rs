//! The service manager's side of sd_notify.
//!
//! Owns: a datagram socket that a program finds in `NOTIFY_SOCKET`.
//! Never: talks back; the protocol has no answers.
//! Driven by: `Proxy`, which learns from it when a start or a reload is done.
//! Why: readiness is an event. Connecting until it works would add connections to counters under test.

use crate::deadline::Deadline;
use std::cell::RefCell;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Collects what a program tells its service manager.
pub struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
    /// Assignments received and not yet waited for, in order.
    unread: RefCell<Vec<String>>,
}

impl NotifySocket {
    /// Listens at `dir/notify`.
    ///
    /// # Errors
    /// When the socket cannot be made there.
    pub fn bind(dir: &Path) -> io::Result<Self> {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path)?;
        // A program that gave up root still tells its state.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        Ok(Self { socket, path, unread: RefCell::default() })
    }

    /// The value for `NOTIFY_SOCKET`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True once `assignment` (such as `READY=1`) was told; takes it and all that came before. Waits at most `wait`.
    pub fn told(&self, assignment: &str, wait: Duration) -> bool {
        let deadline = Deadline::after(wait);
        loop {
            let mut unread = self.unread.borrow_mut();
            if let Some(at) = unread.iter().position(|a| a == assignment) {
                unread.drain(..=at);
                return true;
            }
            drop(unread);
            let Some(left) = deadline.left() else { return false };
            self.receive(left);
        }
    }

    /// Forgets what was told so far, so that the next `told` is about what happens from now on.
    pub fn forget(&self) {
        while self.receive(Duration::from_micros(1)) {}
        self.unread.borrow_mut().clear();
    }

    fn receive(&self, wait: Duration) -> bool {
        let mut datagram = [0; 4096];
        let _ = self.socket.set_read_timeout(Some(wait));
        let Ok(n) = self.socket.recv(&mut datagram) else { return false };
        let text = String::from_utf8_lossy(&datagram[..n]).into_owned();
        self.unread.borrow_mut().extend(text.lines().map(str::to_owned));
        true
    }
}
