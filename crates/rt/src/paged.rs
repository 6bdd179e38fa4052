//! A table whose entries never move.
//!
//! Owns: places for entries under small numbers, each used again once it is free.
//! Driven by: the drivers, for sockets; the wheel, for timers.
//! Why not one vector: it moves everything when it grows, which at a million connections is a pause of a tenth of a second,
//! and leaves behind half its size in memory that fits nothing else.

use std::ops::{Index, IndexMut};

/// Entries a page.
const PAGE: usize = 256;

const NONE: u32 = u32::MAX;

enum Place<T> {
    Taken(T),
    /// The next free one.
    Free(u32),
}

/// The table. Numbers are below 2^32 - 1.
pub(crate) struct Paged<T> {
    pages: Vec<Vec<Place<T>>>,
    free: u32,
}

impl<T> Paged<T> {
    pub(crate) const fn new() -> Self {
        Self { pages: Vec::new(), free: NONE }
    }

    fn place(&mut self, index: u32) -> Option<&mut Place<T>> {
        self.pages.get_mut(index as usize / PAGE)?.get_mut(index as usize % PAGE)
    }

    /// Puts an entry in, and gives its number.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        let index = self.free;
        if let Some(place) = self.place(index)
            && let Place::Free(next) = *place
        {
            *place = Place::Taken(entry);
            self.free = next;
            return index;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = &mut self.pages[before / PAGE];
        page.push(Place::Taken(entry));
        (before + page.len() - 1) as u32
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.pages.get(index as usize / PAGE)?.get(index as usize % PAGE)? {
            Place::Taken(entry) => Some(entry),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.place(index)? {
            Place::Taken(entry) => Some(entry),
            Place::Free(_) => None,
        }
    }

    /// Takes an entry out; its number may be given to another.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let free = self.free;
        let place = self.place(index)?;
        if matches!(place, Place::Free(_)) {
            return None;
        }
        let Place::Taken(entry) = std::mem::replace(place, Place::Free(free)) else { return None };
        self.free = index;
        Some(entry)
    }
}

impl<T> Index<u32> for Paged<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.get(index).expect("the number of an entry")
    }
}

impl<T> IndexMut<u32> for Paged<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index).expect("the number of an entry")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_entries_stay() {
        let mut table = Paged::new();
        let all: Vec<u32> = (0..3 * PAGE).map(|n| table.insert(n)).collect();
        assert!(all.iter().enumerate().all(|(n, &index)| table.get(index) == Some(&n)));
        let address = std::ptr::from_ref(&table[all[1]]);
        assert_eq!(table.remove(all[7]), Some(7));
        assert_eq!(table.remove(all[PAGE]), Some(PAGE));
        assert_eq!(table.get(all[7]), None);
        assert_eq!(table.remove(all[7]), None);
        assert_eq!(table.insert(1000), all[PAGE]);
        assert_eq!(table.insert(1001), all[7]);
        assert_eq!(table.insert(1002), 3 * PAGE as u32);
        table[all[7]] += 1;
        assert_eq!(table[all[7]], 1002);
        assert_eq!(std::ptr::from_ref(&table[all[1]]), address);
        assert_eq!(table.get(NONE), None);
    }
}
