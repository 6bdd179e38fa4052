//! Files held in memory, and files held open, for one worker.
//!
//! Owns: small files whole, descriptors of large ones (in between, maybe both), what their answers say of them (`ETag`, `Last-Modified`).
//! Never: keeps what is not there: a file that appears is seen at once.
//! Driven by: the file action.
//! Why: a hot answer then costs one hash lookup and no system call but its send.
//!
//! An entry is asked about again (one `stat`) when [`TRUSTED`] has passed, and read again if anything of its
//! [`Identity`] changed. What was read is kept only if the identity is the same after reading as before, and if its
//! last change lies so far back that another change must have shown: so old sizes never meet new bytes. Reads are done
//! in the worker's thread: of small files, mostly from the page cache.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Stat, fstat};
use rustix::io::Errno;
use smallvec::SmallVec;
use weir_http::{HttpDate, semantics};
use weir_plan::{StaticFiles, Symlinks};
use weir_rt::Instant;

use super::open;

/// How long an entry is used without looking at the file.
const TRUSTED: Duration = Duration::from_millis(500);
/// A file that changed more recently might change again without a sign: clocks of file systems are this coarse.
const SETTLED: Duration = Duration::from_secs(2);
/// Files up to this size are held in memory.
const SMALL: u64 = 128 << 10;
/// Files larger than this are held open as well where sendfile is the cheaper way: what takes one send is copied.
const COPIED: u64 = weir_rt::PIECE as u64;
/// Most bytes of files in memory.
const MOST_BYTES: usize = 64 << 20;
/// Most entries.
const MOST_ENTRIES: usize = 4096;
/// Most files held open.
const MOST_OPEN: usize = 256;
/// What was not used for this long, up to twice that, is let go of.
const UNUSED: Duration = Duration::from_secs(30);

/// What a name leads to.
pub(crate) enum Found {
    /// A regular file.
    File(Rc<StaticFile>),
    /// A folder.
    Folder,
    /// Something else.
    Other,
}

/// What must stay the same for a file to count as unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Shows changes that set the time of modification back, and changes of rights.
    changed: (i64, i64),
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// Its last change is long ago.
    fn is_settled(&self, now: Duration) -> bool {
        let last = u64::try_from(self.modified.0.max(self.changed.0)).unwrap_or(0);
        now.as_secs() > last.saturating_add(SETTLED.as_secs())
    }
}

/// A file with what answers say of it.
pub(crate) struct StaticFile {
    /// Length in bytes.
    pub(crate) size: u64,
    /// When it was modified.
    pub(crate) modified: HttpDate,
    /// The same for `Last-Modified`.
    pub(crate) last_modified: [u8; weir_http::date::LEN],
    /// Its tag.
    pub(crate) etag: SmallVec<[u8; 40]>,
    /// Its bytes.
    pub(crate) content: Content,
    /// First lines of the usual answer.
    pub(crate) head: RefCell<Option<Head>>,
    identity: Identity,
}

/// First lines of an answer, with all they were made from but the file.
pub(crate) struct Head {
    /// Settings of the route.
    pub(crate) files: Arc<StaticFiles>,
    /// The site's name for itself.
    pub(crate) server: Option<Box<str>>,
    /// The file's type.
    pub(crate) content_type: Arc<str>,
    /// The lines.
    pub(crate) lines: Vec<u8>,
}

/// Where the bytes are.
pub(crate) enum Content {
    /// Here.
    Memory(Rc<[u8]>),
    /// Here, and in the file for connections that need not see them.
    Both(Rc<[u8]>, File),
    /// In the file.
    Open(File),
}

/// One way that bytes of a file can go out.
pub(crate) enum Way<'c> {
    /// As bytes.
    Bytes(&'c Rc<[u8]>),
    /// From the file.
    File(&'c File),
}

impl Content {
    /// How it goes out. `touched`: the process has to see the bytes anyway, to encrypt them, change them or slow them down.
    pub(crate) fn way(&self, touched: bool) -> Way<'_> {
        match self {
            Self::Memory(bytes) => Way::Bytes(bytes),
            Self::Both(bytes, _) if touched => Way::Bytes(bytes),
            Self::Both(_, file) | Self::Open(file) => Way::File(file),
        }
    }
}

