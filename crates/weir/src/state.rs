//! The file by which what was changed while running outlives the process.
//!
//! Owns: reading it at the start, writing it anew after each change.
//! Never: lets a file that is missing, broken or not writable keep anything from running.
//! Driven by: `adapter`, in the process that carries the traffic, with its rights.
//! Why: names of endpoints that cannot be looked up at the start would leave a gap that the process before did not have.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_control::Changes;
use weir_control::changes::{FORMAT, Record};

/// The largest file that is read. What may be changed has a bound, and less than a quarter of this when written.
const MOST: u64 = 64 << 20;

/// What an earlier process wrote, kept up to date from now on.
pub(crate) fn keep(path: &Path) -> Arc<Changes> {
    let record = read(path).unwrap_or_else(|error| {
        let aside = with_suffix(path, ".broken");
        let kept = match std::fs::rename(path, &aside) {
            Ok(()) => format!("it is now {}", aside.display()),
            Err(error) => format!("it stays until it is written anew: {error}"),
        };
        errln!(
            "weir: {}: {error}; what was changed before the start is not known, and the configuration decides; {kept}",
            path.display()
        );
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
    read_as(path, FORMAT)
}

/// What is in a file of a format that is known; nothing if there is no file.
pub(crate) fn read_as<T: DeserializeOwned + Default>(path: &Path, known: u32) -> io::Result<T> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    if file.take(MOST + 1).read_to_end(&mut bytes)? as u64 > MOST {
        return Err(io::Error::other(format!("it has more than {MOST} bytes")));
    }
    let written: Written = serde_json::from_slice(&bytes).map_err(misread)?;
    if written.format > known {
        return Err(io::Error::other(format!(
            "its format is {}, and this program knows formats up to {known}",
            written.format
        )));
    }
    serde_json::from_slice(&bytes).map_err(misread)
}

/// Says what is wrong with the text. Its messages quote what is in the wrong place, and that may be a key.
fn misread(error: serde_json::Error) -> io::Error {
    let (line, column) = (error.line(), error.column());
    match error.to_string() {
        said if said.contains("-----BEGIN") => {
            io::Error::other(format!("something is in the wrong place at line {line} column {column}"))
        }
        said => io::Error::other(said),
    }
}

/// What all formats have. Files from before there were several have none.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    format: u32,
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
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
        changes.note_written(revision);
        seen = revision;
    }
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    put(path, &serde_json::to_vec_pretty(record).map_err(io::Error::other)?)
}

/// Puts a file of this content in place of the one that is there; nobody else may read it.
pub(crate) fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    weir_rt::replace_file(path, content, 0o600)
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
        // One from before there were formats.
        std::fs::write(&path, "{\"names\": {\"app.test\": [\"192.0.2.1\"]}}").unwrap();
        assert_eq!(read(&path).unwrap(), record);
        for (text, why) in [
            ("{", "EOF"),
            ("{\"pols\": {}}", "unknown field `pols`"),
            ("{\"format\": 3, \"later\": 1}", "its format is 3"),
            (
                "{\"certificates\": {\"a\": \"-----BEGIN PRIVATE KEY-----\"}}",
                "in the wrong place at line 1 column 52",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = read(&path).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        File::create(&path).unwrap().set_len(MOST + 1).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("more than"));
        // It is set aside, and the next change is written.
        let changes = keep(&path);
        assert!(dir.path().join("state.broken").exists());
        changes.set_addresses("app.test", vec![[192, 0, 2, 1].into()]);
        changes.settle(Duration::from_secs(20));
        assert_eq!(read(&path).unwrap(), record);
    }
}
