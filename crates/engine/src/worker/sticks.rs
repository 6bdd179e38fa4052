//! Stick tables of the process.
//!
//! Owns: tables by name, handed on from plan to plan as long as their definition stays.
//! Never: looks into a table.
//! Driven by: each new plan.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_plan::Plan;
use weir_policy::limit::StickTable;

/// Tables by name.
pub type StickTables = HashMap<Box<str>, Arc<StickTable>>;

/// See the module.
#[derive(Default)]
pub(crate) struct Sticks(Mutex<Arc<StickTables>>);

impl Sticks {
    /// The tables of a plan: those that are defined as before go on with what they hold.
    pub(crate) fn tables_for(&self, seed: u64, plan: &Plan) -> Arc<StickTables> {
        let mut held = self.held();
        if held.is_empty() && plan.stick_tables.is_empty() {
            return held.clone();
        }
        let tables = plan.stick_tables.iter().map(|table| {
            let known = held.get(&table.name).filter(|known| *known.config() == table.config);
            let made = || Arc::new(StickTable::new(&table.config, seed));
            (table.name.clone(), known.cloned().unwrap_or_else(made))
        });
        let tables = Arc::new(tables.collect::<StickTables>());
        *held = tables.clone();
        tables
    }

    fn held(&self) -> MutexGuard<'_, Arc<StickTables>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
