//! Files and folders that get another place.
//!
//! Owns: renaming across file systems, copies of folders.
//! Driven by: `work`.
//! Why: a copy is made under a name of its own and renamed, so that readers see the old file or the new one.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tempfile::NamedTempFile;
use weir_expr::FileAccess;

use super::work::{dress, make_folder, make_folder_as};

/// Folders in one another that a copy goes down.
const DEEPEST: usize = 256;

/// Gives a temporary file its name; with `create`, the folders of that are made where they are missing.
pub(in crate::action) fn rename_file(
    file: NamedTempFile,
    to: &Path,
    create: Option<FileAccess>,
) -> io::Result<()> {
    let Err(first) = file.persist(to) else { return Ok(()) };
    let (mut error, mut file) = (first.error, first.file);
    if error.kind() == io::ErrorKind::NotFound
        && let Some(access) = create
    {
        make_path(to, access)?;
        match file.persist(to) {
            Ok(_) => return Ok(()),
            Err(second) => (error, file) = (second.error, second.file),
        }
    }
    if error.kind() != io::ErrorKind::CrossesDevices {
        return Err(error);
    }
    let found = file.as_file().metadata()?;
    copy_file(file.path(), to, &found)
}

/// Moves a file; missing folders are made, as nginx does.
pub(super) fn move_file(from: &Path, to: &Path, access: FileAccess) -> io::Result<()> {
    let moved = match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_path(to, access)?;
            fs::rename(from, to)
        }
        moved => moved,
    };
    match moved {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy_file(from, to, &fs::symlink_metadata(from)?)?;
            fs::remove_file(from)
        }
        moved => moved,
    }
}

/// Makes the folders of a path.
fn make_path(path: &Path, access: FileAccess) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|above| !above.exists()).collect();
    for folder in missing.into_iter().rev() {
        match make_folder(folder, access) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file with its rights and its time.
pub(super) fn copy_file(from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
    // A pipe would wait for its writer.
    if !fs::metadata(from)?.is_file() {
        return Err(Errno::INVAL.into());
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    let mut copy = tempfile::Builder::new().prefix(".weir-").tempfile_in(folder)?;
    io::copy(&mut File::open(from)?, copy.as_file_mut())?;
    dress(copy.as_file(), found.mode() & 0o777, Some((found.mtime(), found.mtime_nsec())))?;
    copy.persist(to).map(drop).map_err(|error| error.error)
}

/// Copies what is in a folder into another; links and the like are left out.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut open: Vec<(PathBuf, PathBuf, usize)> = vec![(from.to_owned(), to.to_owned(), 0)];
    while let Some((from, to, depth)) = open.pop() {
        if depth > DEEPEST {
            return Err(Errno::NAMETOOLONG.into());
        }
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                make_folder_as(&target, entry.metadata()?.mode() & 0o7777)?;
                open.push((entry.path(), target, depth + 1));
            } else if kind.is_file() {
                copy_file(&entry.path(), &target, &entry.metadata()?)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn folders_are_copied_with_rights_and_times_but_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/c"), "text").unwrap();
        symlink("/etc/passwd", at("a/link")).unwrap();
        fs::set_permissions(at("a/b/c"), PermissionsExt::from_mode(0o640)).unwrap();
        dress(&File::options().write(true).open(at("a/b/c")).unwrap(), 0o640, Some((1000, 0))).unwrap();
        fs::create_dir(at("z")).unwrap();
        copy(&at("a"), &at("z")).unwrap();
        let copied = fs::metadata(at("z/b/c")).unwrap();
        assert_eq!((copied.mode() & 0o777, copied.mtime()), (0o640, 1000));
        assert_eq!(fs::read_to_string(at("z/b/c")).unwrap(), "text");
        assert!(!at("z/link").exists());
        assert_eq!(fs::read_dir(at("z/b")).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn missing_folders_are_made_only_where_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("x/y/z");
        let file = || tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        assert!(rename_file(file(), &to, None).is_err());
        rename_file(file(), &to, Some(FileAccess(0o640))).unwrap();
        let made = fs::metadata(folder.path().join("x/y")).unwrap();
        assert_eq!(made.mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
