//! Sockets on which an operator gives commands while running.

use serde::Serialize;

/// What whoever connects to such a socket may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlSocket {
    /// As it is shown: `unix@/run/x.sock`.
    pub name: String,
    /// What whoever connects may.
    pub level: ControlLevel,
}

/// What may begin in a second in the whole process; zero is no bound (HAProxy's `maxconnrate`, `maxsessrate` and `maxsslrate`).
/// What comes beyond it waits in the accept queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paces {
    /// Connections of clients.
    pub connections: u32,
    /// Of those, the ones that rules on connections let pass.
    pub sessions: u32,
    /// Connections to listeners with TLS.
    pub tls: u32,
}

impl Paces {
    /// Nothing is bounded.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}
