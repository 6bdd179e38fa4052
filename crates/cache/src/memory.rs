//! Objects that are in memory only.
//!
//! Owns: the objects of each name, the bound on their bytes, which of them leave first.
//! Never: waits, touches a disk, knows what an object is.
//! Driven by: `engine`, whose workers share one [`Memory`] per cache.
//! Why: one lock is held for a look at two tables. An object is shared by whoever sends it, so that it may be replaced or
//! dropped at any time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an entry costs beside its bytes.
const OF_ENTRY: u64 = 256;

/// Bounds of a cache in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes of all objects.
    pub total: u64,
    /// Most bytes of one.
    pub object: u64,
    /// Most objects of one name.
    pub variants: usize,
}

/// What a cache in memory keeps.
pub trait Keepable {
    /// Its bytes.
    fn size(&self) -> u64;
    /// The second since 1970 from which it is not used any more.
    fn expires(&self) -> u64;
    /// Whether it is to take the place of another object of its name.
    fn replaces(&self, other: &Self) -> bool;
    /// Whether it is chosen among the objects of its name as another is; if not, one of the two is out of date.
    fn is_chosen_as(&self, other: &Self) -> bool;
}

/// Objects in memory, by name.
pub struct Memory<T> {
    bounds: Mutex<Bounds>,
    entries: Mutex<Entries<T>>,
    /// Bytes of objects that are on their way here.
    coming: AtomicU64,
}

struct Entries<T> {
    by_name: HashMap<Arc<[u8]>, Vec<Entry<T>>>,
    /// Names by the use of one of their objects, the least recent first.
    by_use: BTreeMap<u64, Arc<[u8]>>,
    uses: u64,
    bytes: u64,
}

struct Entry<T> {
    object: Arc<T>,
    used: u64,
    cost: u64,
}

impl<T: Keepable> Memory<T> {
    /// An empty cache.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let entries = Entries { by_name: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0 };
        Self { bounds: Mutex::new(bounds), entries: Mutex::new(entries), coming: AtomicU64::new(0) }
    }

    /// Its bounds.
    pub fn bounds(&self) -> Bounds {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes other bounds up. What is too much leaves with the next object that comes.
    pub fn tune(&self, bounds: Bounds) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = bounds;
    }

    /// An object of a name that is not too old `now`, a second since 1970, and that `fits`.
    pub fn find(&self, name: &[u8], now: u64, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut entries = self.lock();
        let Entries { by_name, by_use, uses, .. } = &mut *entries;
        let (name, _) = by_name.get_key_value(name).map(|(name, found)| (name.clone(), found))?;
        let found = by_name.get_mut(&name)?;
        let found = found.iter_mut().find(|entry| entry.object.expires() > now && fits(&entry.object))?;
        by_use.remove(&found.used);
        *uses += 1;
        found.used = *uses;
        by_use.insert(*uses, name);
        Some(found.object.clone())
    }

    /// Keeps an object. False: it is too large, or there are as many of its name as there may be.
    pub fn keep(&self, name: &[u8], now: u64, object: T) -> bool {
        let bounds = self.bounds();
        let (size, cost) = (object.size(), object.size() + name.len() as u64 + OF_ENTRY);
        if size > bounds.object || cost > bounds.total {
            return false;
        }
        let mut entries = self.lock();
        entries.drop_where(name, |other| {
            other.expires() <= now || object.replaces(other) || !object.is_chosen_as(other)
        });
        if entries.by_name.get(name).is_some_and(|found| found.len() >= bounds.variants) {
            return false;
        }
        entries.make_room(bounds.total - cost);
        entries.insert(name, object, cost);
        true
    }

    /// Drops all objects of a name.
    pub fn remove(&self, name: &[u8]) {
        self.lock().drop_where(name, |_| true);
    }

    /// Drops everything.
    pub fn clear(&self) {
        let mut entries = self.lock();
        entries.by_name = HashMap::new();
        entries.by_use = BTreeMap::new();
        entries.bytes = 0;
    }

    /// Room for an object that is on its way here; `None`: there is none, because too many are.
    pub fn expect(self: &Arc<Self>) -> Option<Coming<T>> {
        (self.coming.load(Ordering::Relaxed) < self.bounds().total)
            .then(|| Coming { memory: self.clone(), bytes: Vec::new() })
    }

    /// Bytes of all objects.
    pub fn size(&self) -> u64 {
        self.lock().bytes
    }

    /// All names with their objects, in no order.
    pub fn list(&self) -> Vec<(Arc<[u8]>, Arc<T>)> {
        let entries = self.lock();
        let each = entries.by_name.iter();
        each.flat_map(|(name, found)| found.iter().map(|entry| (name.clone(), entry.object.clone())))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        // Nothing inside the lock can panic half-way through a change.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Keepable> Entries<T> {
    fn insert(&mut self, name: &[u8], object: T, cost: u64) {
        self.uses += 1;
        let name: Arc<[u8]> = match self.by_name.get_key_value(name) {
            Some((name, _)) => name.clone(),
            None => name.into(),
        };
        self.by_use.insert(self.uses, name.clone());
        self.bytes += cost;
        self.by_name.entry(name).or_default().push(Entry { object: object.into(), used: self.uses, cost });
    }

    fn drop_where(&mut self, name: &[u8], unwanted: impl Fn(&T) -> bool) {
        let Some(found) = self.by_name.get_mut(name) else { return };
        let (by_use, bytes) = (&mut self.by_use, &mut self.bytes);
        found.retain(|entry| {
            let unwanted = unwanted(&entry.object);
            if unwanted {
                by_use.remove(&entry.used);
                *bytes -= entry.cost;
            }
            !unwanted
        });
        if found.is_empty() {
            self.by_name.remove(name);
        }
    }

    /// Drops what was not used for the longest until no more than so many bytes are left.
    fn make_room(&mut self, left: u64) {
        while self.bytes > left {
            let Some((used, name)) = self.by_use.pop_first() else { return };
            let Some(found) = self.by_name.get_mut(&name) else { continue };
            if let Some(at) = found.iter().position(|entry| entry.used == used) {
                self.bytes -= found.swap_remove(at).cost;
            }
            if found.is_empty() {
                self.by_name.remove(&name);
            }
        }
    }
}

