//! The file by which what was changed while running outlives the process.
//!
//! Owns: reading it at the start, writing it anew after each change.
//! Never: lets a file that is missing, broken or not writable keep anything from running.
//! Driven by: `carrier`, in the process that carries the traffic, with its rights.
//! Why: names of endpoints that cannot be looked up at the start would leave a gap that the process before did not have.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_control::Changes;
use weir_control::changes::Record;

/// What an earlier process wrote, kept up to date from now on.
pub(crate) fn keep(path: &Path) -> Arc<Changes> {
    let record = read(path).unwrap_or_else(|error| {
        errln!("weir: {}: {error}; what was changed before is not known", path.display());
        Record::default()
    });
    let changes = Arc::new(Changes::new(record));
    let (kept, path) = (changes.clone(), path.to_owned());
    let spawned = std::thread::Builder::new().name("weir-state".into()).spawn(move || follow(&kept, &path));
    if let Err(error) = spawned {
        errln!("weir: no thread keeps what changes: {error}");
    }
    changes
}

fn read(path: &Path) -> io::Result<Record> {
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
        Err(error) => Err(error),
    }
}

/// Writes each change, until the process ends.
fn follow(changes: &Changes, path: &Path) {
    let mut seen = 0;
    loop {
        let (revision, record) = changes.wait(seen, Duration::from_secs(3600));
        if revision != seen
            && let Err(error) = write(path, &record)
        {
            errln!("weir: {}: {error}; what changes will be forgotten at the end", path.display());
        }
        seen = revision;
    }
}

/// Writes a file beside it and renames that, so that no reader meets half of it.
fn write(path: &Path, record: &Record) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // Whatever has this name is not ours to follow.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(record).map_err(io::Error::other)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_again_and_what_cannot_be_read_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(read(&path).unwrap(), Record::default(), "a first start has none");
        let mut record = Record::default();
        record.names.insert("app.test".into(), vec![[192, 0, 2, 1].into()]);
        // What lies in the way, a link to somebody else's file, is not written to.
        let other = dir.path().join("other");
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("state.new")).unwrap();
        write(&path, &record).unwrap();
        assert_eq!(read(&path).unwrap(), record);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
        std::fs::write(&path, "{").unwrap();
        assert!(read(&path).is_err());
    }
}
