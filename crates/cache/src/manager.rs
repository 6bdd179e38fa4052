//! Keeping a store within its bounds.
//!
//! Owns: the thread for it.
//! Driven by: time, and whoever stores more than there is room for.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::bell::Bell;
use crate::index::BLOCK;
use crate::store::{Store, unix_now};

/// Longest time between two looks.
const ROUND: Duration = Duration::from_secs(10);

/// Starts the thread.
pub(crate) fn start(store: &Arc<Store>) {
    let (weak, bell) = (Arc::downgrade(store), store.bell.clone());
    let run = move || manage(&weak, &bell);
    if let Err(error) = std::thread::Builder::new().name("weir-cache-mgr".into()).spawn(run) {
        store.tell(&format!("nothing keeps {} within its bounds: {error}", store.path.display()));
    }
}

fn manage(store: &Weak<Store>, bell: &Bell) {
    let mut pause = Duration::ZERO;
    while bell.wait(pause) {
        let Some(store) = store.upgrade() else { return };
        pause = round(&store, bell);
    }
}

/// One go; how long to wait until the next.
fn round(store: &Store, bell: &Bell) -> Duration {
    bell.take_gone().iter().for_each(|key| store.unlink(key));
    let settings = store.settings();
    let (began, pace) = (Instant::now(), settings.manager);
    for _ in 0..pace.files.max(1) {
        if !evict_one(store, &settings) {
            let inactive = settings.inactive / 2;
            return inactive.clamp(Duration::from_secs(1), ROUND);
        }
        if began.elapsed() >= pace.threshold {
            break;
        }
    }
    pace.sleep
}

/// Removes one object too many; false if there is none.
fn evict_one(store: &Store, settings: &crate::Settings) -> bool {
    let before = unix_now().saturating_sub(settings.inactive.as_secs());
    if store.evict(|used| u64::from(used) < before) {
        return true;
    }
    let too_much = settings.max_size.is_some_and(|most| store.size() > most);
    (too_much || is_short(store, settings.min_free)) && store.size() > 0 && store.evict(|_| true)
}

/// Whether the file system has too little room.
fn is_short(store: &Store, min_free: u64) -> bool {
    min_free > 0
        && rustix::fs::statvfs(&store.path)
            .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize.max(BLOCK)) < min_free)
}
