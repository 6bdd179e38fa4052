//! Lists that inner blocks inherit.
//!
//! Owns: that a list holds further in as a whole, until one of its words is written there.
//! Driven by: `scope`, and the parts of it.

use std::sync::Arc;

/// Names one block, so that a list knows whether it was begun in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level(pub u32);

/// A list that is inherited as a whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct List<T> {
    items: Arc<Vec<T>>,
    level: Level,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Arc::new(Vec::new()), level: Level::default() }
    }
}

impl<T: Clone> List<T> {
    /// Adds an item; what was inherited goes.
    pub(crate) fn push(&mut self, level: Level, item: T) {
        self.begin(level);
        Arc::make_mut(&mut self.items).push(item);
    }

    /// Drops what was inherited, so that the list is this level's even if it stays empty.
    pub(crate) fn begin(&mut self, level: Level) {
        if self.level != level {
            *self = Self { items: Arc::new(Vec::new()), level };
        }
    }

    /// Empties the list for this level and the inner ones.
    pub(crate) fn clear(&mut self, level: Level) {
        *self = Self { items: Arc::new(Vec::new()), level };
    }

    /// Adds items to this level's.
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        Arc::make_mut(&mut self.items).extend(items);
    }

    /// The level that began it.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// The items in order.
    pub(crate) fn items(&self) -> &Arc<Vec<T>> {
        &self.items
    }
}
