//! What is in the caches in memory at one moment.
//!
//! Owns: the figures that `show cache` is rendered from.
//! Driven by: `engine`, which fills them; `admin`, which renders them.

/// A cache in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCache {
    /// Name.
    pub name: String,
    /// Most bytes.
    pub total: u64,
    /// Bytes in use.
    pub used: u64,
    /// What is in it.
    pub responses: Vec<MemoryResponse>,
}

/// A response in a cache in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryResponse {
    /// Stands for its name.
    pub hash: u32,
    /// Stands for what it varies by; 0: it does not.
    pub variant: u64,
    /// Bytes.
    pub size: u64,
    /// Exchanges that send it now.
    pub users: usize,
    /// Seconds for which it is still used.
    pub expires_in: u64,
}
