//! Counters that one worker writes and anybody reads.
//!
//! Owns: cells, rates, averages, histograms, and the registry that keeps them by stable id.
//! Never: uses a locked instruction to count.
//! Driven by: workers, which hold `Arc`s of their own cells; `admin`, through [`Registry`].
//! Why: a cell has one writer, so a count is a plain load and store; a reader may lag by a moment, never lose a count.

mod cell;
mod codes;
mod events;
mod front_back;
mod histogram;
mod kept;
mod registry;
mod walk;
mod worker;

pub use cell::{Average, Counter, Gauge, Rate};
pub use codes::Codes;
pub use events::{EVENTS, EventCells};
pub use front_back::{
    AttemptEnd, AttemptPhases, AttemptTimes, BackCells, FrontCells, TlsCells, status_class,
};
pub use histogram::{Detail, Distribution, Histogram, PROMETHEUS_BOUNDS_US};
pub use registry::{BackKey, FrontKey, Registry, ZoneSum};
pub use worker::WorkerCells;
