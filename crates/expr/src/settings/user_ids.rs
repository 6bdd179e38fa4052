//! Cookies that tell clients apart (nginx's userid module).

use serde::{Deserialize, Serialize};

/// How clients are told apart by a cookie.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UserIds {
    /// What is done.
    pub mode: UserIdMode,
    /// Says in new numbers who made them; `None`: nobody, or the address that the client asked.
    pub service: Option<u32>,
    /// The cookie's name.
    pub name: String,
    /// When the cookie ends.
    pub expires: UserIdExpires,
    /// Its other attributes, each after `; `.
    pub attributes: String,
    /// The value of the field P3P beside it; none if empty.
    pub p3p: String,
    /// What stands in the place of the first `=` that pads it. A cookie with another mark is set again.
    pub mark: Option<u8>,
}

/// What is done with such cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserIdMode {
    /// Those that come are read; none is set.
    Read,
    /// They are set in their first form.
    First,
    /// They are set in their second form, the same on machines of either byte order.
    Second,
}

/// When such a cookie ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserIdExpires {
    /// With the browser.
    Session,
    /// At the end of 2037.
    Latest,
    /// After so many seconds.
    After(u64),
}
