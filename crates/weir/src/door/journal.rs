//! Who did what through the admin API.
//!
//! Owns: the last entries, the lines that wait for the error log, the audit file.
//! Never: waits for a disk while it keeps others waiting longer than a line takes; takes a text that could break a line.
//! Driven by: `desk`.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::report::printable;

/// Entries that are kept in memory.
const KEPT: usize = 1000;

/// Most characters of one text of an entry.
const LONGEST: usize = 500;

/// An entry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    /// RFC 3339.
    pub(super) time: String,
    pub(super) who: String,
    pub(super) what: String,
    pub(super) outcome: String,
}

/// See the module.
#[derive(Default)]
pub(super) struct Journal {
    all: VecDeque<Entry>,
    lines: VecDeque<String>,
    file: Option<PathBuf>,
    open: Option<File>,
}

impl Journal {
    /// With a file, which is made if there is none.
    ///
    /// # Errors
    /// One line: it cannot be written.
    pub(super) fn with_file(path: &Path) -> Result<Self, String> {
        let file = open(path)
            .map_err(|error| format!("the audit log {} cannot be written: {error}", path.display()))?;
        Ok(Self { file: Some(path.into()), open: Some(file), ..Self::default() })
    }

    /// Adds an entry.
    pub(super) fn note(&mut self, who: &str, what: &str, outcome: &str) {
        let short = |text: &str| printable(&text.chars().take(LONGEST).collect::<String>());
        let time = now();
        let entry = Entry { time, who: short(who), what: short(what), outcome: short(outcome) };
        self.lines.push_back(format!("admin: {}: {}: {}", entry.who, entry.what, entry.outcome));
        self.write(&entry);
        self.all.push_back(entry);
        if self.all.len() > KEPT {
            self.all.pop_front();
        }
        // Nobody writes faster than the master reads, but for a master that is gone.
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
    }

    fn write(&mut self, entry: &Entry) {
        let (Some(path), Ok(mut line)) = (&self.file, serde_json::to_vec(entry)) else { return };
        line.push(b'\n');
        if let Some(why) = self.open.as_mut().and_then(|file| file.write_all(&line).err()) {
            self.lines.push_back(format!("admin: the audit log {} cannot be written: {why}", path.display()));
        }
    }

    /// Goes on in a file of the same name: the one before was renamed.
    pub(super) fn reopen(&mut self) {
        let Some(path) = &self.file else { return };
        match open(path) {
            Ok(file) => self.open = Some(file),
            Err(why) => {
                self.lines
                    .push_back(format!("admin: the audit log {} cannot be opened: {why}", path.display()));
            }
        }
    }

    /// The next line for the error log.
    pub(super) fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// The last entries, oldest first.
    pub(super) fn all(&self) -> Vec<Entry> {
        self.all.iter().cloned().collect()
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The time as logs and versions have it (RFC 3339).
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
