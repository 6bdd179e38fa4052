//! What belongs to the process as a whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::ErrorLog;

/// The process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Process {
    /// Worker threads; `None`: one for each CPU that the process may use.
    pub workers: Option<u16>,
    /// User and group that the data plane runs as when started as root.
    pub user: Option<User>,
    /// Where the process id is written.
    pub pid_file: Option<PathBuf>,
    /// Detach from the terminal.
    pub daemon: bool,
    /// Limit of open files asked for.
    pub open_files: Option<u64>,
    /// Connections of one worker, clients and upstreams together.
    pub connections_per_worker: Option<u64>,
    /// Client connections of the whole process.
    pub max_connections: Option<u64>,
    /// Most bytes of memory in use (resident, not backed by files); above it accepting pauses and requests that begin
    /// get 503. `None`: half of what machine and control group grant.
    pub memory_budget: Option<u64>,
    /// Error logs; never empty.
    pub error_logs: Arc<[ErrorLog]>,
    /// Draining ends after this; `None`: never by itself.
    pub shutdown_timeout: Option<Duration>,
    /// Change the root folder after start.
    pub chroot: Option<PathBuf>,
    /// Working directory.
    pub working_directory: Option<PathBuf>,
    /// Text for status pages.
    pub description: Option<String>,
    /// Folder that relative paths of the file were resolved against.
    pub prefix: PathBuf,
}

/// User and group by name or number, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    /// User.
    pub user: String,
    /// Group; the user's own if not given.
    pub group: Option<String>,
}
