//! Values that rules keep in the process.
//!
//! Owns: the values by name.
//! Never: keeps those of a connection; the client has them.
//! Driven by: programs, which set them; variables, which show them; an operator; the configuration, with what they begin as.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use weir_expr::KeptValue;
use weir_plan::Plan;

/// The values.
#[derive(Default)]
pub(crate) struct Kept(RwLock<HashMap<Box<str>, KeptValue>>);

impl Kept {
    /// A configuration holds: what it names begins anew, and what nobody names any more goes.
    pub(crate) fn begin(&self, plan: &Plan) {
        let begun = plan.process.kept.iter().cloned().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// Gives `with` the value of a name.
    pub(crate) fn get<T>(&self, name: &str, with: impl FnOnce(&KeptValue) -> T) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).map(with)
    }

    /// Sets the value of a name; `None`: it has none any more.
    pub(crate) fn set(&self, name: &str, value: Option<KeptValue>) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => match values.get_mut(name) {
                Some(known) => *known = value,
                None => drop(values.insert(name.into(), value)),
            },
            None => drop(values.remove(name)),
        }
    }
}
