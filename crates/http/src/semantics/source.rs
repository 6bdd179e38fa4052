//! Fields to look conditions up in, wherever they are kept.
//!
//! Owns: the trait that [`crate::Headers`] and an engine's own list of fields implement.
//! Why: conditions are judged on requests that were edited since they were parsed.

use crate::field::Headers;
use crate::name::HeaderId;

/// Fields that can be asked for by number.
pub trait FieldSource {
    /// Whether a field of this set of [`HeaderId::bit`]s is there.
    fn has_any(&self, ids: u128) -> bool;

    /// The values of a field, in order.
    fn values(&self, id: HeaderId) -> impl Iterator<Item = &[u8]>;

    /// Whether a field is there.
    fn has(&self, id: HeaderId) -> bool {
        self.has_any(id.bit())
    }

    /// The first value of a field.
    fn value(&self, id: HeaderId) -> Option<&[u8]> {
        self.values(id).next()
    }

    /// Whether a field is there more than once.
    fn repeats(&self, id: HeaderId) -> bool {
        self.values(id).nth(1).is_some()
    }
}

impl FieldSource for Headers<'_> {
    fn has_any(&self, ids: u128) -> bool {
        Headers::has_any(self, ids)
    }

    fn values(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        Headers::values(self, id)
    }

    fn repeats(&self, id: HeaderId) -> bool {
        Headers::repeats(self, id)
    }
}
