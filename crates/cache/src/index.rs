//! What is stored, in memory.
//!
//! Owns: one entry for each object, in the order of use; how often names were asked for that are not stored yet.
//! Never: touches a file.
//! Driven by: the store, under the lock of a shard; all that happens under it is a handful of loads and stores.
//! Why: 40 bytes an object and about 8 of the table. What else is known of an object is read with it.

use hashbrown::HashTable;

use crate::key::Key;

/// No entry.
const NONE: u32 = u32::MAX;

/// What the index knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is stored. What a worker holds of it is current if it has this version.
    Stored {
        /// Number of what is stored.
        version: u32,
    },
    /// It is not stored, and was asked for so many times, this one included.
    Missing {
        /// Times asked for.
        uses: u16,
    },
    /// It is not in the index, which is not complete yet: the file may be there.
    Unknown {
        /// Times asked for, this one included, if it is not.
        uses: u16,
    },
    /// It is on the way to its place, or about to change: who looks again in a moment finds it.
    Written,
}

/// One object, or a name that was asked for.
#[derive(Clone, Copy)]
struct Slot {
    key: [u8; 16],
    version: u32,
    /// Second since 1970 of its last use.
    used: u32,
    /// Size of its file in [`BLOCK`]s.
    blocks: u32,
    newer: u32,
    older: u32,
    uses: u16,
    stored: bool,
}

/// Files are counted in these.
pub(crate) const BLOCK: u64 = 4096;

/// What left the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) key: Key,
    pub(crate) blocks: u32,
    /// There is a file.
    pub(crate) stored: bool,
}

/// A part of the index.
pub(crate) struct Index {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    free: u32,
    newest: u32,
    oldest: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self { table: HashTable::new(), slots: Vec::new(), free: NONE, newest: NONE, oldest: NONE }
    }
}

impl Index {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn find(&self, key: &Key) -> Option<u32> {
        self.table.find(key.hash(), |&at| self.slots[at as usize].key == *key.bytes()).copied()
    }

    /// Looks a name up and counts the use. `count`: of names that are not stored, too.
    pub(crate) fn look_up(&mut self, key: &Key, now: u32, count: bool) -> Lookup {
        let Some(at) = self.find(key) else {
            if !count {
                return Lookup::Missing { uses: 1 };
            }
            let at = self.insert(key, now);
            self.slots[at as usize].uses = 1;
            return Lookup::Missing { uses: 1 };
        };
        self.touch(at, now);
        let slot = &mut self.slots[at as usize];
        slot.uses = slot.uses.saturating_add(1);
        match slot.stored {
            true => Lookup::Stored { version: slot.version },
            false => Lookup::Missing { uses: slot.uses },
        }
    }

    /// What is stored under a name; nothing is counted.
    pub(crate) fn version(&self, key: &Key) -> Option<u32> {
        let slot = &self.slots[self.find(key)? as usize];
        slot.stored.then_some(slot.version)
    }

    /// All that is stored, with its version.
    pub(crate) fn stored(&self) -> Vec<(Key, u32)> {
        let slots = self.table.iter().map(|&at| &self.slots[at as usize]).filter(|slot| slot.stored);
        slots.map(|slot| (Key::from_bytes(slot.key), slot.version)).collect()
    }

    /// Notes what is stored now; the blocks of what was stored before.
    pub(crate) fn store(&mut self, key: &Key, version: u32, blocks: u32, now: u32) -> u32 {
        let at = match self.find(key) {
            Some(at) => at,
            None => self.insert(key, now),
        };
        self.touch(at, now);
        let slot = &mut self.slots[at as usize];
        let before = if slot.stored { slot.blocks } else { 0 };
        (slot.version, slot.blocks, slot.stored) = (version, blocks, true);
        before
    }

