//! The store of one zone.
//!
//! Owns: the shards of the index with what is under way in them, the sum of sizes, versions, settings.
//! Never: waits for a disk in a caller's thread.
//! Driven by: workers, which look up, load and write; the loader and the manager.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_rt::SideThreads;

use crate::bell::Bell;
use crate::index::{BLOCK, Index, Left, Lookup};
use crate::key::{Key, Levels};
use crate::object::{self, Loaded};
use crate::pending::{Fill, Pending, Written};
use crate::purge::Purges;
use crate::record::{Fixed, Meta, Texts};
use crate::settings::Settings;
use crate::temporary::Temporary;

/// Parts of the index.
const SHARDS: usize = 32;
/// Most threads that wait for the disk.
const THREADS: usize = 4;
/// Most of all that waits for them, while a read is wanted.
const READS: usize = 1024;
/// Most of all that waits for them.
pub(crate) const WRITES: usize = 64 << 10;

/// A part of the index, and what is under way in it.
#[derive(Default)]
pub(crate) struct Shard {
    pub(crate) index: Index,
    pub(crate) pending: Pending,
}

/// Stores so far.
static STORES: AtomicU64 = AtomicU64::new(0);

/// A store.
pub struct Store {
    id: u64,
    settings: Mutex<Settings>,
    /// Of the settings, what never changes.
    pub(crate) path: PathBuf,
    pub(crate) levels: Levels,
    shards: [Mutex<Shard>; SHARDS],
    /// Held by side threads while a name of a file comes or goes.
    names: [Mutex<()>; SHARDS],
    most_in_shard: AtomicU64,
    blocks: AtomicU64,
    /// The loader is not done.
    cold: AtomicBool,
    version: AtomicU32,
    number: AtomicU64,
    pub(crate) threads: SideThreads,
    pub(crate) bell: Arc<Bell>,
    pub(crate) temporary: Temporary,
    pub(crate) purges: Purges,
    report: Box<dyn Fn(&str) + Send + Sync>,
    reported: AtomicU64,
}

