//! What a runtime is asked for, and what it was given.
//!
//! Owns: the settings of a [`Runtime`](crate::Runtime), the names of its drivers.
//! Never: opens a driver.
//! Driven by: `runtime`, which steps down from one driver to the next, and `uring`, which does so from flag to flag.

use std::fmt;

/// Which driver to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring if the kernel grants it, else epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// What is called with the message of a task's panic.
pub type PanicHook = Box<dyn Fn(&str)>;

/// Settings of a [`Runtime`](crate::Runtime).
pub struct RuntimeConfig {
    /// The driver.
    pub io: IoChoice,
    /// Submission entries of the ring (64 to 32,768, rounded up to a power of two); more are submitted in batches.
    pub entries: u32,
    /// Called with the message of each panic of a spawned task.
    pub on_panic: Option<PanicHook>,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self { io: IoChoice::Auto, entries: 1024, on_panic: None }
    }
}

/// Set-up flags of the ring in use (see io_uring_setup(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UringFlags {
    /// IORING_SETUP_SINGLE_ISSUER, Linux 6.0.
    pub single_issuer: bool,
    /// IORING_SETUP_DEFER_TASKRUN, Linux 6.1.
    pub defer_taskrun: bool,
    /// IORING_SETUP_COOP_TASKRUN, Linux 5.19.
    pub coop_taskrun: bool,
    /// IORING_SETUP_TASKRUN_FLAG, Linux 5.19.
    pub taskrun_flag: bool,
}

impl fmt::Display for UringFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.single_issuer, "single_issuer"),
            (self.defer_taskrun, "defer_taskrun"),
            (self.coop_taskrun, "coop_taskrun"),
            (self.taskrun_flag, "taskrun_flag"),
        ];
        let mut names = all.iter().filter(|(on, _)| *on).map(|(_, name)| *name).peekable();
        if names.peek().is_none() {
            return f.write_str("no flags");
        }
        for (i, name) in names.enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

/// The driver in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring with these flags.
    Uring(UringFlags),
    /// Edge-triggered epoll.
    Epoll,
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Driver::Uring(flags) => write!(f, "io_uring ({flags})"),
            Driver::Epoll => f.write_str("epoll"),
        }
    }
}
