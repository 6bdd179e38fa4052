//! Charsets of responses, and conversion between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Template;

/// What is said about charsets, and done to bodies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CharsetMap {
    /// The one.
    pub from: String,
    /// The other.
    pub to: String,
    /// What stands for a byte: a byte, or a character in UTF-8 if `to` is that.
    #[serde(default, skip_serializing_if = "weir_expr::form::is_brief", with = "pairs")]
    pub pairs: BTreeMap<u8, Vec<u8>>,
}

/// Pairs as a list: keys of documents are texts.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(serde::Serialize, Deserialize)]
    struct Bytes(#[serde(with = "weir_expr::form::bytes")] Vec<u8>);

    pub(super) fn serialize<S: Serializer>(
        pairs: &BTreeMap<u8, Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(byte, text)| (byte, Bytes(text.clone()))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u8, Vec<u8>>, D::Error> {
        let pairs = Vec::<(u8, Bytes)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(byte, text)| (byte, text.0)).collect())
    }
}
