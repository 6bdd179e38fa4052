//! Changes of files, as threads make them that may wait for the disk.
//!
//! Owns: what is done for each method, and which statuses the system's errors become (nginx's).
//! Never: sees an exchange.
//! Driven by: `worker::errands`.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, openat};
use tempfile::NamedTempFile;
use weir_expr::FileAccess;

use super::tree;
use crate::exchange::errors;

/// What is not done: the status to answer with, and why.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) line: String,
}

impl Refused {
    pub(super) fn new(status: u16, line: &str) -> Self {
        Self { status, line: line.to_owned() }
    }

    /// What an error of the system comes to; `missing` where something is not there.
    pub(super) fn by(error: &io::Error, missing: u16, call: &str, path: &Path) -> Self {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, NotADirectory, NotFound, PermissionDenied, StorageFull,
        };
        let status = match error.kind() {
            NotFound | NotADirectory | InvalidFilename => missing,
            PermissionDenied => 403,
            AlreadyExists => 405,
            StorageFull => 507,
            _ => 500,
        };
        Self::new(status, &format!("{call} \"{}\" failed ({})", path.display(), errors::system(error)))
    }
}

/// How deep a request reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
    Invalid,
}

/// Something to be done.
pub(super) enum Errand {
    Put { file: NamedTempFile, to: PathBuf, access: FileAccess, create_path: bool, modified: Option<u64> },
    Delete { path: PathBuf, is_folder: bool, depth: Depth },
    MakeFolder { path: PathBuf, access: FileAccess },
    Transfer { from: PathBuf, to: PathBuf, is_folder: bool, overwrite: bool, moves: bool, access: FileAccess },
}

impl Errand {
    /// Whether the answer says where something was made.
    pub(super) fn is_located(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::MakeFolder { .. })
    }

    /// Does it; the status to answer with.
    pub(super) fn run(self) -> Result<u16, Refused> {
        match self {
            Self::Put { file, to, access, create_path, modified } => {
                put(file, &to, access, create_path, modified)
            }
            Self::Delete { path, is_folder, depth } => delete(&path, is_folder, depth),
            Self::MakeFolder { path, access } => match make_folder(&path, access) {
                Ok(()) => Ok(201),
                Err(error) => Err(Refused::by(&error, 409, "mkdir()", &path)),
            },
            Self::Transfer { from, to, is_folder, overwrite, moves, access } => {
                transfer(&from, &to, is_folder, overwrite, (moves, access))
            }
        }
    }
}

fn put(
    file: NamedTempFile,
    to: &Path,
    access: FileAccess,
    create_path: bool,
    modified: Option<u64>,
) -> Result<u16, Refused> {
    let status = match fs::metadata(to) {
        Ok(found) if found.is_dir() => {
            return Err(Refused::new(
                409,
                &format!("\"{}\" could not be created: it is a folder", to.display()),
            ));
        }
        Ok(_) => 204,
        Err(_) => 201,
    };
    let prepared = dress(file.as_file(), access.0.into(), modified.map(|seconds| (seconds as i64, 0)));
    let named = prepared.and_then(|()| tree::rename_file(file, to, create_path.then_some(access)));
    named.map(|()| status).map_err(|error| {
        Refused::new(500, &format!("rename() to \"{}\" failed ({})", to.display(), errors::system(&error)))
    })
}

/// Gives a file its rights, and its time of modification if that is known.
pub(in crate::action) fn dress(file: &File, mode: u32, modified: Option<(i64, i64)>) -> io::Result<()> {
    fchmod(file, Mode::from_raw_mode(mode))?;
    if let Some((tv_sec, tv_nsec)) = modified {
        let time = Timespec { tv_sec, tv_nsec: tv_nsec as _ };
        futimens(file, &Timestamps { last_access: time, last_modification: time })?;
    }
    Ok(())
}

/// Makes a folder with exactly these rights.
pub(super) fn make_folder(path: &Path, access: FileAccess) -> io::Result<()> {
    make_folder_as(path, access.of_folder().0.into())
}

