//! HTTP on the client's side.

pub(crate) mod connection;
pub(crate) mod h1;
pub(crate) mod h2;
mod head;
mod pace;
