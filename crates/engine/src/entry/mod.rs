//! From an accepted connection to the protocol that serves it.

pub(crate) mod accept;
mod complaints;
mod datagrams;
mod handshake;
mod quic;
pub(crate) mod run;
