//! Files as the system has them: opened under rules about links, held in memory or open.
//!
//! Owns: files and objects of the cache that one worker holds.
//! Never: knows requests; the file action does.
//! Driven by: the file action, candidates, index files, listings.

mod cache;
mod objects;
pub(crate) mod open;
pub(crate) mod remembered;

pub(crate) use cache::{Content, FileCache, Found, Head, StaticFile, Way};
pub(crate) use objects::{Held, Objects};
