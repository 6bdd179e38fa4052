//! The life of the process, from start to end.
//!
//! Owns: signals, ports, logs, pid file, reloads; in whichever of two shapes the data plane comes.
//! Never: carries traffic.
//! Driven by: `cli`, once a launch is known.
//!
//! ```text
//!   front ──daemon on──→ daemon ┐                          ┌─ Local: the data plane in this process
//!     └───────foreground────────┴─→ Master ── Supervised ──┤
//!                                                          └─ Keeper: the data plane in a child without rights
//! ```

pub(crate) mod bell;
pub(crate) mod control;
pub(crate) mod daemon;
pub(crate) mod error_log;
pub(crate) mod folders;
pub(crate) mod hand_over;
pub(crate) mod inherited;
pub(crate) mod limits;
pub(crate) mod local;
pub(crate) mod logs;
pub(crate) mod master;
pub(crate) mod master_cli;
pub(crate) mod notify;
pub(crate) mod pid_file;
pub(crate) mod places;
pub(crate) mod privileges;
pub(crate) mod reload;
pub(crate) mod signals;
pub(crate) mod sockets;
pub(crate) mod start;
pub(crate) mod supervised;
mod upgrade;
