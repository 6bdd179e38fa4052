//! What workers and side threads say to one another: ids, commands and snapshots.
//!
//! Owns: the stable ids under which running state is kept, the commands a worker takes, the plain figures it gives.
//! Never: reads a clock, opens a socket, renders text, knows a plan's type.
//! Driven by: the control threads (admin, reload, health), which send; `engine`, which obeys and reports.
//! Why: state that outlives a configuration (counters, health, drains) needs names that outlive it too; those
//! names live in the smallest crate, so that balancing, telemetry and the admin pages agree on them.
#![forbid(unsafe_code)]

pub mod command;
pub mod ids;
pub mod snapshot;

pub use command::{Command, Event, WorkerReport};
pub use ids::{ConnectionId, EndpointKey, ListenerId, PlanVersion, PoolId, SiteId, WorkerId};
pub use snapshot::Snapshot;