impl StaticFile {
    fn new(identity: Identity, content: Content) -> Self {
        let modified = HttpDate::from_unix(u64::try_from(identity.modified.0).unwrap_or(0));
        let mut etag = Vec::with_capacity(40);
        semantics::etag::put_file_tag(&mut etag, modified.unix(), identity.size);
        Self {
            size: identity.size,
            modified,
            last_modified: modified.imf(),
            etag: SmallVec::from_slice(&etag),
            content,
            head: RefCell::default(),
            identity,
        }
    }

    /// The same bytes under a tag that tells another length.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn shown_as(&self, size: u64) -> std::io::Result<Self> {
        let content = match &self.content {
            Content::Memory(bytes) | Content::Both(bytes, _) => Content::Memory(bytes.clone()),
            Content::Open(file) => Content::Open(file.try_clone()?),
        };
        let mut etag = Vec::with_capacity(40);
        semantics::etag::put_file_tag(&mut etag, self.modified.unix(), size);
        Ok(Self {
            size,
            modified: self.modified,
            last_modified: self.last_modified,
            etag: SmallVec::from_slice(&etag),
            content,
            head: RefCell::default(),
            identity: self.identity,
        })
    }

    fn in_memory(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) | Content::Both(bytes, _) => bytes.len(),
            Content::Open(_) => 0,
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self.content, Content::Memory(_))
    }
}

/// Files of one worker.
#[derive(Default)]
pub(crate) struct FileCache {
    entries: RefCell<Entries>,
    name: Cell<Vec<u8>>,
    tidying: Cell<bool>,
}

#[derive(Default)]
struct Entries {
    by_name: HashMap<Rc<[u8]>, Entry, ahash::RandomState>,
    /// Names in the order in which they are looked at for removal; each once.
    ring: VecDeque<Rc<[u8]>>,
    bytes: usize,
    open: usize,
}

struct Entry {
    file: Rc<StaticFile>,
    /// Until when it is used without looking at the file.
    trusted: Instant,
    /// Used since it was last looked at for removal.
    used: bool,
}

impl FileCache {
    /// A buffer for a file's name; give it back.
    pub(crate) fn take_name(&self) -> Vec<u8> {
        let mut name = self.name.take();
        name.clear();
        name
    }

    /// See [`FileCache::take_name`].
    pub(crate) fn give_name(&self, name: Vec<u8>) {
        self.name.set(name);
    }

    /// Forgets all files.
    pub(crate) fn clear(&self) {
        *self.entries.borrow_mut() = Entries::default();
    }

    /// Forgets the file of a name, which is another now.
    pub(crate) fn forget(&self, name: &[u8]) {
        self.entries.borrow_mut().remove(name);
    }

