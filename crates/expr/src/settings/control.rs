//! Sockets on which an operator gives commands while running.

use serde::{Deserialize, Serialize};

/// What whoever connects to such a socket may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlLevel {
    /// See figures.
    User,
    /// See everything.
    #[default]
    Operator,
    /// Change things.
    Admin,
}

/// One such socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlSocket {
    /// As it is shown: `unix@/run/x.sock`.
    pub name: String,
    /// What whoever connects may.
    pub level: ControlLevel,
}
