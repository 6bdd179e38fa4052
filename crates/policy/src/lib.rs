//! Decisions of the data plane that need neither a socket nor a clock.
//!
//! Owns: balancing, endpoint and health state, retry rules, limits, the bookkeeping of kept connections.
//! Never: reads a clock, draws its own randomness, opens a socket, waits, names a runtime.
//! Driven by: `engine` on the workers, `admin` and health checks on side threads. Types appear in `plan`.
//! Why: the rules that users rely on are the ones most worth testing, and a function of its arguments is testable.
#![forbid(unsafe_code)]
// A length that is cut off is a length that a peer chose: each cast that could do so says why it does not.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod budget;
pub mod hash;
pub mod health;
pub mod idle;
pub mod limit;
pub mod names;
pub mod outlier;
pub mod pool;
pub mod retry;
mod rng;
mod time;

pub use rng::SplitMix;
pub use time::{Millis, millis};
