//! Sockets on which an operator gives commands while running, or peers call; what may begin in a second.

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
    /// What it is for.
    #[serde(skip_serializing_if = "ControlPurpose::are_commands")]
    pub purpose: ControlPurpose,
    /// The process that takes this one's place may ask for the listening sockets (HAProxy's `expose-fd listeners`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exposes: bool,
}

impl ControlPurpose {
    fn are_commands(&self) -> bool {
        *self == Self::Commands
    }
}

/// What may begin in a second in the whole process; zero is no bound (HAProxy's `maxconnrate`, `maxsessrate` and `maxsslrate`).
/// What comes beyond it waits in the accept queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a socket that is no listener is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlPurpose {
    /// An operator gives commands on it.
    #[default]
    Commands,
    /// Other processes pass entries of stick tables on to it: those of the group of this name.
    Peers(String),
}

/// Processes that pass entries of stick tables on to one another (HAProxy's `peers`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerGroup {
    /// Name.
    pub name: String,
    /// What this process is called among them.
    pub own: String,
    /// The others.
    pub others: Vec<Peer>,
    /// What they share.
    pub tables: Vec<PeerTable>,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// What it is called.
    pub name: String,
    /// Where it is called.
    pub address: std::net::SocketAddr,
}

/// A stick table that is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTable {
    /// Its name here.
    pub table: String,
    /// Its name among peers.
    pub shared_as: String,
    /// What of its form its definition here does not tell.
    pub form: PeerForm,
    /// Others are told nothing of it (HAProxy `recv-only`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub receive_only: bool,
    /// The table that servers and tags which others tell of are noted in, too (HAProxy `write-to`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also_in: Option<String>,
}

/// What peers have to be told of a table's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerForm {
    /// The size of its keys.
    pub key_size: u32,
    /// General tags, counters and their rates are stored as arrays.
    pub arrays: [bool; 3],
}
