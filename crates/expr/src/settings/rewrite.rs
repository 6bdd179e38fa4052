//! Changes of targets and cookies.

use serde::{Deserialize, Serialize};

/// What follows a rewrite that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewriteFlag {
    /// The next instruction; afterwards a route is searched for the new path.
    Continue,
    /// End; a route is searched for the new path.
    Last,
    /// End; the route stays.
    Break,
    /// 302 to the replacement.
    Redirect,
    /// 301 to the replacement.
    Permanent,
}

/// A part of the request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPart {
    /// Path without query.
    Path,
    /// Path with query.
    PathAndQuery,
    /// The whole target.
    Target,
}

/// Cookie attributes that are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CookieAttribute {
    /// `Domain`.
    Domain,
    /// `Path`.
    Path,
    /// The attributes that are no places: of a cookie that is found by its name.
    Flags(CookieFlags),
}

/// What becomes of a cookie's flags. `None`: they stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CookieFlags {
    /// `Secure` is set, or taken away.
    pub secure: Option<bool>,
    /// `HttpOnly`.
    pub http_only: Option<bool>,
    /// `SameSite`.
    pub same_site: Option<SameSite>,
}

/// What `SameSite` becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// It goes.
    Away,
    /// `Strict`.
    Strict,
    /// `Lax`.
    Lax,
    /// `None`.
    None,
}
