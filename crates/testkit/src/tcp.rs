//! A TCP service for stream tests: it sends back what it gets, after saying its name.
//!
//! Owns: a listening socket and its echoes.
//! Never: speaks HTTP.
//! Driven by: tests of TCP balancing.

use crate::origin::Origin;
use crate::script::Script;

/// An origin that echoes until the peer closes.
#[must_use]
pub fn echo() -> Origin {
    Origin::script(Script::echo)
}

/// An origin that says `name` and a newline, then echoes: balancing becomes visible.
#[must_use]
pub fn named_echo(name: &str) -> Origin {
    Origin::script(|c| c.send(format!("{name}\n")).echo())
}
