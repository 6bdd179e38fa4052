//! Tokens that clients show (nginx's auth_jwt module).

use serde::{Deserialize, Serialize};

/// What kind of token is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A signed one (RFC 7515).
    #[default]
    Signed,
    /// An encrypted one (RFC 7516), whose content are claims.
    Encrypted,
    /// An encrypted one, whose content is a signed one.
    Nested,
}
