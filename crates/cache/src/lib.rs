//! Stores of responses: objects in files with an index in memory, and objects that are in memory only.
//!
//! Owns: the format of the files and their place in the folder, the index, eviction, the threads that read and write.
//! Never: speaks HTTP, judges what may be stored or used, waits for a disk in the thread that asks.
//! Driven by: `engine`, whose workers share one [`Store`] per zone.
//! Why: a request is served by a look at the index and, if the worker does not hold the object already, one read by a
//! thread of the store. A disk that is stuck makes the store refuse work; it stops nobody.
//!
//! ```text
//!   worker ── look_up ──> index (shards, in memory)           no system call
//!          ── load ──> threads ──> file ──> Object ──> worker  threads of the store
//!          ── Write ─> threads ──> temporary file ──> rename ──> index
//!   manager: size, free space, age          loader: fills the index when the process starts
//! ```

#![forbid(unsafe_code)]

mod bell;
mod index;
mod key;
mod loader;
mod manager;
mod memory;
mod object;
mod open;
mod pending;
mod purge;
mod record;
mod settings;
mod store;
mod temporary;
mod writer;

pub use index::Lookup;
pub use key::{Key, Levels};
pub use memory::{Bounds, Coming, Keepable, Memory};
pub use object::{Body, Loaded, Object};
pub use pending::Fill;
pub use record::Meta;
pub use settings::{Pace, Settings};
pub use store::Store;
pub use writer::Writer;

#[cfg(test)]
mod tests;
