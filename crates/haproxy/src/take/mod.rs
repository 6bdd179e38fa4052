//! Lines into a draft: one function for each keyword that is built.
//!
//! Owns: what a line's arguments mean.
//! Never: asks where a keyword may stand, or how many arguments it takes; `sections` did.
//! Driven by: `sections`, through the entries of `table`.

pub(crate) mod checks;
pub(crate) mod global;
pub(crate) mod logs;
pub(crate) mod options;
pub(crate) mod proxy;
pub(crate) mod removed;
pub(crate) mod rules;
pub(crate) mod stats;
pub(crate) mod sticks;
pub(crate) mod timeouts;
