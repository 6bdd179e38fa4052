//! Several machines in one test.
//!
//! Owns: the conversation between who leads a run and the agents that take part.
//! Never: lets anybody command an agent who does not know its token; runs a script that the agent's owner did not allow.
//! Driven by: `weir load agent` ([`Agents`]), `weir load --agents` ([`lead()`]).
//!
//! ```text
//!   agent -> leader   Hello { version, nonce }
//!   leader -> agent   Job, and HMAC-SHA-256(token, nonce || job)
//!   agent -> leader   Ready, once its connections are open; or Failed
//!   leader -> agent   Go, once all are ready
//!   agent -> leader   Tick, each second; at last Report
//!   leader -> agent   its end of the stream, to stop the run: the agent reports what it has
//! ```
//!
//! Each message is a length (four bytes, big-endian) and JSON. The token itself never travels. Nothing is encrypted: what
//! is measured, and where, can be read on the way.

mod lead;
mod serve;
mod wire;

pub use lead::{Agency, LeadWatch, lead};
pub use serve::{AgentOptions, Agents};
pub(crate) use wire::fuzz;

/// The port of agents, where none is given.
pub const PORT: u16 = 9190;
