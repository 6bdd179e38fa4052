//! Limits that a configuration sets: on requests, connections, totals and slowness.
//!
//! Owns: nginx's `limit_req` and `limit_conn` zones, HAProxy's stick tables, quotas of the process, the minimum rate of request bodies.
//! Never: waits out a delay, answers a client; it gives verdicts.
//! Driven by: the exchange on workers, through `Arc`s that outlive a plan.
//! Why: a limit that a user set is the process's, whatever the number of workers, so these are the few places where
//! workers meet: zones behind 16 mutexes by key, quotas on one atomic. Neither is touched unless configured.

mod body_rate;
mod conn;
mod pace;
mod quota;
mod rate;
mod stick;
mod table;

pub use body_rate::{BodyRate, BodyRateConfig};
pub use conn::{ConnGuard, ConnZone};
pub use pace::Pace;
pub use quota::Quota;
pub use rate::{RateDelay, RateLimit, RateRefusal, RateRule, RateVerdict, RateZone};
pub use stick::{Key as StickTableKey, StickEntry, StickRow, StickTable, StickValue, Tracked};
