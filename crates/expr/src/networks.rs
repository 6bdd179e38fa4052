//! Databases of networks (MaxMind DB).

use serde::{Deserialize, Serialize};

/// What is wanted of such a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabasePart {
    /// What an address's entry has at the end of this path: keys of maps, and places in lists.
    Entry(Vec<String>),
    /// When the database was made, in seconds since 1970.
    BuildTime,
    /// When it was last looked whether there is a newer one.
    LastCheck,
    /// When it was last read.
    LastChange,
}
