//! Values of the variables that a configuration defines.
//!
//! Owns: what was computed or assigned for one request.
//! Never: computes; `eval` does.
//! Why: a value is computed at its first use, in the middle of a template, so they change behind a shared reference.

use std::cell::RefCell;

use weir_plan::{MatchFailed, Slot};

/// Values of user variables, kept for the request.
#[derive(Default, Clone)]
pub(crate) struct Slots {
    values: RefCell<Vec<Value>>,
    /// A value that was asked for could not be computed.
    doubt: RefCell<Option<MatchFailed>>,
}

/// How far the value of a variable is.
#[derive(Default, Clone)]
pub(crate) enum Value {
    /// Not computed or assigned yet.
    #[default]
    Unset,
    /// Being computed: a table that refers to itself sees nothing.
    Busy,
    /// Known.
    Known(Box<[u8]>),
}

impl Slots {
    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.values.get_mut().clear();
        *self.doubt.get_mut() = None;
    }

    /// Notes that a value that is being asked for is not known.
    #[cold]
    pub(crate) fn doubt(&self, why: MatchFailed) {
        self.doubt.borrow_mut().get_or_insert(why);
    }

    /// Whether a value was not known.
    #[inline]
    pub(crate) fn in_doubt(&self) -> bool {
        self.doubt.borrow().is_some()
    }

    /// The doubt, for a door that refuses because of it.
    #[inline]
    pub(crate) fn take_doubt(&self) -> Option<MatchFailed> {
        if self.in_doubt() { self.doubt.take() } else { None }
    }

    /// Assigns a value.
    pub(crate) fn set(&self, slot: Slot, value: &[u8]) {
        self.put(slot, Value::Known(value.into()));
    }

    /// Notes how far a value is.
    pub(crate) fn put(&self, slot: Slot, value: Value) {
        let mut values = self.values.borrow_mut();
        let at = usize::from(slot.0);
        if values.len() <= at {
            values.resize(at + 1, Value::Unset);
        }
        values[at] = value;
    }

    /// Appends a value; whether it is one. `None`: it is to be computed.
    pub(crate) fn state(&self, slot: Slot, out: &mut Vec<u8>) -> Option<bool> {
        match self.values.borrow().get(usize::from(slot.0)) {
            Some(Value::Known(value)) => {
                out.extend_from_slice(value);
                Some(true)
            }
            Some(Value::Busy) => Some(false),
            Some(Value::Unset) | None => None,
        }
    }
}
