//! HTTP on the client's side.

pub(crate) mod connection;
pub(crate) mod h1;