    /// Notes a file that was found, unless the name is stored already. False: it is.
    pub(crate) fn found(&mut self, key: &Key, blocks: u32, now: u32) -> bool {
        if self.version(key).is_some() {
            return false;
        }
        self.store(key, 0, blocks, now);
        true
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Left> {
        self.find(key).map(|at| self.take(at))
    }

    /// When the entry was used that was not used for the longest.
    pub(crate) fn oldest_use(&self) -> Option<u32> {
        (self.oldest != NONE).then(|| self.slots[self.oldest as usize].used)
    }

    /// Removes that entry.
    pub(crate) fn remove_oldest(&mut self) -> Option<Left> {
        (self.oldest != NONE).then(|| self.take(self.oldest))
    }

    fn insert(&mut self, key: &Key, now: u32) -> u32 {
        let slot = Slot {
            key: *key.bytes(),
            version: 0,
            used: now,
            blocks: 0,
            newer: NONE,
            older: NONE,
            uses: 0,
            stored: false,
        };
        let at = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].older;
            self.slots[at as usize] = slot;
            at
        };
        let slots = &self.slots;
        self.table.insert_unique(key.hash(), at, |&at| Key::from_bytes(slots[at as usize].key).hash());
        self.push_front(at);
        at
    }

    fn take(&mut self, at: u32) -> Left {
        self.unlink(at);
        let slot = self.slots[at as usize];
        let key = Key::from_bytes(slot.key);
        if let Ok(entry) = self.table.find_entry(key.hash(), |&other| other == at) {
            entry.remove();
        }
        self.slots[at as usize].older = self.free;
        self.free = at;
        Left { key, blocks: slot.blocks, stored: slot.stored }
    }

    fn touch(&mut self, at: u32, now: u32) {
        self.slots[at as usize].used = now;
        if self.newest != at {
            self.unlink(at);
            self.push_front(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn push_front(&mut self, at: u32) {
        let front = self.newest;
        (self.slots[at as usize].newer, self.slots[at as usize].older) = (NONE, front);
        match front {
            NONE => self.oldest = at,
            front => self.slots[front as usize].newer = at,
        }
        self.newest = at;
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        Key::of(&n.to_le_bytes())
    }

    #[test]
    fn uses_are_counted_and_the_oldest_leaves_first() {
        let mut index = Index::default();
        assert_eq!(index.look_up(&key(1), 10, true), Lookup::Missing { uses: 1 });
        assert_eq!(index.look_up(&key(1), 11, true), Lookup::Missing { uses: 2 });
        assert_eq!(index.store(&key(1), 7, 3, 12), 0);
        assert_eq!(index.look_up(&key(1), 13, true), Lookup::Stored { version: 7 });
        assert!(index.found(&key(2), 5, 14));
        assert!(!index.found(&key(1), 5, 14), "what was stored since stands");
        assert_eq!(index.store(&key(1), 8, 4, 15), 3);
        index.look_up(&key(3), 16, true);
        assert_eq!(index.oldest_use(), Some(14));
        index.look_up(&key(2), 17, true);
        assert_eq!(index.remove_oldest(), Some(Left { key: key(1), blocks: 4, stored: true }));
        assert_eq!(index.remove(&key(3)), Some(Left { key: key(3), blocks: 0, stored: false }));
        assert_eq!(index.remove(&key(3)), None);
        assert_eq!(index.remove_oldest().map(|left| left.key), Some(key(2)));
        assert_eq!((index.len(), index.remove_oldest(), index.oldest_use()), (0, None, None));
        assert_eq!(index.look_up(&key(8), 20, false), Lookup::Missing { uses: 1 });
        assert_eq!(index.len(), 0, "nobody asks how often");
        // Places are used again.
        index.look_up(&key(9), 20, true);
        assert_eq!(index.slots.len(), 3);
    }

    #[test]
    fn an_object_takes_less_than_a_hundred_bytes() {
        let mut index = Index::default();
        for n in 0..140_000 {
            index.store(&key(n), 1, 1, n);
        }
        let each = index.memory() / index.len();
        assert!(each < 100, "{each}");
        for n in 0..140_000 {
            assert_eq!(index.version(&key(n)), Some(1));
        }
    }
}
