//! The stores of the cache's zones.
//!
//! Owns: one store for each zone of the plan, taken over by name as long as folder and levels stay.
//! Driven by: [`super::prepared`], when a plan is prepared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_cache::{Levels, Pace, Settings, Store};
use weir_plan::Plan;
use weir_plan::settings::{CachePace, CacheZone};

use crate::worker::shared::Shared;

/// Bytes of a zone that one name counts for, as in nginx's documentation: a megabyte holds about 8,000.
const OF_NAME: u64 = 128;

/// The stores that are open.
#[derive(Default)]
pub(crate) struct Caches(Mutex<HashMap<Box<str>, Arc<Store>>>);

/// The stores of a plan's zones, by index.
pub(crate) fn caches_for(shared: &Arc<Shared>, plan: &Plan) -> Vec<Arc<Store>> {
    let mut open = shared.caches.0.lock().unwrap_or_else(PoisonError::into_inner);
    let stores: Vec<_> =
        plan.cache_zones.iter().map(|zone| (Box::from(&*zone.name), store(shared, &open, zone))).collect();
    *open = stores.iter().cloned().collect();
    stores.into_iter().map(|(_, store)| store).collect()
}

fn store(shared: &Arc<Shared>, open: &HashMap<Box<str>, Arc<Store>>, zone: &CacheZone) -> Arc<Store> {
    let settings = settings(zone);
    if let Some(same) = open.get(&*zone.name).filter(|store| store.is_at(&settings)) {
        same.tune(settings);
        return same.clone();
    }
    let shared = Arc::downgrade(shared);
    Store::open(settings, move |told| {
        if let Some(shared) = shared.upgrade() {
            shared.log_process_error(&format!("cache: {told}"));
        }
    })
}

fn settings(zone: &CacheZone) -> Settings {
    Settings {
        path: zone.path.clone(),
        levels: Levels::parse(&zone.levels).unwrap_or_default(),
        keys: usize::try_from(zone.size / OF_NAME).unwrap_or(usize::MAX),
        max_size: zone.max_size,
        min_free: zone.min_free,
        inactive: zone.inactive,
        manager: pace(zone.manager),
        loader: zone.loader.map(pace),
        purger: zone.purger.map(pace),
    }
}

fn pace(pace: CachePace) -> Pace {
    let CachePace { files, sleep, threshold } = pace;
    Pace { files: usize::try_from(files).unwrap_or(usize::MAX), sleep, threshold }
}
