//! Log lines: their times, their escapes, their way out.
//!
//! Owns: second-by-second time texts, escaping, per-worker buffers, the writer threads, the error log.
//! Never: makes a worker wait for a disk or a reader; lines that cannot go are dropped, counted and told once.
//! Driven by: `engine` (access lines), everybody (error lines), the binary (reopen at USR1, flush at the end).
//! Why: a full disk or a stalled pipe must cost log lines, not requests.
//!
//! ```text
//!  worker: LogBuffer ──batch──▶ queue (bounded in bytes) ──▶ writer thread ──▶ file, FIFO, syslog, ring ──▶ a thread a server
//!                                                        └─▶ a thread of its own ──▶ stderr
//! ```

mod buffer;
mod clock;
mod error;
mod escape;
mod hub;
mod pool;
mod ring;
mod syslog;
mod target;

pub use buffer::{BufferOptions, LogBuffer};
pub use clock::{LogClock, Stamp};
pub use error::{ErrorLog, Level};
pub use escape::{escape_default, escape_json};
pub use hub::{HubOptions, LogHub, Notify, Opener};
pub use pool::{HashStep, LogBalance, PoolServer, PoolSpec, PoolWay};
pub use ring::{Ring, RingServer, RingSpec, StreamAddress};
pub use syslog::{Facility, Severity, SyslogAddress, SyslogForm, SyslogHeader};
pub use target::{LogTarget, TargetSpec};
