//! HTTP on the client's side.

pub(crate) mod connection;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h3;
mod head;
mod idle;
mod lane;
mod pace;
mod request;
mod stream;
