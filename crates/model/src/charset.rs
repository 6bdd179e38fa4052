//! Charsets of responses, and conversion between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::Template;

/// What is said about charsets, and done to bodies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Charset {
    /// The charset that responses are to have.
    pub name: Template,
    /// The charset of bodies that do not say theirs; `None`: they are not converted.
    pub source: Option<Template>,
    /// Responses of upstream servers that say their charset are converted, too.
    pub overrides: bool,
    /// Media types that are spoken of, lower case; `*` for all.
    pub types: Arc<Vec<String>>,
    /// Ways from one charset to another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maps: Arc<Vec<CharsetMap>>,
}

/// A way from a charset of single bytes to another or to UTF-8, and back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CharsetMap {
    /// The one.
    pub from: String,
    /// The other.
    pub to: String,
    /// What stands for a byte: a byte, or a character in UTF-8 if `to` is that.
    #[serde(skip)]
    pub pairs: BTreeMap<u8, Vec<u8>>,
}
