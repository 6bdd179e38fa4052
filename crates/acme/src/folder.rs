//! The folder in which an issuer's account, certificates and keys outlive the process.
//!
//! Owns: its files, each written whole or not at all, none readable by others; the lock that lets one process order.
//! Never: reads more than [`LARGEST`] of a file.
//! Driven by: `desk`, `order`, `side`.
//! Why chain and key are in one file: a chain with the key of another is what nobody can use, and two files cannot be
//! exchanged at once.
//!
//! | file | holds |
//! |---|---|
//! | `account.key`, `account.json` | the key, and the account that the authority has for it |
//! | `NAME-HASH.pem` | a key and its chain |
//! | `NAME-HASH.order` | an order that was begun, with its key |
//! | `answers/TOKEN` | what answers a challenge HTTP-01, for whichever process is asked |
//! | `proofs/NAME` | the same for TLS-ALPN-01 |
//! | `lock` | is held by the process that orders |

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Most bytes of a file.
const LARGEST: u64 = 1 << 20;

/// Most files that are looked through.
const MOST: usize = 10_000;

/// A folder. It is made when something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct Held {
    _file: File,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside.
    pub(crate) fn inside(&self, name: &str) -> Self {
        Self { path: self.path.join(name) }
    }

    fn make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// What a file holds; `None`: there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match File::open(self.path.join(name)) {
            Ok(file) => file.take(LARGEST).read_to_end(&mut bytes).map(|_| Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::read`], of what is text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.read(name).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    /// Writes a file anew: whoever reads it finds what was, or what is.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.make()?;
        let new = self.path.join(format!(".{name}.{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&new, self.path.join(name))?;
            // The name is in the folder once that is on the disk, too.
            File::open(&self.path)?.sync_all()
        });
        written.inspect_err(|_| drop(std::fs::remove_file(&new)))
    }

    /// Removes a file that may be there.
    pub(crate) fn remove(&self, name: &str) {
        let _ = std::fs::remove_file(self.path.join(name));
    }

    /// Names of files.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        all.take(MOST).filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Lets nobody else order, if nobody does; `None`: another process does.
    pub(crate) fn lock(&self) -> io::Result<Option<Held>> {
        self.make()?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_whole_and_nobody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(&dir.path().join("state"));
        assert_eq!(folder.read("a").unwrap(), None);
        folder.write("a", b"1").unwrap();
        folder.write("a", b"2").unwrap();
        assert_eq!(folder.text("a").as_deref(), Some("2"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.path()), mode(&folder.path().join("a"))), (0o700, 0o600));
        assert_eq!(folder.names(), ["a"]);
        folder.remove("a");
        assert!(folder.names().is_empty());
    }

    #[test]
    fn one_process_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let held = folder.lock().unwrap().unwrap();
        assert!(folder.lock().unwrap().is_none());
        drop(held);
        assert!(folder.lock().unwrap().is_some());
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error() {
        let folder = Folder::new(Path::new("/proc/none/state"));
        assert!(folder.write("a", b"1").is_err() && folder.lock().is_err());
    }
}
