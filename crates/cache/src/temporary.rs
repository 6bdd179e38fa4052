//! The folder of files that are being written.
//!
//! Owns: one folder for each process inside the store's, held by a lock for as long as the process lives.
//! Why: an object gets its name by a rename, which must not cross file systems. What a killed process left is told by
//! its lock, which the kernel let go of.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Names of these folders begin so.
const PREFIX: &str = ".weir-";

/// Folders of this process so far.
static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// The folder.
#[derive(Default)]
pub(crate) struct Temporary {
    /// Its path and its lock, once it was needed.
    made: Mutex<Option<(PathBuf, File)>>,
    next: AtomicU64,
}

/// Makes folders that only we may enter.
pub(crate) fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl Temporary {
    /// A new file.
    pub(crate) fn create(&self, root: &Path) -> io::Result<(File, PathBuf)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder(root)?.join(number.to_string());
        let open = || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = open().or_else(|error| {
            // Somebody emptied the store with all that was in it.
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            *self.made.lock().unwrap_or_else(PoisonError::into_inner) = None;
            make_folders(&self.folder(root)?)?;
            open()
        })?;
        Ok((file, path))
    }

    fn folder(&self, root: &Path) -> io::Result<PathBuf> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, _)) = &*made {
            return Ok(path.clone());
        }
        loop {
            let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
            let path = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
            if let Some(lock) = lock_new(&path)? {
                *made = Some((path.clone(), lock));
                return Ok(path);
            }
        }
    }
}

/// Makes a folder and locks it. `None`: it was left by a process that had the same number, or the loader took it for one
/// that was left before it was locked.
fn lock_new(path: &Path) -> io::Result<Option<File>> {
    make_folders(path)?;
    let made = || -> io::Result<Option<File>> {
        let lock = File::open(path)?;
        // Without locks in the file system nobody removes anything, which does no harm.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(None);
        }
        // Nobody removes it from now on. Had somebody done so before, it would be another folder now, or none.
        let is_ours = std::fs::metadata(path)?.ino() == lock.metadata()?.ino();
        Ok((is_ours && std::fs::read_dir(path)?.next().is_none()).then_some(lock))
    };
    match made() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other,
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, _)) = made.take() {
            // What is left in it is removed when the store is opened again.
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Whether a name inside the store's folder is one of these.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// Removes such a folder, if the process that made it has gone.
pub(crate) fn remove_left(path: &Path) {
    let Ok(lock) = File::open(path) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn a_folder_that_was_left_or_is_being_removed_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".weir-1-0");
        let lock = lock_new(&path).unwrap().expect("nobody has it");
        assert!(lock_new(&path).unwrap().is_none(), "it is in use, or the loader is at it");
        remove_left(&path);
        assert!(path.exists(), "nobody removes it as long as its lock is held");
        drop(lock);
        std::fs::write(path.join("0"), "half an object").unwrap();
        assert!(lock_new(&path).unwrap().is_none(), "a process of the same number left it");
        remove_left(&path);
        assert!(!path.exists());
    }
}
