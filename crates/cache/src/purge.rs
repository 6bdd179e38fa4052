//! Removing all objects whose names begin alike.
//!
//! Owns: which beginnings are being removed, which were lately, the thread that goes through the files.
//! Never: keeps names in memory: they are read from the files.
//! Driven by: whoever purges; look-ups and writers ask whether a name is among them.
//! Why: the index knows digests, not names. So a purge holds at once for whoever asks, by its beginning, and its files go
//! one after another. A store that nobody purges pays one load of an atomic per look-up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::key::Key;
use crate::object;
use crate::record::Texts;
use crate::settings::Pace;
use crate::store::Store;

/// Most beginnings that are being removed at a time.
const MOST: usize = 256;
/// Most beginnings that are remembered for fetches that began before.
const LATELY: usize = 512;
/// Between two looks at a store whose files are still being found.
const AGAIN: Duration = Duration::from_millis(50);

/// The beginnings of a store.
#[derive(Default)]
pub(crate) struct Purges {
    /// There is one whose files are not gone yet.
    active: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Vec<Purge>,
    lately: VecDeque<(Box<[u8]>, Instant)>,
    /// The thread is at it.
    running: bool,
}

#[derive(Clone)]
struct Purge {
    beginning: Box<[u8]>,
    /// What is stored from this version on is newer.
    version: u32,
}

impl Purge {
    fn holds_for(&self, name: &[u8], version: u32) -> bool {
        // Versions go round; zero is what was found in the folder, and older than everything.
        let older = version == 0 || self.version.wrapping_sub(version) as i32 > 0;
        older && name.starts_with(&self.beginning)
    }
}

impl Purges {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing inside the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is stored with this version under this name is purged, and only its file is still there.
    fn has(&self, name: &[u8], version: u32) -> bool {
        self.active.load(Ordering::Acquire)
            && self.state().now.iter().any(|purge| purge.holds_for(name, version))
    }

    /// Whether anything was purged at this time or later.
    fn any_since(&self, began: Instant) -> bool {
        self.state().lately.back().is_some_and(|(_, at)| *at >= began)
    }

    /// Whether a name was purged at this time or later.
    fn was_purged(&self, name: &[u8], began: Instant) -> bool {
        self.state().lately.iter().any(|(beginning, at)| *at >= began && name.starts_with(beginning))
    }
}

impl Store {
    /// Removes all objects whose names begin with this. It holds at once; files go one after another. What is being fetched
    /// now is not stored either. False: too many purges are under way.
    pub fn purge(self: &Arc<Self>, beginning: &[u8], now: Instant) -> bool {
        let version = self.next_version();
        let begins = {
            let mut state = self.purges.state();
            state.now.retain(|purge| *purge.beginning != *beginning);
            if state.now.len() >= MOST {
                return false;
            }
            if state.lately.len() >= LATELY {
                state.lately.pop_front();
            }
            state.lately.push_back((beginning.into(), now));
            state.now.push(Purge { beginning: beginning.into(), version });
            self.purges.active.store(true, Ordering::Release);
            !std::mem::replace(&mut state.running, true)
        };
        if begins {
            self.start_purger();
        }
        true
    }

    /// Whether an object with this version is one that was purged; then it is dropped.
    pub fn is_purged(&self, key: &Key, name: &[u8], version: u32) -> bool {
        let purged = self.purges.has(name, version);
        if purged {
            self.let_go(key, version);
        }
        purged
    }

    /// Whether a finished file holds an object whose fetch began before its name was purged.
    pub(crate) fn is_too_late(&self, file: &std::path::Path, began: Instant) -> bool {
        self.purges.any_since(began) && name_in(file).is_none_or(|name| self.purges.was_purged(&name, began))
    }

    fn start_purger(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        let run = move || {
            while let Some(store) = weak.upgrade() {
                if store.is_cold() {
                    drop(store);
                    std::thread::sleep(AGAIN);
                } else if !store.purge_round() {
                    return;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("weir-cache-purge".into()).spawn(run) {
            self.purges.state().running = false;
            self.tell(&format!("purged files in {} stay for now: {error}", self.path.display()));
        }
    }

    /// Goes through all files for what is to be removed now. False: nothing is.
    fn purge_round(&self) -> bool {
        let purges = {
            let mut state = self.purges.state();
            if state.now.is_empty() {
                state.running = false;
                self.purges.active.store(false, Ordering::Release);
                return false;
            }
            state.now.clone()
        };
        let mut walk = Walk { pace: self.settings().purger, seen: 0, began: Instant::now() };
        for (key, version) in self.stored() {
            // What is newer than all of them needs no look.
            if purges.iter().any(|purge| purge.holds_for(&purge.beginning, version))
                && let Some(name) = name_in(&self.file_of(&key))
                && purges.iter().any(|purge| purge.holds_for(&name, version))
            {
                self.drop_if(&key, Some(version));
            }
            walk.pause();
        }
        // One that was asked for again meanwhile has another version, and stays.
        let done = |purge: &Purge| {
            purges.iter().any(|one| one.version == purge.version && one.beginning == purge.beginning)
        };
        self.purges.state().now.retain(|purge| !done(purge));
        true
    }
}

/// The name in the file of an object.
fn name_in(path: &std::path::Path) -> Option<Vec<u8>> {
    let file = object::open(path, false).ok()?;
    let length = file.metadata().ok()?.len();
    let (fixed, texts) = object::read_texts(&file, length).ok()??;
    Texts::name_of(&fixed, &texts).map(<[u8]>::to_vec)
}

/// A walk with pauses.
struct Walk {
    pace: Option<Pace>,
    seen: usize,
    began: Instant,
}

impl Walk {
    fn pause(&mut self) {
        self.seen += 1;
        let Some(pace) = self.pace else { return };
        if self.seen >= pace.files.max(1) || self.began.elapsed() >= pace.threshold {
            std::thread::sleep(pace.sleep);
            (self.seen, self.began) = (0, Instant::now());
        }
    }
}
