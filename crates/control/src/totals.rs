//! What was counted, to be kept over restarts.
//!
//! Owns: the form in which counts are kept: numbers under names.
//! Never: holds what is of a moment: connections open, rates, averages.
//! Driven by: `telemetry`, which fills it and begins with it; the binary, which keeps it in a file.
//! Why: names and not places, so that a later version that counts more, or less, still reads what an earlier one kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format of [`Totals`]. One of a later format is not understood.
pub const FORMAT: u32 = 1;

/// Numbers by the name of their counter. What is not there is zero.
pub type Counts = BTreeMap<String, u64>;

/// All that was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// [`FORMAT`].
    pub format: u32,
    /// Of the process.
    pub process: Counts,
    /// Of listeners and sites, by kind and id.
    pub fronts: BTreeMap<String, Counts>,
    /// Of pools and endpoints, by kind and ids.
    pub backs: BTreeMap<String, Counts>,
}

impl Default for Totals {
    fn default() -> Self {
        Self { format: FORMAT, process: Counts::new(), fronts: BTreeMap::new(), backs: BTreeMap::new() }
    }
}
