//! What the command line asked for, whichever program's flags it was written in.
//!
//! Owns: [`Launch`] and its parts. Plain data: the keeper sends it to the data plane as it is.
//! Never: reads a file.
//! Driven by: `cli` writes it; `life` and `compile` read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::compile::layer::Layer;
use crate::compile::text::Text;

/// Whose contract is kept: flags, signals, messages, exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// `weir run`.
    Weir,
    /// `weir nginx`, or a link called `nginx`.
    Nginx,
    /// `weir haproxy`, or a link called `haproxy`.
    Haproxy,
}

/// The language of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dialect {
    /// nginx.conf.
    Nginx,
    /// haproxy.cfg.
    Haproxy,
    /// weir.yaml.
    Native,
}

/// Which driver the data plane's sockets use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Io {
    /// io_uring; epoll where it is refused.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

impl std::str::FromStr for Io {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            other => Err(format!("`{other}` is not one of auto, uring, epoll")),
        }
    }
}

/// What becomes of system calls that a data plane under a keeper has no use for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sandbox {
    /// They fail, and the kernel logs them.
    #[default]
    On,
    /// The kernel logs them, and they are carried out: to find out what would be refused.
    Log,
    /// Nothing.
    Off,
}

impl Sandbox {
    /// The variable that sets it, for command lines that have no flag for it.
    pub(crate) const VARIABLE: &str = "WEIR_SANDBOX";

    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Log => "log",
            Self::Off => "off",
        }
    }

    /// As the environment has it.
    pub(crate) fn from_environment() -> Self {
        let word = std::env::var(Self::VARIABLE).unwrap_or_default();
        [Self::Log, Self::Off].into_iter().find(|one| one.word() == word).unwrap_or_default()
    }
}

/// Where the configuration is, and what the command line adds to it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sourcing {
    /// Files, and (HAProxy) folders, in order.
    pub(crate) paths: Vec<PathBuf>,
    /// nginx `-p`.
    pub(crate) prefix: Option<PathBuf>,
    /// nginx `-g`.
    pub(crate) globals: Option<String>,
    /// nginx `-e`.
    pub(crate) error_log: Option<PathBuf>,
    /// The language, where the command line tells; else the text tells.
    pub(crate) dialect: Option<Dialect>,
    /// Whoever started us may bind ports below 1024, which decides where an nginx server without `listen` is reached.
    pub(crate) low_ports: bool,
    /// Where an nginx.conf logs requests if it does not say; decided at start, so that reloads agree.
    pub(crate) default_access_log: PathBuf,
    /// HAProxy's `-L`; the host's name if it is not given.
    pub(crate) local_peer: Option<String>,
}

/// What becomes of the processes named by HAProxy's `-sf` and `-st` once our ports are bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OldOnes {
    /// They finish what they have (`-sf`, USR1).
    #[default]
    Finish,
    /// They end at once (`-st`, TERM).
    Terminate,
}

/// The admin API: where it answers, and what it keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admin {
    /// Addresses: `unix:PATH`, or one of loopback with its port.
    pub(crate) addresses: Vec<String>,
    /// The file of tokens.
    pub(crate) tokens: Option<PathBuf>,
    /// Where versions of the configuration are kept over restarts.
    pub(crate) versions: Option<PathBuf>,
    /// Where it is logged who changed what, besides the error log.
    pub(crate) log: Option<PathBuf>,
}

impl Admin {
    /// The variables that set it, for command lines that have no flags for it.
    pub(crate) const ADDRESS: &str = "WEIR_ADMIN";
    pub(crate) const TOKENS: &str = "WEIR_ADMIN_TOKENS";
    pub(crate) const VERSIONS: &str = "WEIR_ADMIN_VERSIONS";
    pub(crate) const LOG: &str = "WEIR_ADMIN_LOG";

    fn from_environment() -> Option<Self> {
        let path = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(absolute);
        let addresses = std::env::var(Self::ADDRESS).unwrap_or_default();
        let addresses = addresses.split(',').map(str::trim).filter(|one| !one.is_empty());
        let addresses: Vec<String> = addresses.map(str::to_owned).collect();
        (!addresses.is_empty()).then(|| Self {
            addresses,
            tokens: path(Self::TOKENS),
            versions: path(Self::VERSIONS),
            log: path(Self::LOG),
        })
    }
}

