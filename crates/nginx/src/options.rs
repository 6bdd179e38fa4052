//! What the command line and the machine say beside the file.

use std::path::PathBuf;

/// What the command line and the machine say beside the file.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder that relative paths of data belong to (`-p`).
    pub prefix: PathBuf,
    /// Directives outside of the file (`-g`).
    pub directives: Option<String>,
    /// Error log until the file names one (`-e`); `stderr` for standard error.
    pub error_log: Option<PathBuf>,
    /// Access log where the file names none.
    pub access_log: PathBuf,
    /// Pid file where the file names none; `None`: none is written.
    pub pid_file: Option<PathBuf>,
    /// Ports below 1024 can be bound: a server without `listen` is reached at 80 instead of 8000.
    pub privileged: bool,
    /// Name of the machine, for `server_name $hostname`.
    pub hostname: String,
}

impl Default for Options {
    /// Debian's paths.
    fn default() -> Self {
        Self {
            prefix: "/usr/share/nginx".into(),
            directives: None,
            error_log: None,
            access_log: "/var/log/nginx/access.log".into(),
            pid_file: Some("/run/nginx.pid".into()),
            privileged: true,
            hostname: "localhost".into(),
        }
    }
}
