//! The caches in memory.
//!
//! Owns: one for each that the plan names, taken over by name with all that is in it.
//! Never: looks into one.
//! Driven by: [`super::prepared`], when a plan is prepared; whoever shows them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_cache::{Bounds, Keepable as _, Key, Memory};
use weir_control::memory as shown;
use weir_plan::{Plan, settings};

use crate::files::remembered::Remembered;

/// A cache in memory.
pub(crate) type MemoryCache = Memory<Remembered>;

/// The caches that are there, by name.
#[derive(Default)]
pub(crate) struct Memories(Mutex<HashMap<Box<str>, Arc<MemoryCache>>>);

impl Memories {
    /// Those of a plan, by index.
    pub(crate) fn of(&self, plan: &Plan) -> Vec<Arc<MemoryCache>> {
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memories: Vec<_> = plan
            .memory_caches
            .iter()
            .map(|cache| {
                let bounds = bounds(cache);
                let memory = there.get(&*cache.name).cloned();
                memory.as_ref().inspect(|memory| memory.tune(bounds));
                memory.unwrap_or_else(|| Arc::new(Memory::new(bounds)))
            })
            .collect();
        let names = plan.memory_caches.iter().map(|cache| Box::from(&*cache.name));
        *there = names.zip(memories.iter().cloned()).collect();
        memories
    }

    /// Empties all.
    pub(crate) fn clear(&self) {
        let there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        there.values().for_each(|memory| memory.clear());
    }
}

fn bounds(cache: &settings::MemoryCache) -> Bounds {
    Bounds { total: cache.total, object: cache.object, variants: cache.variants.unwrap_or(1) }
}

/// A cache and what is in it, for whoever shows it.
pub(crate) fn show(name: &str, memory: &MemoryCache) -> shown::MemoryCache {
    let now = weir_rt::unix_now().as_secs();
    let number = |text: &[u8]| {
        let [a, b, c, d, ..] = *Key::of(text).bytes();
        u32::from_le_bytes([a, b, c, d])
    };
    let mut responses: Vec<_> = memory
        .list()
        .into_iter()
        .map(|(name, response)| shown::MemoryResponse {
            hash: number(&name),
            variant: response.variant.number(),
            size: response.size(),
            // One is in the cache, one is here.
            users: Arc::strong_count(&response).saturating_sub(2),
            expires_in: response.expires().saturating_sub(now),
        })
        .collect();
    responses.sort_by_key(|response| (response.hash, response.variant));
    let total = memory.bounds().total;
    shown::MemoryCache { name: name.to_owned(), total, used: memory.size(), responses }
}
