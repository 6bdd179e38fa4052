//! Caching of upstreams' answers.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A zone of the cache: where objects are, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheZone {
    /// Name.
    pub name: String,
    /// Folder (`proxy_cache_path`).
    pub path: PathBuf,
    /// Letters that each level of folders takes, such as `1:2`; empty: all files are in one folder.
    pub levels: String,
    /// Bytes for names in memory; bounds their number (`keys_zone`).
    pub size: u64,
    /// Most bytes of files.
    pub max_size: Option<u64>,
    /// Bytes that are to stay free in the file system.
    pub min_free: u64,
    /// What was not used for this long is removed.
    pub inactive: Duration,
    /// How fast objects are removed (`manager_*`).
    pub manager: CachePace,
    /// How fast the folder is read at the start (`loader_*`); `None`: as fast as it goes.
    pub loader: Option<CachePace>,
    /// How fast files of purged objects are removed (`purger_*`); `None`: as fast as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purger: Option<CachePace>,
}

/// A cache that is in memory only, and that rules look things up in (HAProxy `cache`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCache {
    /// Name.
    pub name: String,
    /// Most bytes of all responses (`total-max-size`).
    pub total: u64,
    /// Most bytes of one (`max-object-size`).
    pub object: u64,
    /// Longest time for which a response is used, and the time for one that does not say how long (`max-age`).
    pub max_age: Duration,
    /// Most responses of one name, where some that vary are kept (`process-vary`, `max-secondary-entries`).
    pub variants: Option<usize>,
}

/// How fast a side thread works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachePace {
    /// Files in one go.
    pub files: u64,
    /// Pause between two.
    pub sleep: Duration,
    /// Longest time of one.
    pub threshold: Duration,
}

impl Default for CachePace {
    /// nginx's.
    fn default() -> Self {
        Self { files: 100, sleep: Duration::from_millis(50), threshold: Duration::from_millis(200) }
    }
}

/// What is cached, for how long, and when what is too old is used all the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheSettings {
    /// POST is cached, too; GET and HEAD always are (`proxy_cache_methods`).
    pub post: bool,
    /// Ask with GET where the client asked with HEAD (`proxy_cache_convert_head`).
    pub convert_head: bool,
    /// Requests for a name before its answer is stored (`proxy_cache_min_uses`).
    pub min_uses: u64,
    /// How long answers are fresh that do not say so themselves; the first that fits (`proxy_cache_valid`).
    pub valid: Vec<CacheValid>,
    /// When an answer that is too old is used (`proxy_cache_use_stale`).
    pub stale: CacheStale,
    /// One request fetches, the others wait (`proxy_cache_lock`).
    pub lock: bool,
    /// So long they wait; then they ask on their own, and what they get is not stored.
    pub lock_timeout: Duration,
    /// So long the one may take before another asks as well.
    pub lock_age: Duration,
    /// An old answer is used while a request of our own fetches a new one (`proxy_cache_background_update`).
    pub background_update: bool,
    /// Old answers are asked about with conditions (`proxy_cache_revalidate`).
    pub revalidate: bool,
    /// Ranges that begin behind this byte are passed on, and not stored (`proxy_cache_max_range_offset`).
    pub max_range_offset: Option<u64>,
}

impl Default for CacheSettings {
    /// nginx's.
    fn default() -> Self {
        Self {
            post: false,
            convert_head: true,
            min_uses: 1,
            valid: Vec::new(),
            stale: CacheStale::default(),
            lock: false,
            lock_timeout: Duration::from_secs(5),
            lock_age: Duration::from_secs(5),
            background_update: false,
            revalidate: false,
            max_range_offset: None,
        }
    }
}

/// How long answers with some statuses are fresh.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheValid {
    /// The statuses; empty: any.
    pub statuses: Vec<u16>,
    /// How long; zero: they are not stored.
    pub time: Duration,
}

/// In which cases an answer that is too old is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheStale {
    /// No endpoint could be reached, or it broke off.
    pub error: bool,
    /// An endpoint was too slow.
    pub timeout: bool,
    /// An endpoint's head was no head.
    pub invalid_header: bool,
    /// A new one is being fetched.
    pub updating: bool,
    /// An endpoint answered with one of these.
    pub statuses: Vec<u16>,
}
