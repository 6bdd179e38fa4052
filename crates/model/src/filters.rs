//! What is done to the bodies of responses on their way to the client, other than compression.

use std::sync::Arc;

use serde::Serialize;
use weir_expr::settings::GzipSettings;

use crate::{Charset, HeaderEdit, Template};

/// Filters of a route's response bodies, and what follows a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BodyFilters {
    /// What is said about charsets, and done to bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<Charset>,
    /// Text is replaced by other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<Replace>,
    /// Bodies in gzip are unpacked for clients that these settings would not compress for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Arc<GzipSettings>>,
    /// Bodies of other requests around the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addition: Option<Addition>,
    /// Trailers of our own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<HeaderEdit>,
}

/// Replacing text in bodies (nginx `sub_filter`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Addition {
    /// The path of the site whose body comes before it.
    pub before: Option<String>,
    /// The path of the site whose body comes behind it.
    pub after: Option<String>,
    /// Media types of responses that this is done to, lower case; `*` for all.
    pub types: Vec<String>,
}
