//! What belongs to the process as a whole, as far as the data plane asks for it.
//!
//! Never: user, folders, pid file and the like; who starts the data plane sees to them, and asks the model.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weir_expr::settings::{ControlSocket, Paces, PeerGroup};

use crate::ErrorLog;

/// The process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Process {
    /// Connections of one worker, clients and upstreams together.
    pub connections_per_worker: Option<u64>,
    /// Client connections of the whole process.
    pub max_connections: Option<u64>,
    /// Client connections, sessions and TLS handshakes that begin in a second.
    #[serde(skip_serializing_if = "Paces::are_none")]
    pub paces: Paces,
    /// Most bytes of memory in use (resident, not backed by files); above it accepting pauses and requests that begin
    /// get 503. `None`: half of what machine and control group grant.
    pub memory_budget: Option<u64>,
    /// Values that rules keep in the process, as they are at the start.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub kept: Box<[(Box<str>, weir_expr::KeptValue)]>,
    /// Error logs; never empty.
    pub error_logs: Arc<[ErrorLog]>,
    /// There is a page that shows single requests: those in flight, slow ones, failed ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shows_requests: bool,
    /// Sockets for commands while running.
    #[serde(skip_serializing_if = "Control::is_absent")]
    pub control: Control,
}

/// Commands while running.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Control {
    /// The sockets, in the order in which they follow the listeners' own.
    pub sockets: Vec<ControlSocket>,
    /// Idle time of a connection.
    pub timeout: Duration,
    /// Connections at once.
    pub connections: u32,
    /// Processes that stick tables are shared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerGroup>,
}

impl Control {
    fn is_absent(&self) -> bool {
        self.sockets.is_empty() && self.peers.is_empty()
    }
}