    /// The file of a name, if it is held and was looked at just now.
    #[inline]
    pub(crate) fn peek(&self, name: &[u8], now: Instant) -> Option<Rc<StaticFile>> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.by_name.get_mut(name)?;
        if now >= entry.trusted {
            return None;
        }
        entry.used = true;
        Some(entry.file.clone())
    }

    /// What a name leads to. Rules about links are asked every time, so what they hold for is not kept.
    pub(crate) fn look_up(
        self: &Rc<Self>,
        now: Instant,
        name: &[u8],
        rule: Symlinks,
    ) -> Result<Found, Errno> {
        if rule != Symlinks::Follow {
            return load(name, rule, false);
        }
        if let Some(file) = self.peek(name, now) {
            return Ok(Found::File(file));
        }
        let found = self.renew(name, now, weir_rt::unix_now());
        if !self.entries.borrow().is_empty() && !self.tidying.replace(true) {
            weir_rt::spawn(tidy(Rc::downgrade(self)));
        }
        found
    }

    /// Looks at the file, and reads it if it is new or has changed.
    fn renew(&self, name: &[u8], now: Instant, unix_now: Duration) -> Result<Found, Errno> {
        let mut entries = self.entries.borrow_mut();
        if let Some(entry) = entries.by_name.get_mut(name) {
            match open::stat(name, Symlinks::Follow) {
                Ok(stat) if Identity::of(&stat) == entry.file.identity => {
                    entry.trusted = now + TRUSTED;
                    entry.used = true;
                    return Ok(Found::File(entry.file.clone()));
                }
                _ => entries.remove(name),
            }
        }
        let hold = entries.open < MOST_OPEN && weir_rt::sendfile_pays();
        let found = load(name, Symlinks::Follow, hold)?;
        if let Found::File(file) = &found
            && file.identity.is_settled(unix_now)
        {
            entries.insert(name, file.clone(), now);
        }
        Ok(found)
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn insert(&mut self, name: &[u8], file: Rc<StaticFile>, now: Instant) {
        self.bytes += file.in_memory();
        self.open += usize::from(file.is_open());
        let name: Rc<[u8]> = name.into();
        self.ring.push_back(name.clone());
        self.by_name.insert(name, Entry { file, trusted: now + TRUSTED, used: true });
        while self.bytes > MOST_BYTES || self.open > MOST_OPEN || self.ring.len() > MOST_ENTRIES {
            let Some(name) = self.ring.pop_front() else { return };
            self.pass(name);
        }
    }

    /// Looks at one entry for removal: one that was used since the last look stays for another round.
    fn pass(&mut self, name: Rc<[u8]>) {
        match self.by_name.get_mut(&name) {
            Some(entry) if entry.used => {
                entry.used = false;
                self.ring.push_back(name);
            }
            Some(_) => self.forget(&name),
            None => {}
        }
    }

    fn remove(&mut self, name: &[u8]) {
        self.forget(name);
        self.ring.retain(|known| **known != *name);
    }

    fn forget(&mut self, name: &[u8]) {
        if let Some(entry) = self.by_name.remove(name) {
            self.bytes -= entry.file.in_memory();
            self.open -= usize::from(entry.file.is_open());
        }
    }

    /// One round over all entries.
    fn pass_all(&mut self) {
        for _ in 0..self.ring.len() {
            let Some(name) = self.ring.pop_front() else { return };
            self.pass(name);
        }
    }
}

/// Lets go of what is not used any more, as long as there is something: a deleted file would keep its space.
async fn tidy(files: Weak<FileCache>) {
    let _ends = Tidying(files.clone());
    loop {
        weir_rt::sleep(UNUSED).await;
        let Some(files) = files.upgrade() else { return };
        let mut entries = files.entries.borrow_mut();
        entries.pass_all();
        if entries.is_empty() {
            *entries = Entries::default();
            return;
        }
    }
}

/// Says at the end of [`tidy`], by whatever way it comes, that the next file has to begin it again.
struct Tidying(Weak<FileCache>);

impl Drop for Tidying {
    fn drop(&mut self) {
        if let Some(files) = self.0.upgrade() {
            files.tidying.set(false);
        }
    }
}

/// Opens a name, and reads what is small. `hold`: what takes more than one send is held open as well.
fn load(name: &[u8], rule: Symlinks, hold: bool) -> Result<Found, Errno> {
    let file = open::open(name, rule)?;
    let mut stat = fstat(&file)?;
    if open::is_folder(&stat) {
        return Ok(Found::Folder);
    }
    if !open::is_file(&stat) {
        return Ok(Found::Other);
    }
    // A file that is being written is read again; one that is never still is sent as it comes.
    for _ in 0..3 {
        let before = Identity::of(&stat);
        if before.size > SMALL {
            break;
        }
        let bytes = read(&file, before.size as usize)?;
        stat = fstat(&file)?;
        if Identity::of(&stat) == before && bytes.len() as u64 == before.size {
            let bytes = Rc::from(bytes);
            let both = hold && before.size > COPIED;
            let content = if both { Content::Both(bytes, file) } else { Content::Memory(bytes) };
            return Ok(Found::File(Rc::new(StaticFile::new(before, content))));
        }
    }
    Ok(Found::File(Rc::new(StaticFile::new(Identity::of(&stat), Content::Open(file)))))
}

