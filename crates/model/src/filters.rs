//! What is done to the bodies of responses on their way to the client, other than compression.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_expr::settings::CompressionSettings;

use crate::{Charset, HeaderEdit, Template, Var};

/// Filters of a route's response bodies, and what follows a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodyFilters {
    /// What is said about charsets, and done to bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<Charset>,
    /// Text is replaced by other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<Replace>,
    /// Bodies in gzip are unpacked for clients that these settings would not compress for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Arc<CompressionSettings>>,
    /// Bodies of other requests around the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addition: Option<Addition>,
    /// Pages are searched for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<PageCommands>,
    /// Most bytes of a body that becomes a value of such a command; `None`: as many as is usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_kept: Option<u64>,
    /// Trailers of our own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<HeaderEdit>,
}

/// Replacing text in bodies (nginx `sub_filter`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replace {
    /// `(what is looked for, what takes its place)`. Case does not count. Where two are found at one place the first wins.
    pub pairs: Vec<(Template, Template)>,
    /// Media types whose bodies are searched, lower case; `*` for all.
    pub types: Vec<String>,
    /// Each of them is replaced only where it is found first.
    pub once: bool,
    /// `Last-Modified` is kept and the ETag is weakened; otherwise both go.
    pub keeps_validators: bool,
}

/// Bodies of other requests around the body of a response (nginx `add_before_body`, `add_after_body`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Addition {
    /// The path of the site whose body comes before it.
    pub before: Option<String>,
    /// The path of the site whose body comes behind it.
    pub after: Option<String>,
    /// Media types of responses that this is done to, lower case; `*` for all.
    pub types: Vec<String>,
}

/// Commands in pages (nginx `ssi`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageCommands {
    /// Media types of pages that are searched, lower case; `*` for all.
    pub types: Vec<String>,
    /// `Last-Modified` is kept and the ETag is weakened; otherwise both go.
    pub keeps_validators: bool,
    /// A command that fails leaves no text.
    pub silent: bool,
    /// Most bytes of a parameter's value.
    pub value_length: u64,
    /// What names in them stand for, beside the variables of the configuration.
    #[serde(default, skip_serializing_if = "weir_expr::form::is_brief")]
    pub names: Arc<Vocabulary>,
}

/// The built-in variables of a language, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vocabulary {
    /// Names as they are.
    pub whole: Vec<(String, Var)>,
    /// Beginnings of names, and variables whose own name is the rest.
    pub prefixes: Vec<(String, Var)>,
}
