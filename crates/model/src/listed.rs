//! Lists of keys, perhaps with values, that change while running.

use serde::{Deserialize, Serialize};
use weir_diag::Origin;

use crate::{KeyListId, KeyMatch};

/// A list as a file begins it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyList {
    /// The path of the file, as written.
    pub name: String,
    /// Keys have values.
    pub values: bool,
    /// What uses it, for people.
    pub about: String,
    /// Keys and values in order. One key may stand several times.
    pub entries: Vec<(String, String)>,
    /// Where it is first named.
    #[serde(skip_serializing, default)]
    pub origin: Origin,
}

/// A way in which a list is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyUse {
    /// The list.
    pub list: KeyListId,
    /// How a value and its keys compare.
    pub how: KeyMatch,
    /// Letters compare without regard to case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
}
