//! What the data plane says about itself: counters, latency, logs.
//!
//! Owns: per-worker cells and their sums, histograms, the Prometheus text, log lines' way to files and syslog.
//! Never: makes a worker wait: no lock, no shared cache line and no disk between a request and its count or its line.
//! Driven by: `engine` (counts, lines), `admin` (sums, text), the binary (reopen, flush, end).
//! Why: figures are worth having only if having them costs next to nothing; so each worker writes its own, and who
//! wants to know adds them up.
#![forbid(unsafe_code)]

pub mod count;
pub mod log;
pub mod otlp;
pub mod prometheus;
pub mod protobuf;

pub use count::{
    AttemptEnd, AttemptPhases, AttemptTimes, BackCells, BackKey, Counter, Detail, EventCells, FrontCells,
    FrontKey, Gauge, Registry, WorkerCells,
};
pub use log::{
    BufferOptions, ErrorLog, HubOptions, Level, LogBuffer, LogClock, LogHub, LogTarget, Stamp, TargetSpec,
};
