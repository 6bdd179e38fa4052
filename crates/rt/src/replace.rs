//! A file in the place of another, in one step.
//!
//! Owns: the file beside it that is written first.
//! Never: follows a link that lies in its way; leaves half a file where somebody reads.
//! Driven by: whoever keeps something over restarts. It waits for the disk: no worker calls it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Gives a file this content: writes `path.new` with these permissions (less the umask) and renames that.
///
/// # Errors
/// It cannot be written, or not be renamed: the file is as it was.
pub fn replace_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // Whatever has this name is not ours to follow.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_link_in_its_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("file"), dir.path().join("other"));
        std::fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("file.new")).unwrap();
        replace_file(&path, b"ours", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!dir.path().join("file.new").exists());
    }
}
