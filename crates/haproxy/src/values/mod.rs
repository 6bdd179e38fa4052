//! Values as haproxy.cfg writes them: times, sizes, addresses.
//!
//! Owns: their grammar.
//! Never: resolves a name, or decides what a value is for.
//! Driven by: `take`.

pub(crate) mod address;
pub(crate) mod network;
pub(crate) mod size;
pub(crate) mod time;

pub(crate) use address::{Address, Family, Host, Port};