/// The first `size` bytes, or what there is of them.
fn read(file: &File, size: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut bytes[filled..], filled as u64))?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::*;

    const LATER: Duration = Duration::from_secs(10_000_000_000);

    fn bytes(path: &Path) -> &[u8] {
        path.as_os_str().as_bytes()
    }

    fn text(found: &Found) -> String {
        match found {
            Found::File(file) => match &file.content {
                Content::Memory(bytes) | Content::Both(bytes, _) => {
                    String::from_utf8(bytes.to_vec()).unwrap()
                }
                Content::Open(_) => format!("open {}", file.size),
            },
            Found::Folder => "folder".into(),
            Found::Other => "other".into(),
        }
    }

    #[test]
    fn a_held_file_is_trusted_for_a_moment_then_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let (cache, name, start) = (FileCache::default(), bytes(&path), Instant::now());
        assert_eq!(text(&cache.renew(name, start, LATER).unwrap()), "old");
        let first = cache.peek(name, start).unwrap();
        assert_eq!(first.etag.as_slice(), format!("\"{:x}-3\"", first.modified.unix()).as_bytes());
        assert!(cache.peek(name, start + TRUSTED).is_none());
        assert!(Rc::ptr_eq(
            &first,
            &match cache.renew(name, start + TRUSTED, LATER).unwrap() {
                Found::File(file) => file,
                _ => unreachable!("it is a file"),
            }
        ));
        assert!(cache.peek(name, start + TRUSTED).is_some());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(cache.renew(name, start + 2 * TRUSTED, LATER).err(), Some(Errno::NOENT));
        assert!(cache.entries.borrow().is_empty());
        assert!(cache.entries.borrow().ring.is_empty());
    }

    #[test]
    fn a_replacement_of_equal_size_and_time_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        let (cache, name, start) = (FileCache::default(), bytes(&path), Instant::now());
        assert_eq!(text(&cache.renew(name, start, LATER).unwrap()), "one");
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(text(&cache.renew(name, start, LATER).unwrap()), "two");
        // Written in place with its old time set again: the time of change tells.
        std::fs::write(&path, "six").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(text(&cache.renew(name, start, LATER).unwrap()), "six");
        assert_eq!(cache.entries.borrow().ring.len(), 1);
    }

    #[test]
    fn what_changed_just_now_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "new").unwrap();
        let (cache, name, start) = (FileCache::default(), bytes(&path), Instant::now());
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        let written = written.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(text(&cache.renew(name, start, written).unwrap()), "new");
        assert!(cache.peek(name, start).is_none());
        cache.renew(name, start, written + 2 * SETTLED).unwrap();
        assert!(cache.peek(name, start).is_some());
    }

    #[test]
    fn kinds_and_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join("large"), vec![0; SMALL as usize + 1]).unwrap();
        std::fs::write(root.join("empty"), "").unwrap();
        let (cache, start) = (FileCache::default(), Instant::now());
        let kind = |name: &str| text(&cache.renew(bytes(&root.join(name)), start, LATER).unwrap());
        assert_eq!(kind("large"), format!("open {}", SMALL + 1));
        assert_eq!(kind("empty"), "");
        assert_eq!(kind("."), "folder");
        std::fs::write(root.join("middle"), vec![b'm'; COPIED as usize + 1]).unwrap();
        let held = |hold| load(bytes(&root.join("middle")), Symlinks::Follow, hold).unwrap();
        assert!(matches!(held(false), Found::File(file) if matches!(file.content, Content::Memory(_))));
        let Found::File(both) = held(true) else { unreachable!("it is a file") };
        assert!(matches!(&both.content, Content::Both(bytes, _) if bytes.len() as u64 == both.size));
        assert!(both.is_open() && both.in_memory() > 0, "it counts for both bounds");
        assert!(matches!(load(b"/dev/null", Symlinks::Follow, false), Ok(Found::Other)));
        assert_eq!(load(b"/a\0b", Symlinks::Follow, false).err(), Some(Errno::INVAL));
        for at in 0..MOST_ENTRIES + 10 {
            let file = Rc::new(StaticFile::new(
                Identity { device: 1, inode: 1, size: 20_000, modified: (0, 0), changed: (0, 0) },
                Content::Memory(vec![0; 20_000].into()),
            ));
            cache.entries.borrow_mut().insert(format!("f{at}").as_bytes(), file, start);
        }
        let mut entries = cache.entries.borrow_mut();
        assert!(entries.bytes <= MOST_BYTES);
        assert_eq!(
            entries.bytes,
            entries.by_name.values().map(|entry| entry.file.in_memory()).sum::<usize>()
        );
        assert_eq!(entries.ring.len(), entries.by_name.len());
        entries.pass_all();
        entries.pass_all();
        assert!(entries.is_empty());
        assert_eq!((entries.bytes, entries.open), (0, 0));
    }
}
