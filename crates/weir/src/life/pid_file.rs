//! The pid file.
//!
//! Owns: writing it once ports are bound, and removing it at the end, if it is still ours.
//! Never: decides that another process runs because a file says so; ports do that.
//! Driven by: `life::master`, and `cli::signal`, which reads it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::places::{self, Place};

/// More than any process id takes.
const LONGEST: usize = 64;

/// A pid file that we wrote.
pub(crate) struct PidFile {
    place: Place,
    file: File,
}

impl PidFile {
    /// Writes our id, over whatever a process that is gone may have left.
    pub(crate) fn write(path: &Path) -> io::Result<Self> {
        let (place, file) = places::write(path, &format!("{}\n", std::process::id()))?;
        Ok(Self { place, file })
    }

    /// Nobody has written another id into it.
    fn is_ours(&self) -> bool {
        let mut text = [0; LONGEST];
        let length = self.file.read_at(&mut text, 0).unwrap_or(0);
        text[..length].trim_ascii() == std::process::id().to_string().as_bytes()
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.is_ours() {
            // It may be in a folder that only allows writing the file; then it stays, and is stale.
            let _ = self.place.remove(&self.file);
        }
    }
}

/// The first id in a pid file.
pub(crate) fn read(path: &Path) -> io::Result<i32> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let mut text = String::new();
    file.take(LONGEST as u64).read_to_string(&mut text)?;
    let word = text.split_whitespace().next().unwrap_or("");
    match word.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("invalid PID number \"{word}\" in \"{}\"", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.pid");
        std::fs::write(&path, "999999\n").unwrap();
        drop(PidFile::write(&path).unwrap());
        assert!(!path.exists());
        let ours = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(ours);
        assert_eq!(read(&path).unwrap(), 1);
    }

    #[test]
    fn a_file_without_a_number_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weir.pid");
        for text in ["", "x", "0", "-4"] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_err(), "{text:?}");
        }
    }
}