impl Store {
    /// A store of which nothing is known yet, and that nobody looks after.
    pub(crate) fn new(settings: Settings, report: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            id: STORES.fetch_add(1, Ordering::Relaxed),
            path: settings.path.clone(),
            levels: settings.levels,
            most_in_shard: AtomicU64::new(settings.most_in(SHARDS)),
            settings: Mutex::new(settings),
            shards: Default::default(),
            names: Default::default(),
            blocks: AtomicU64::new(0),
            cold: AtomicBool::new(true),
            version: AtomicU32::new(1),
            number: AtomicU64::new(1),
            threads: SideThreads::new("weir-cache-io", THREADS),
            bell: Arc::default(),
            temporary: Temporary::default(),
            purges: Purges::default(),
            report: Box::new(report),
            reported: AtomicU64::new(0),
        })
    }

    /// A number that no other store of the process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether these settings are for the same files.
    pub fn is_at(&self, settings: &Settings) -> bool {
        self.path == settings.path && self.levels == settings.levels
    }

    /// Takes other bounds and paces up.
    pub fn tune(&self, settings: Settings) {
        self.most_in_shard.store(settings.most_in(SHARDS), Ordering::Relaxed);
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        self.bell.ring();
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks a name up. `now`: second since 1970. `count`: uses of names that are not stored are counted, too.
    pub fn look_up(&self, key: &Key, now: u64, count: bool) -> Lookup {
        let now = seconds(now);
        let (found, over) = {
            let mut shard = self.shard(key);
            if shard.pending.is_written(key) {
                return Lookup::Written;
            }
            let found = shard.index.look_up(key, now, count);
            (found, self.make_room(&mut shard))
        };
        self.forget_files(over);
        match found {
            Lookup::Missing { uses } if self.is_cold() => Lookup::Unknown { uses },
            found => found,
        }
    }

    /// Whether an object of this name is on the way to its place: see [`Lookup::Written`].
    #[cfg(test)]
    pub(crate) fn is_being_written(&self, key: &Key) -> bool {
        self.shard(key).pending.is_written(key)
    }

    /// Whether somebody fetches it.
    pub fn is_being_fetched(&self, key: &Key) -> bool {
        self.shard(key).pending.is_fetched(key)
    }

    /// Takes the right to fetch an object of which this version was `seen`, if any. `None`: somebody else has had it for
    /// less than `age`, or has fetched it meanwhile.
    pub fn claim(
        self: &Arc<Self>,
        key: &Key,
        seen: Option<u32>,
        age: Duration,
        now: Instant,
    ) -> Option<Fill> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let claimed = {
            let mut shard = self.shard(key);
            let changed = shard.pending.is_written(key) || shard.index.version(key) != seen;
            !changed && shard.pending.claim(key, number, age, now)
        };
        claimed.then(|| Fill { store: self.clone(), key: *key, number })
    }

    /// Has an object read by a thread of the store. False: there are too many reads under way, and `reply` is dropped.
    pub fn load(
        self: &Arc<Self>,
        key: Key,
        name: Vec<u8>,
        reply: impl FnOnce(Loaded) + Send + 'static,
    ) -> bool {
        let store = self.clone();
        self.threads.run(READS, move || reply(store.read(&key, &name)))
    }

    /// Removes an object. What is being fetched now is not stored either.
    pub fn remove(self: &Arc<Self>, key: &Key, now: Instant) {
        let left = {
            let mut shard = self.shard(key);
            shard.pending.note_removed(key, now);
            shard.index.remove(key)
        };
        self.forget_files(left);
        if left.is_none() && self.is_cold() {
            let (store, key) = (self.clone(), *key);
            self.threads.run(WRITES, move || store.unlink(&key));
        }
    }

    /// Notes that an object still holds good: its times change to those of `meta`. `was`: its times so far; an object
    /// with others was stored meanwhile, and stays as it is.
    pub fn refresh(self: &Arc<Self>, key: Key, name: Vec<u8>, was: Meta, meta: Meta) {
        let (store, written) = (self.clone(), Written::new(self, key));
        self.threads.run(WRITES, move || {
            if let Err(error) = store.rewrite(&key, &name, &was, meta) {
                store.tell(&format!("cannot update {}: {error}", store.file_of(&key).display()));
            }
            drop(written);
        });
    }

    /// What is stored, with its versions, part by part of the index: no lock is held while the caller looks at one.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.shards.iter().flat_map(|shard| lock(shard).index.stored())
    }

    /// Bytes of files, in blocks of the file system.
    pub fn size(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed) * BLOCK
    }

    /// Entries of the index.
    pub fn entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).index.len()).sum()
    }

    /// Whether files may be there that the index does not know of yet.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Acquire)
    }

    pub(crate) fn is_warm_now(&self) {
        self.cold.store(false, Ordering::Release);
    }

    pub(crate) fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[key.shard(SHARDS)])
    }

    fn names(&self, key: &Key) -> MutexGuard<'_, ()> {
        self.names[key.shard(SHARDS)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file_of(&self, key: &Key) -> PathBuf {
        self.levels.path(&self.path, key)
    }

    /// Tells what failed.
    pub(crate) fn tell(&self, what: &str) {
        let now = unix_now();
        if self.reported.swap(now, Ordering::Relaxed) != now {
            (self.report)(what);
        }
    }

    /// Notes a file that was found.
    pub(crate) fn found(&self, key: &Key, length: u64) {
        let over = {
            let mut shard = self.shard(key);
            if shard.index.found(key, blocks(length), seconds(unix_now())) {
                self.blocks.fetch_add(u64::from(blocks(length)), Ordering::Relaxed);
            }
            self.make_room(&mut shard)
        };
        if let Some(left) = over {
            self.blocks.fetch_sub(u64::from(left.blocks), Ordering::Relaxed);
            self.unlink(&left.key);
        }
    }

    /// Gives a finished file its name, unless the name was removed since its fetch `began`.
    pub(crate) fn put(
        &self,
        key: &Key,
        file: &std::path::Path,
        length: u64,
        began: Instant,
    ) -> io::Result<()> {
        let path = self.file_of(key);
        let names = self.names(key);
        if self.shard(key).pending.was_removed(key, began) || self.is_too_late(file, began) {
            return std::fs::remove_file(file);
        }
        std::fs::rename(file, &path).or_else(|error| match (error.kind(), path.parent()) {
            (io::ErrorKind::NotFound, Some(folder)) => {
                crate::temporary::make_folders(folder)?;
                std::fs::rename(file, &path)
            }
            _ => Err(error),
        })?;
        let version = self.next_version();
        let over = {
            let mut shard = self.shard(key);
            let before = shard.index.store(key, version, blocks(length), seconds(unix_now()));
            self.blocks.fetch_add(u64::from(blocks(length)), Ordering::Relaxed);
            self.blocks.fetch_sub(u64::from(before), Ordering::Relaxed);
            self.make_room(&mut shard)
        };
        drop(names);
        if let Some(left) = over {
            self.blocks.fetch_sub(u64::from(left.blocks), Ordering::Relaxed);
            self.unlink(&left.key);
        }
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if settings.max_size.is_some_and(|most| self.size() > most) {
            self.bell.ring();
        }
        Ok(())
    }

    pub(crate) fn next_version(&self) -> u32 {
        // Zero is what was found by the loader.
        self.version.fetch_add(1, Ordering::Relaxed).max(1)
    }

    /// Lets go of an entry if the shard is full. Its file is to be removed.
    fn make_room(&self, shard: &mut Shard) -> Option<Left> {
        let full = shard.index.len() as u64 > self.most_in_shard.load(Ordering::Relaxed);
        if full { shard.index.remove_oldest().filter(|left| left.stored) } else { None }
    }

    /// Lets go of an object if this version is the one that is stored. Its file goes later.
    pub(crate) fn let_go(&self, key: &Key, version: u32) {
        let left = {
            let mut shard = self.shard(key);
            let same = shard.index.version(key) == Some(version);
            if same { shard.index.remove(key) } else { None }
        };
        self.forget_files(left);
    }

    /// Has the file of what left the index removed.
    fn forget_files(&self, left: Option<Left>) {
        let Some(left) = left.filter(|left| left.stored) else { return };
        self.blocks.fetch_sub(u64::from(left.blocks), Ordering::Relaxed);
        self.bell.remove(left.key);
    }

    /// Removes the file of a name that is not in the index.
    pub(crate) fn unlink(&self, key: &Key) {
        let _names = self.names(key);
        if self.shard(key).index.version(key).is_none() {
            let _ = std::fs::remove_file(self.file_of(key));
        }
    }

    /// Removes what was not used for the longest, if `wanted` says so of the second of its last use. False: nothing was.
    pub(crate) fn evict(&self, wanted: impl Fn(u32) -> bool) -> bool {
        let oldest = |shard: &Mutex<Shard>| lock(shard).index.oldest_use();
        let found = self.shards.iter().filter_map(|shard| oldest(shard).map(|used| (used, shard)));
        let Some((used, shard)) = found.min_by_key(|(used, _)| *used).filter(|(used, _)| wanted(*used))
        else {
            return false;
        };
        let left = {
            let mut shard = lock(shard);
            // It may have been used just now.
            let same = shard.index.oldest_use() == Some(used);
            if same { shard.index.remove_oldest() } else { None }
        };
        if let Some(left) = left.filter(|left| left.stored) {
            self.blocks.fetch_sub(u64::from(left.blocks), Ordering::Relaxed);
            self.unlink(&left.key);
        }
        true
    }

    fn read(&self, key: &Key, name: &[u8]) -> Loaded {
        let known = self.shard(key).index.version(key);
        match object::read(&self.file_of(key), name, known.unwrap_or(0)) {
            Ok(Some(_)) if self.is_purged(key, name, known.unwrap_or(0)) => Loaded::Missing,
            Ok(Some((object, length))) => {
                if known.is_none() {
                    if !self.is_cold() {
                        // It was removed meanwhile.
                        return Loaded::Missing;
                    }
                    self.found(key, length);
                }
                Loaded::Object(Box::new(object))
            }
            Ok(None) => {
                self.drop_if(key, known);
                Loaded::Missing
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.tell(&format!("cannot read {}: {error}", self.file_of(key).display()));
                }
                self.drop_if(key, known);
                Loaded::Missing
            }
        }
    }

    /// Drops what turned out not to be there, or broken, unless it was stored anew.
    pub(crate) fn drop_if(&self, key: &Key, known: Option<u32>) {
        let left = {
            let mut shard = self.shard(key);
            if shard.index.version(key) != known {
                return;
            }
            // Of what is not stored the index knows how often it was asked for, and that stays true.
            known.and_then(|_| shard.index.remove(key))
        };
        if let Some(left) = left.filter(|left| left.stored) {
            self.blocks.fetch_sub(u64::from(left.blocks), Ordering::Relaxed);
        }
        self.unlink(key);
    }

    fn rewrite(&self, key: &Key, name: &[u8], was: &Meta, meta: Meta) -> io::Result<()> {
        let _names = self.names(key);
        let file = object::open(&self.file_of(key), true)?;
        let length = file.metadata()?.len();
        let Some((fixed, texts)) = object::read_texts(&file, length)? else { return Ok(()) };
        if fixed.meta != *was || Texts::parse(&fixed, &texts, name).is_none() {
            return Ok(());
        }
        file.write_all_at(&Fixed { meta, ..fixed }.to_bytes(), 0)?;
        let version = self.next_version();
        let mut shard = self.shard(key);
        if shard.index.version(key).is_some() {
            shard.index.store(key, version, blocks(length), seconds(unix_now()));
        }
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.threads.close();
        self.bell.close();
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing inside the lock can panic half-way through a change.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sizes count in whole blocks.
fn blocks(length: u64) -> u32 {
    u32::try_from(length.div_ceil(BLOCK)).unwrap_or(u32::MAX)
}

fn seconds(unix: u64) -> u32 {
    u32::try_from(unix).unwrap_or(u32::MAX)
}

/// Second since 1970.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
