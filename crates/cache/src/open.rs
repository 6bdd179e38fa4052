//! Opening a store.
//!
//! Owns: starting what looks through its folder, and what looks after it.
//! Why: both know the store; it knows neither.

use std::sync::Arc;

use crate::settings::Settings;
use crate::store::Store;
use crate::{loader, manager};

impl Store {
    /// Opens a store: begins to look at what its folder holds, and to look after it. `report` is told what fails, at most
    /// once a second.
    pub fn open(settings: Settings, report: impl Fn(&str) + Send + Sync + 'static) -> Arc<Self> {
        let store = Self::new(settings, report);
        loader::start(&store);
        manager::start(&store);
        store
    }
}