/// One start of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Whose contract is kept.
    pub(crate) manner: Manner,
    /// The configuration.
    pub(crate) sourcing: Sourcing,
    /// Overrides what the configuration says about detaching.
    pub(crate) daemon: Option<bool>,
    /// HAProxy's `-W` or `-Ws`: HUP reloads as well.
    pub(crate) master_worker: bool,
    /// HAProxy's `-S`: where the master takes commands.
    pub(crate) master_socket: Option<String>,
    /// Overrides the configuration's pid file.
    pub(crate) pid_file: Option<PathBuf>,
    /// HAProxy's `-sf`, `-st`.
    pub(crate) old_pids: Vec<i32>,
    /// What becomes of them.
    pub(crate) old_ones: OldOnes,
    /// HAProxy's `-x`: the `stats socket` of the process that listens now.
    pub(crate) sockets_from: Option<String>,
    /// Driver.
    pub(crate) io: Io,
    /// Of the data plane under a keeper, and of the process that looks up names.
    pub(crate) sandbox: Sandbox,
    /// Overrides the number of workers.
    pub(crate) workers: Option<u16>,
    /// HAProxy's `-n`.
    pub(crate) max_connections: Option<u64>,
    /// HAProxy's `-m`, in bytes.
    pub(crate) memory: Option<u64>,
    /// Where what changes while running is kept over restarts.
    pub(crate) state: Option<PathBuf>,
    /// The admin API, if there is to be one. A data plane that is kept apart has no part in it.
    #[serde(skip)]
    pub(crate) admin: Option<Admin>,
    /// What it decides over what the files say.
    #[serde(skip)]
    pub(crate) layer: Arc<Layer>,
    /// A configuration in place of the files.
    #[serde(skip)]
    pub(crate) text: Option<Arc<Text>>,
    /// Say nothing but errors.
    pub(crate) quiet: bool,
    /// Certificates and keys that cannot be read are warnings: the plan is shown, and never run.
    pub(crate) tolerate_unreadable_files: bool,
}

impl Launch {
    /// A start in the foreground with nothing overridden.
    pub(crate) fn new(manner: Manner, sourcing: Sourcing) -> Self {
        Self {
            manner,
            sourcing: Sourcing {
                low_ports: rustix::process::geteuid().is_root(),
                default_access_log: default_access_log(manner).into(),
                ..sourcing
            },
            daemon: None,
            master_worker: false,
            master_socket: None,
            pid_file: None,
            old_pids: Vec::new(),
            old_ones: OldOnes::default(),
            sockets_from: None,
            io: io_from_environment(),
            sandbox: Sandbox::from_environment(),
            workers: None,
            max_connections: None,
            memory: None,
            state: std::env::var_os(STATE).map(absolute),
            admin: Admin::from_environment(),
            layer: Arc::default(),
            text: None,
            quiet: false,
            tolerate_unreadable_files: false,
        }
    }

    /// For looking at one file.
    pub(crate) fn of_file(file: PathBuf, prefix: Option<PathBuf>) -> Self {
        Self::new(Manner::Weir, Sourcing { paths: vec![file], prefix, ..Sourcing::default() })
    }

    /// The file that messages name.
    pub(crate) fn main_path(&self) -> PathBuf {
        self.sourcing.paths.first().cloned().unwrap_or_default()
    }
}

/// nginx's own, and in `weir run`'s manner none where that cannot be written: a person who tries a file as themselves
/// has no /var/log/nginx.
fn default_access_log(manner: Manner) -> &'static str {
    let log = Path::new("/var/log/nginx/access.log");
    let place = if log.exists() { log } else { Path::new("/var/log/nginx") };
    match manner == Manner::Weir && rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_err() {
        true => NO_LOG,
        false => "/var/log/nginx/access.log",
    }
}

/// The variable that names the file of what changes, for command lines that have no flag for it.
pub(crate) const STATE: &str = "WEIR_STATE";

/// A path that means the same whatever folder is entered later.
pub(crate) fn absolute(path: impl Into<PathBuf>) -> PathBuf {
    let path = path.into();
    std::path::absolute(&path).unwrap_or(path)
}

/// Where lines go that nobody keeps.
pub(crate) const NO_LOG: &str = "/dev/null";

/// `WEIR_IO`, for command lines that have no flag for it.
fn io_from_environment() -> Io {
    std::env::var("WEIR_IO").ok().and_then(|word| word.parse().ok()).unwrap_or_default()
}
