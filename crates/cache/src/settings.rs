//! Settings of a store.
//!
//! Owns: what an operator says of it.
//! Driven by: whoever opens a store, or tunes it.

use std::path::PathBuf;
use std::time::Duration;

use crate::key::Levels;

/// How fast a side thread works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Files in one go.
    pub files: usize,
    /// Longest time of one go.
    pub threshold: Duration,
    /// Pause between two.
    pub sleep: Duration,
}

/// Settings of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folder.
    pub path: PathBuf,
    /// Folders inside it.
    pub levels: Levels,
    /// Most entries of the index.
    pub keys: usize,
    /// Most bytes of files; the manager removes what was not used for the longest.
    pub max_size: Option<u64>,
    /// Bytes that are to be free in the file system.
    pub min_free: u64,
    /// What was not used for this long is removed.
    pub inactive: Duration,
    /// The manager's.
    pub manager: Pace,
    /// The loader's; `None`: it goes on without a pause.
    pub loader: Option<Pace>,
    /// Of whoever removes the files of what was purged; `None`: it goes on without a pause.
    pub purger: Option<Pace>,
}

impl Settings {
    /// Most entries of one of so many parts of the index.
    pub(crate) fn most_in(&self, parts: usize) -> u64 {
        self.keys.div_ceil(parts).max(1) as u64
    }
}
