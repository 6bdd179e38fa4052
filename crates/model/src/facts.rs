//! What variables tell about requests, by settings of a route.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_expr::settings::{self, Browsers};

use crate::{Pattern, Template};

/// Settings of variables that judge a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Facts {
    /// Links with a hash (`$secure_link`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_link: Option<SecureLink>,
    /// Rules about browsers (`$modern_browser`, `$ancient_browser`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browsers: Option<Arc<Browsers>>,
    /// Cookies that tell clients apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ids: Option<UserIds>,
    /// Pages that may refer here (`$invalid_referer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referers: Option<Referers>,
}

/// Cookies that tell clients apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserIds {
    /// The settings.
    pub rules: Arc<settings::UserIds>,
    /// If this is neither empty nor `0`, the number that a client came with does not hold any more.
    pub reset: Template,
}

/// How a link shows that it was made by somebody who may.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecureLink {
    /// A hash, and perhaps a time, that the request shows, and the text whose MD5 that hash is.
    Signed {
        /// `hash` or `hash,seconds since 1970`; the hash in base64url.
        shown: Template,
        /// The text.
        #[serde(
            skip_serializing_if = "weir_expr::form::is_brief",
            serialize_with = "weir_expr::form::secret"
        )]
        signed: Template,
    },
    /// The second part of the path is the MD5, in hexadecimal digits, of the rest and this word.
    Word(#[serde(serialize_with = "weir_expr::form::secret")] String),
}

/// Pages that may refer here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Referers {
    /// Requests without a Referer may.
    pub none: bool,
    /// A Referer that is no `http://` or `https://` URL may.
    pub blocked: bool,
    /// Hosts, each with what the path has to begin with; empty: any path.
    pub hosts: Vec<(RefererHost, String)>,
    /// Patterns of hosts (names of servers).
    pub host_patterns: Vec<Pattern>,
    /// Patterns of what follows `http://` or `https://`.
    pub patterns: Vec<Pattern>,
}

/// A name that hosts are compared with; lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefererHost {
    /// This one.
    Exact(String),
    /// Any that ends in a dot and this.
    Suffix(String),
    /// Any that begins with this and a dot.
    Prefix(String),
}
