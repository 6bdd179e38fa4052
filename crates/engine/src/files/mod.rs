//! Files as the system has them: opened under rules about links, held in memory or open.
//!
//! Owns: the cache of one worker.
//! Never: knows requests; the file action does.
//! Driven by: the file action, candidates, index files, listings.

mod cache;
pub(crate) mod open;

pub(crate) use cache::{FileCache, Found, Head, StaticFile, Way};
