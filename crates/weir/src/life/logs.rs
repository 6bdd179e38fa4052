//! Log files, opened with the rights of whoever started us.
//!
//! Owns: which files a model logs to, and their descriptors.
//! Never: writes a line; formats one.
//! Driven by: `life::master` opens and reopens; the data plane takes what it needs from [`LogFiles`].
//! Why: after privileges are dropped the folder of the logs can no longer be written, but USR1 must still make new
//! files there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_diag::Diagnostic;
use weir_model::{AccessLog, ErrorLog, LogTarget, Model, SyslogServer};

use super::places;

/// Open log files by path, as the model writes the paths.
#[derive(Clone, Debug, Default)]
pub struct LogFiles {
    files: BTreeMap<PathBuf, Arc<File>>,
}

impl LogFiles {
    /// The open file for `path`, if the configuration names it.
    pub fn file(&self, path: &Path) -> Option<Arc<File>> {
        self.files.get(path).cloned()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Arc<File>)> {
        self.files.iter().map(|(path, file)| (path.as_path(), file))
    }

    pub(crate) fn insert(&mut self, path: PathBuf, file: Arc<File>) {
        self.files.insert(path, file);
    }

    /// Opens every file that `model` logs to. What cannot be opened is reported; the others are open.
    pub(crate) fn open(model: &Model) -> (Self, Vec<Diagnostic>) {
        let mut opened = Self::default();
        let mut failures = Vec::new();
        for path in paths_of(model) {
            match places::append(&path) {
                Ok(file) => opened.insert(path, Arc::new(file)),
                Err(error) => failures.push(open_failure(&path, &error)),
            }
        }
        (opened, failures)
    }

    /// Opens every file again by name. Where that fails the old one stays.
    pub(crate) fn reopen(&mut self) -> Vec<Diagnostic> {
        let mut failures = Vec::new();
        for (path, file) in &mut self.files {
            match places::append(path) {
                Ok(new) => *file = Arc::new(new),
                Err(error) => failures.push(open_failure(path, &error)),
            }
        }
        failures
    }
}

fn open_failure(path: &Path, error: &io::Error) -> Diagnostic {
    let cause = match error.raw_os_error() {
        Some(number) => format!("{number}: {}", nix::errno::Errno::from_raw(number).desc()),
        None => error.to_string(),
    };
    Diagnostic::error("process::open-log", format!("open() \"{}\" failed ({cause})", path.display()))
        .help("make the folder, or name another file")
}

/// Every file that `model` logs to.
pub(crate) fn paths_of(model: &Model) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    let mut errors = |logs: &[ErrorLog]| paths.extend(logs.iter().filter_map(|log| file_of(&log.target)));
    errors(&model.process.error_logs);
    model.routes.iter().filter_map(|route| route.error_logs.as_deref()).for_each(|logs| errors(logs));
    model.tcp.iter().filter_map(|tcp| tcp.error_logs.as_deref()).for_each(|logs| errors(logs));
    let mut accesses = |logs: &[AccessLog]| paths.extend(logs.iter().filter_map(|log| file_of(&log.target)));
    model.routes.iter().for_each(|route| accesses(&route.access_logs));
    model.tcp.iter().for_each(|tcp| accesses(&tcp.access_logs));
    paths
}

fn file_of(target: &LogTarget) -> Option<PathBuf> {
    match target {
        LogTarget::File(path) => Some(path.clone()),
        // What it is now: in the background it will be another.
        LogTarget::Stdout | LogTarget::Syslog { server: SyslogServer::Stdout, .. } => {
            Some("/dev/stdout".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn reopening_follows_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut logs = LogFiles::default();
        logs.insert(path.clone(), Arc::new(places::append(&path).unwrap()));
        std::fs::rename(&path, dir.path().join("a.log.1")).unwrap();
        assert!(logs.reopen().is_empty());
        let file = logs.file(&path).unwrap();
        (&*file).write_all(b"new\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new\n");
    }
}
