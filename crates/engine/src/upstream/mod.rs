//! Towards endpoints: choosing, connecting, keeping connections.
//!
//! Owns: the kept connections of a worker, the way from a target to an open connection, the verdict on failures.
//! Never: speaks HTTP or FastCGI; actions do.
//! Driven by: `action::proxy`, `action::fastcgi`, `tcp`.

mod connect;
pub(crate) mod dns;
pub(crate) mod health;
mod picker;
pub(crate) mod sticky;
mod target;

pub(crate) use connect::{ConnectFailure, ConnectSettings, local_address, open};
pub(crate) use picker::{Picked, Picker, Refusal};
pub(crate) use target::resolve;
