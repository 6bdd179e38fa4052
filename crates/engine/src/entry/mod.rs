//! From an accepted connection to the protocol that serves it.

pub(crate) mod accept;
pub(crate) mod handshake;
