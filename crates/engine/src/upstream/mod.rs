//! Towards endpoints: choosing, connecting, asking.
//!
//! Owns: the way from a target to an endpoint that answered: one loop of attempts for all protocols, and the protocols.
//! Never: answers a client; actions do.
//! Driven by: the actions that ask endpoints, TCP services, the health checks.

mod assigned;
mod attempt;
mod cgi;
mod connect;
mod datagram;
pub(crate) mod fastcgi;
mod guard;
pub(crate) mod health;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod memcached;
pub(crate) mod names;
mod observe;
mod picker;
pub(crate) mod request;
pub(crate) mod stapling;
pub(crate) mod stick;
pub(crate) mod sticky;
pub(crate) mod target;

pub(crate) use attempt::{Answered, Attempts, Failed, LeaseEnd, Opened, Protocol, Reach, Stop, Unanswered};
pub(crate) use connect::{ConnectFailure, ConnectSettings, open};
pub(crate) use datagram::{DatagramPeer, DatagramReach};
pub(crate) use target::{Resolved, resolve};
