//! What an exchange has to do with caches in memory.
//!
//! Owns: the name that it looked for, and what it found.
//! Never: looks or stores; `eval::memory` does.
//! Driven by: rules, and the walk, which answers with what was found.

use std::sync::Arc;

use weir_plan::MemoryCacheIx;

use crate::files::remembered::Remembered;

/// What an exchange has to do with caches in memory.
pub(crate) struct Looked {
    /// What all responses to requests for the same have the same.
    pub(crate) name: Vec<u8>,
    /// The response that is there, and in which cache.
    pub(crate) found: Option<(MemoryCacheIx, Arc<Remembered>)>,
    /// It was answered with.
    pub(crate) served: bool,
    /// Rules of a pool looked, not those of a site.
    pub(crate) for_pool: bool,
    /// So often they looked.
    pub(crate) times: u32,
}