/// The bytes of an object that is on its way into a cache. Dropped, nothing of it is kept.
pub struct Coming<T> {
    memory: Arc<Memory<T>>,
    bytes: Vec<u8>,
}

impl<T: Keepable> Coming<T> {
    /// Takes a piece. False: it, or all that is on its way, is too large: it is given up.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        let bounds = self.memory.bounds();
        let more = piece.len() as u64;
        if self.bytes.len() as u64 + more > bounds.object {
            return false;
        }
        self.bytes.extend_from_slice(piece);
        self.memory.coming.fetch_add(more, Ordering::Relaxed) + more <= bounds.total
    }

    /// Bytes so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// All of it is here: keeps what `make` makes of the bytes.
    pub fn keep(mut self, name: &[u8], now: u64, make: impl FnOnce(Vec<u8>) -> Option<T>) -> bool {
        let bytes = std::mem::take(&mut self.bytes);
        self.memory.coming.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        make(bytes).is_some_and(|object| self.memory.keep(name, now, object))
    }
}

impl<T> Drop for Coming<T> {
    fn drop(&mut self) {
        self.memory.coming.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing {
        size: u64,
        expires: u64,
        variant: &'static str,
        by: &'static str,
    }

    impl Keepable for Thing {
        fn size(&self) -> u64 {
            self.size
        }

        fn expires(&self) -> u64 {
            self.expires
        }

        fn replaces(&self, other: &Self) -> bool {
            self.variant == other.variant
        }

        fn is_chosen_as(&self, other: &Self) -> bool {
            self.by == other.by
        }
    }

    fn thing(size: u64, variant: &'static str) -> Thing {
        Thing { size, expires: 100, variant, by: "x" }
    }

    fn memory(total: u64) -> Memory<Thing> {
        Memory::new(Bounds { total, object: 1000, variants: 2 })
    }

    fn has(memory: &Memory<Thing>, name: &str, variant: &str) -> bool {
        memory.find(name.as_bytes(), 1, |thing| thing.variant == variant).is_some()
    }

    #[test]
    fn what_was_not_used_for_the_longest_leaves_first() {
        let memory = memory(3 * (1000 + 1 + OF_ENTRY));
        for name in ["a", "b", "c"] {
            assert!(memory.keep(name.as_bytes(), 1, thing(1000, "")));
        }
        assert!(has(&memory, "a", ""));
        assert!(memory.keep(b"d", 1, thing(1000, "")));
        assert_eq!(["a", "b", "c", "d"].map(|name| has(&memory, name, "")), [true, false, true, true]);
        assert_eq!(memory.size(), 3 * (1000 + 1 + OF_ENTRY));
        assert_eq!(memory.entries.lock().unwrap().by_use.len(), 3);
        memory.remove(b"a");
        assert_eq!((memory.size(), memory.list().len()), (2 * (1000 + 1 + OF_ENTRY), 2));
        memory.clear();
        assert_eq!((memory.size(), memory.list().len()), (0, 0));
        assert!(memory.entries.lock().unwrap().by_use.is_empty());
    }

    #[test]
    fn what_is_too_large_or_too_old_is_not_there() {
        let memory = memory(100_000);
        assert!(!memory.keep(b"a", 1, thing(1001, "")));
        assert!(memory.keep(b"a", 1, thing(1000, "")));
        assert!(memory.find(b"a", 99, |_| true).is_some());
        assert!(memory.find(b"a", 100, |_| true).is_none());
    }

    #[test]
    fn a_name_has_so_many_variants() {
        let memory = memory(100_000);
        assert!(memory.keep(b"a", 1, thing(1, "one")) && memory.keep(b"a", 1, thing(2, "two")));
        assert!(!memory.keep(b"a", 1, thing(3, "three")));
        // One that is there is replaced, one that is too old makes room.
        assert!(memory.keep(b"a", 1, thing(4, "two")));
        assert_eq!(memory.find(b"a", 1, |thing| thing.variant == "two").unwrap().size, 4);
        assert!(memory.keep(b"a", 100, thing(5, "three")));
        // What is chosen in another way takes the place of all.
        assert!(memory.keep(b"b", 1, thing(1, "one")));
        assert!(memory.keep(b"b", 1, Thing { by: "y", ..thing(1, "two") }));
        assert_eq!((has(&memory, "b", "one"), has(&memory, "b", "two")), (false, true));
    }

    #[test]
    fn what_is_on_its_way_is_bounded() {
        let memory = Arc::new(Memory::new(Bounds { total: 1500, object: 1000, variants: 1 }));
        let (mut one, mut two) = (memory.expect().unwrap(), memory.expect().unwrap());
        assert!(one.push(&[0; 1000]) && !one.push(&[0]));
        assert!(!two.push(&[0; 900]));
        assert!(memory.expect().is_none());
        drop(two);
        assert!(memory.expect().is_some());
        assert!(one.keep(b"a", 1, |bytes| Some(thing(bytes.len() as u64, ""))));
        assert_eq!((memory.coming.load(Ordering::Relaxed), memory.list()[0].1.size), (0, 1000));
    }
}
