//! Filling the index when a process starts.
//!
//! Owns: the walk through the folder, on a thread of its own; the removal of what a killed process left.
//! Never: opens a file: what is in it is judged when it is asked for.
//! Why: a name and a size for each object are all that the index needs; a million of them are read in a second or two.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};

use crate::key::Key;
use crate::settings::Pace;
use crate::store::Store;
use crate::temporary::{is_temporary, remove_left};

/// Starts the thread.
pub(crate) fn start(store: &Arc<Store>) {
    let weak = Arc::downgrade(store);
    let run = move || {
        let Some(store) = weak.upgrade() else { return };
        let mut walk = Walk { pace: store.settings().loader, seen: 0, began: Instant::now() };
        if let Err(error) = walk.folder(&store, &store.path, 0)
            && error.kind() != io::ErrorKind::NotFound
        {
            store.tell(&format!("cannot read {}: {error}", store.path.display()));
        }
        store.is_warm_now();
    };
    if let Err(error) = std::thread::Builder::new().name("weir-cache-load".into()).spawn(run) {
        store.is_warm_now();
        store.tell(&format!("objects in {} are not known: {error}", store.path.display()));
    }
}

struct Walk {
    pace: Option<Pace>,
    seen: usize,
    began: Instant,
}

impl Walk {
    /// Walks a folder at this depth. Folders of other names, and files at other depths, are not ours: they stay.
    fn folder(&mut self, store: &Arc<Store>, path: &Path, depth: usize) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // The folder itself may be a link: an operator put it there.
        let flags = if depth == 0 { flags - OFlags::NOFOLLOW } else { flags };
        let folder = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if depth == 0 && is_temporary(name) {
                remove_left(&path.join(OsStr::from_bytes(name)));
            } else if depth < store.levels.depth() {
                let is_level = name.len() <= 2 && name.iter().all(u8::is_ascii_hexdigit);
                if is_level && entry.file_type() != FileType::RegularFile {
                    // One that cannot be read is told of when an object of it is asked for.
                    let _ = self.folder(store, &path.join(OsStr::from_bytes(name)), depth + 1);
                }
            } else if let Some(key) = Key::parse(name) {
                let stat = rustix::fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let file =
                    stat.ok().filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
                if let Some(stat) = file
                    && store.file_of(&key) == path.join(OsStr::from_bytes(name))
                {
                    store.found(&key, stat.st_size as u64);
                    self.pause();
                }
            }
        }
        Ok(())
    }

    /// Pauses where the settings say so.
    fn pause(&mut self) {
        self.seen += 1;
        let Some(pace) = self.pace else { return };
        if self.seen >= pace.files.max(1) || self.began.elapsed() >= pace.threshold {
            std::thread::sleep(pace.sleep);
            (self.seen, self.began) = (0, Instant::now());
        }
    }
}
