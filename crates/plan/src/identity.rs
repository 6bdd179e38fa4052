//! Whether two groups of settings are the same ones.
//!
//! Owns: [`Identity`], and the macro that gives it to a struct by its list of fields.
//! Why: routes that inherit the same settings share one group of them. What makes two groups the same is every field of
//! theirs; a list of fields kept beside the struct would forget one, and two routes would share what they should not.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Sameness of a field: a shared group is the same at the same place in memory, a plain value where it is equal.
pub(crate) trait Identity {
    fn same(&self, other: &Self) -> bool;
    fn hash_into<H: Hasher>(&self, state: &mut H);
}

impl<T: ?Sized> Identity for Arc<T> {
    fn same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(self), Arc::as_ptr(other))
    }

    fn hash_into<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(self).cast::<()>().hash(state);
    }
}

impl<T: Identity> Identity for Option<T> {
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Some(one), Some(other)) => one.same(other),
            (None, None) => true,
            _ => false,
        }
    }

    fn hash_into<H: Hasher>(&self, state: &mut H) {
        self.is_some().hash(state);
        if let Some(value) = self {
            value.hash_into(state);
        }
    }
}

impl<T: Eq + Hash> Identity for Box<[T]> {
    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn hash_into<H: Hasher>(&self, state: &mut H) {
        self.hash(state);
    }
}

macro_rules! plain {
    ($($kind:ty),*) => {$(
        impl Identity for $kind {
            fn same(&self, other: &Self) -> bool {
                self == other
            }

            fn hash_into<H: Hasher>(&self, state: &mut H) {
                self.hash(state);
            }
        }
    )*};
}

plain!(
    bool,
    u16,
    u32,
    u64,
    std::num::NonZeroU64,
    std::time::Duration,
    crate::Afterwards,
    Box<crate::Tracing>,
    weir_control::ZoneId
);

/// Declares a struct, and compares and hashes it by [`Identity`] of each field.
macro_rules! identified {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        pub struct $name { $($(#[$field_doc])* pub $field: $kind,)* }

        /// Two are equal if they are made of the same shared groups and equal plain values.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $(crate::identity::Identity::same(&self.$field, &other.$field))&&*
            }
        }

        impl Eq for $name {}

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                $(crate::identity::Identity::hash_into(&self.$field, state);)*
            }
        }
    };
}
pub(crate) use identified;