pub(super) fn make_folder_as(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A folder that its owner may not read keeps what the system made of its rights.
    if let Ok(folder) = openat(CWD, path, flags, Mode::empty()) {
        fchmod(folder, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

fn delete(path: &Path, is_folder: bool, depth: Depth) -> Result<u16, Refused> {
    let found = fs::symlink_metadata(path).map_err(|error| {
        let missing = if error.kind() == io::ErrorKind::NotADirectory { 409 } else { 404 };
        Refused::by(&error, missing, "lstat()", path)
    })?;
    if found.is_dir() {
        if !is_folder {
            return Err(Refused::new(409, &format!("DELETE \"{}\" failed: it is a folder", path.display())));
        }
        if depth != Depth::Infinity {
            return Err(Refused::new(400, "\"Depth\" header must be infinity"));
        }
    } else if is_folder {
        return Err(Refused::new(409, &format!("\"{}\" is not a folder", path.display())));
    } else if !matches!(depth, Depth::Zero | Depth::Infinity) {
        return Err(Refused::new(400, "\"Depth\" header must be 0 or infinity"));
    }
    remove(path, &found).map(|()| 204)
}

/// Removes a file, a link, or a folder with all that is in it.
fn remove(path: &Path, found: &Metadata) -> Result<(), Refused> {
    let (removed, call) = if found.is_dir() {
        (fs::remove_dir_all(path), "rmdir()")
    } else {
        (fs::remove_file(path), "unlink()")
    };
    removed.map_err(|error| Refused::by(&error, 404, call, path))
}

fn transfer(
    from: &Path,
    to: &Path,
    is_folder: bool,
    overwrite: bool,
    (moves, access): (bool, FileAccess),
) -> Result<u16, Refused> {
    let there = match fs::symlink_metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Refused::by(&error, 404, "lstat()", to)),
        Ok(found) if found.is_dir() && !is_folder => {
            return Err(Refused::new(409, &format!("\"{}\" is a collection", to.display())));
        }
        Ok(_) if !overwrite => {
            return Err(Refused::new(
                412,
                &format!("\"{}\" could not be created: it is there", to.display()),
            ));
        }
        Ok(found) => Some(found),
    };
    let found = fs::symlink_metadata(from).map_err(|error| Refused::by(&error, 404, "lstat()", from))?;
    if is_folder && !found.is_dir() {
        return Err(Refused::new(404, &format!("\"{}\" is not a folder", from.display())));
    }
    if !is_folder && found.is_dir() {
        return Err(Refused::new(400, &format!("\"{}\" is collection", from.display())));
    }
    if lies_in(from, to, &found) {
        let line = format!("\"{}\" lies in \"{}\" or is the same", to.display(), from.display());
        return Err(Refused::new(403, &line));
    }
    let failed = |error: io::Error| {
        let line =
            format!("\"{}\" to \"{}\" failed ({})", from.display(), to.display(), errors::system(&error));
        Refused::new(if error.kind() == io::ErrorKind::StorageFull { 507 } else { 500 }, &line)
    };
    if !found.is_dir() {
        let done = if moves { tree::move_file(from, to, access) } else { tree::copy_file(from, to, &found) };
        return done.map(|()| 204).map_err(failed);
    }
    if let Some(there) = there {
        remove(to, &there)?;
    }
    if moves && fs::rename(from, to).is_ok() {
        return Ok(201);
    }
    make_folder_as(to, found.mode() & 0o7777).map_err(|error| Refused::by(&error, 404, "mkdir()", to))?;
    tree::copy(from, to).map_err(failed)?;
    if moves {
        remove(from, &found)?;
    }
    Ok(201)
}

/// Whether a target is its source, or lies in it: it would be removed before it is read, or copied into itself.
fn lies_in(from: &Path, to: &Path, found: &Metadata) -> bool {
    let same = |path: &Path| {
        fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()))
    };
    if !found.is_dir() {
        // Another name of the same file may take its place.
        return from == to;
    }
    // Nor may a source lie in its target, which is removed.
    to.ancestors().any(same) || from.ancestors().skip(1).any(|above| is_same(above, to))
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
