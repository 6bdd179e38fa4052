//! Log targets, and lines on their way to them.
//!
//! Owns: the process's targets and error logs, each worker's buffers, the clocks that lines show.
//! Never: formats a line; `log` does.
//! Driven by: plans (targets), `log` (lines), one task a worker that sleeps while nothing is buffered.
//! Why: a worker never touches a file; it hands batches to the writer threads of [`LogHub`].

mod buffers;
mod targets;

pub(crate) use buffers::{Clock, WorkerLogs};
pub(crate) use targets::Targets;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_control::ConnectionId;
use weir_expr::settings::LogLevel;
use weir_plan::Plan;
use weir_telemetry::{ErrorLog, HubOptions, Level, LogClock, LogHub};

/// A log file that was opened with the rights of whoever started the process.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// Its path, as plans spell it.
    pub path: PathBuf,
    /// Open for appending.
    pub file: Arc<File>,
}

/// Log files that were opened beforehand. A log that is not among them is opened by its path.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    files: Vec<LogFile>,
}

impl FromIterator<LogFile> for LogFiles {
    fn from_iter<I: IntoIterator<Item = LogFile>>(files: I) -> Self {
        Self { files: files.into_iter().collect() }
    }
}

impl LogFiles {
    fn open(&self, path: &Path) -> Option<io::Result<File>> {
        let found = self.files.iter().find(|file| file.path == path)?;
        Some(found.file.try_clone())
    }
}

/// The process's logs.
pub(crate) struct Logs {
    hub: LogHub,
    files: Arc<Mutex<LogFiles>>,
    clock: LogClock,
    hostname: String,
    process: Mutex<Arc<[ErrorLog]>>,
    /// Lines that had nowhere to go.
    nowhere: AtomicU64,
    next_serial: AtomicU64,
}

impl Logs {
    /// Starts the writer threads and opens the error logs of the process.
    ///
    /// # Errors
    /// A thread or a log cannot be had.
    pub(crate) fn start(files: LogFiles, plan: &Plan) -> io::Result<Self> {
        let files = Arc::new(Mutex::new(files));
        let offered = files.clone();
        let opener = Arc::new(move |path: &Path| open(&offered, path));
        let logs = Self {
            hub: LogHub::start(HubOptions { opener, ..HubOptions::default() })?,
            files,
            clock: LogClock::local(),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            process: Mutex::new(Arc::default()),
            nowhere: AtomicU64::new(0),
            next_serial: AtomicU64::new(1),
        };
        let process = logs.process_logs(plan).map_err(io::Error::other)?;
        *lock(&logs.process) = process;
        Ok(logs)
    }

    /// Opens what a plan logs to; targets that are open already are shared.
    ///
    /// # Errors
    /// One line that names the log and the cause.
    pub(crate) fn targets_for(&self, plan: &Plan) -> Result<Targets, String> {
        Targets::open(self, plan)
    }

    /// Lines about the process go where this plan says, from now on.
    pub(crate) fn adopt(&self, targets: &Targets) {
        *lock(&self.process) = targets.process.clone();
    }

    /// Opens files anew: these, others by path.
    pub(crate) fn reopen(&self, files: LogFiles) {
        self.offer(files);
        self.hub.reopen();
    }

    /// Opens these files instead of opening by path, where a plan to come names them.
    pub(crate) fn offer(&self, files: LogFiles) {
        *lock(&self.files) = files;
    }

    /// Waits until what was handed over is written, at most this long.
    pub(crate) fn settle(&self, at_most: std::time::Duration) {
        self.hub.flush(at_most);
    }

    /// Writes a line about no request and no connection.
    pub(crate) fn process_error(&self, message: &str) {
        self.write(Level::Crit, None, message);
    }

    /// Writes a line about an event of the process.
    pub(crate) fn event(&self, level: Level, message: &str) {
        self.write(level, None, message);
    }

    /// Writes a line about a connection that has no request yet.
    pub(crate) fn connection(&self, level: Level, serial: u64, message: &str) {
        self.write(level, Some(ConnectionId(serial)), message);
    }

    fn write(&self, level: Level, connection: Option<ConnectionId>, message: &str) {
        let logs = lock(&self.process).clone();
        let now = unix_millis();
        for log in logs.iter() {
            log.log(now, level, connection, format_args!("{message}"));
        }
    }

    /// Lines that were dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.hub.dropped() + self.nowhere.load(Ordering::Relaxed)
    }

    /// Log lines that are kept in memory.
    pub(crate) fn rings(&self) -> Vec<Arc<weir_telemetry::log::Ring>> {
        self.hub.rings()
    }

    /// Counts a line that had nowhere to go.
    pub(crate) fn count_dropped(&self) {
        self.nowhere.fetch_add(1, Ordering::Relaxed);
    }
}

/// A file that was opened for us, or one opened by path.
fn open(offered: &Mutex<LogFiles>, path: &Path) -> io::Result<File> {
    if let Some(file) = lock(offered).open(path) {
        return file;
    }
    // As a file this would be opened anew, which a socket or another user's terminal refuses.
    if path == Path::new(targets::STDOUT) {
        return Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    }
    (HubOptions::default().opener)(path)
}

/// Level words of plans as levels of logs.
pub(crate) fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warn => Level::Warn,
        LogLevel::Error => Level::Error,
        LogLevel::Crit => Level::Crit,
        LogLevel::Alert => Level::Alert,
        LogLevel::Emerg => Level::Emerg,
    }
}

/// Milliseconds since 1970, on any thread.
pub(crate) fn unix_millis() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is behind these locks is replaced as a whole: a panic cannot have left it inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
