//! What workers and side threads agree on: ids and snapshots.
//!
//! Owns: the stable ids under which running state is kept, what was changed since a configuration was read, and the plain
//! figures that a process gives of itself.
//! Never: reads a clock, opens a socket, renders text, knows a plan's type.
//! Driven by: `engine`, which fills a snapshot; `admin`, which shows it.
//! Why: state that outlives a configuration (counters, health, drains) needs names that outlive it too; those
//! names live in the smallest crate, so that balancing, telemetry and the admin pages agree on them.
#![forbid(unsafe_code)]

pub mod changes;
pub mod ids;
pub mod keyvals;
pub mod lists;
pub mod memory;
pub mod requests;
pub mod sessions;
pub mod snapshot;
mod spot;
pub mod totals;
pub mod zones;

pub use changes::{AdminState, Change, Changes};
pub use ids::{ConnectionId, EndpointKey, ListenerId, PoolId, RouteId, SiteId, WorkerId, ZoneId};
pub use requests::Requests;
pub use snapshot::Snapshot;
pub use spot::Spot;
pub use totals::Totals;
pub use zones::Zones;
