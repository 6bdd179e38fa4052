//! Opening files under a rule about symbolic links.
//!
//! Owns: what a name leads to, and who may follow which link.
//! Never: keeps a file; the cache does.
//! Driven by: the cache, candidates, index files, listings.
//! Why: under a rule every folder on the way is opened by itself, so that a link put there meanwhile is not followed.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use weir_plan::Symlinks;

// Without NONBLOCK the opening of a pipe would wait for its writer.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens a file or folder for reading.
pub(crate) fn open(name: &[u8], rule: Symlinks) -> Result<File, Errno> {
    let fd = match rule {
        Symlinks::Follow => openat(CWD, name, FLAGS, Mode::empty())?,
        rule => walk(name, rule, FLAGS)?,
    };
    Ok(File::from(fd))
}

/// Reads a whole file of at most so many bytes, and says what it is; `is_not`: what is said of anything else. A pipe in its
/// place is not waited for.
pub(crate) fn whole(path: &Path, most: u64, is_not: &str) -> io::Result<(Vec<u8>, Metadata)> {
    let file = File::from(openat(CWD, path, FLAGS, Mode::empty())?);
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() > most {
        return Err(io::Error::other(is_not));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok((bytes, facts))
}

/// What a name leads to, without opening it.
pub(crate) fn stat(name: &[u8], rule: Symlinks) -> Result<Stat, Errno> {
    match rule {
        Symlinks::Follow => statat(CWD, name, AtFlags::empty()),
        rule => fstat(walk(name, rule, PLACE)?),
    }
}

/// True for a folder.
pub(crate) fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// True for a regular file.
pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Opens a name part by part.
fn walk(name: &[u8], rule: Symlinks, last: OFlags) -> Result<OwnedFd, Errno> {
    let start: &[u8] = if name.starts_with(b"/") { b"/" } else { b"." };
    let mut at = openat(CWD, start, PLACE | OFlags::DIRECTORY, Mode::empty())?;
    let mut parts = name.split(|&b| b == b'/').filter(|part| !part.is_empty()).peekable();
    if parts.peek().is_none() {
        return openat(CWD, start, last, Mode::empty());
    }
    while let Some(part) = parts.next() {
        let flags = match parts.peek() {
            Some(_) => PLACE | OFlags::DIRECTORY,
            None if name.ends_with(b"/") => last | OFlags::DIRECTORY,
            None => last,
        };
        at = step(&at, part, rule, flags)?;
    }
    Ok(at)
}

fn step(folder: &OwnedFd, part: &[u8], rule: Symlinks, flags: OFlags) -> Result<OwnedFd, Errno> {
    let seen = statat(folder, part, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(seen.st_mode) != FileType::Symlink {
        return openat(folder, part, flags | OFlags::NOFOLLOW, Mode::empty());
    }
    if rule == Symlinks::Refuse {
        return Err(Errno::LOOP);
    }
    let target = openat(folder, part, flags, Mode::empty())?;
    let owner = fstat(target.as_fd())?.st_uid;
    if owner == seen.st_uid { Ok(target) } else { Err(Errno::LOOP) }
}

/// The path of a folder or file without links, dots and doubled slashes; `None` if there is none.
pub(crate) fn real_path(path: &[u8]) -> Option<Vec<u8>> {
    let path = std::fs::canonicalize(std::ffi::OsStr::from_bytes(path)).ok()?;
    Some(path.into_os_string().into_vec())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    #[test]
    fn links_are_followed_as_the_rule_says() {
        let folder = tempfile::tempdir().unwrap();
        // The folder for temporary files may itself be reached through a link.
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/a"), "x").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("a", root.join("real/b")).unwrap();
        for (name, followed, refused) in [
            ("real/a", true, true),
            ("link/a", true, false),
            ("real/b", true, false),
            ("real/c", false, false),
        ] {
            let path = root.join(name);
            let name = bytes(&path);
            assert_eq!(open(name, Symlinks::Follow).is_ok(), followed);
            assert_eq!(open(name, Symlinks::Refuse).is_ok(), refused);
            // All of them belong to whoever runs the test.
            assert_eq!(open(name, Symlinks::IfNotOwner).is_ok(), followed);
            assert_eq!(stat(name, Symlinks::Refuse).is_ok(), refused);
        }
        let path = root.join("link/a");
        assert_eq!(open(bytes(&path), Symlinks::Refuse).unwrap_err(), Errno::LOOP);
        assert!(is_folder(&stat(bytes(&root.join("real")), Symlinks::Refuse).unwrap()));
        assert!(is_file(&stat(bytes(&root.join("link/a")), Symlinks::Follow).unwrap()));
    }

    #[test]
    fn real_paths() {
        assert_eq!(real_path(b"/usr/../usr/./").as_deref(), Some(&b"/usr"[..]));
        assert_eq!(real_path(b"/no/such"), None);
    }
}
