//! From an accepted connection to the protocol that serves it.

pub(crate) mod accept;
mod datagrams;
mod handshake;
pub(crate) mod run;
