//! Files that are opened by name with the rights of root: pid files, logs, folders, unix sockets.
//!
//! Owns: the walk to a [`Place`], who is trusted on the way, and what is done there: always by descriptor.
//! Never: follows a link that somebody without our rights can have placed; waits for a FIFO; changes by name.
//! Driven by: `life::{pid_file, logs, folders, sockets}`.
//! Why: logs and sockets often lie in folders of the user that the data plane runs as. Who breaks into that must not
//! be able to aim root's next open at another file (CVE-2016-1247). What root owns all the way is the operator's own
//! doing: /var/run is a link, containers link logs to /dev/stdout, and some log to a FIFO.
//! Why a walk and not openat2(2): whether a link may be followed depends on who can exchange it, and RESOLVE_NO_SYMLINKS
//! knows all or none. Opening each component beside the one before, with O_NOFOLLOW, leaves no race either.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fchown, fcntl_setfl, fstat, fstatfs,
    ftruncate, linkat, mkdirat, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use weir_rt::{ListenOptions, listen_unix};

/// Links on the way to one place; the kernel's own bound.
const MAX_LINKS: usize = 40;

/// See proc(5): links in /proc lead to what a process has open, not to a path.
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// User and group that something is given to; `None` leaves it.
pub(crate) type Owner = (Option<u32>, Option<u32>);

/// Where a path leads.
enum Found {
    Place(Place),
    /// Standard output (1) or error (2), under one of its names.
    Standard(u8),
}

/// A name in a folder that is open.
/// A name in a folder that is open.
#[derive(Debug)]
pub(crate) struct Place {
    folder: OwnedFd,
    name: OsString,
    /// As it was written or, behind links, as they say.
    path: PathBuf,
    trust: Trust,
    /// The name is a link of /proc, to be opened by the kernel.
    magic: bool,
}

/// What others can do in a folder, those above it included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Nothing.
    Private,
    /// Make files of their own. Ours stay where they are, so links that are ours may be followed.
    Shared,
    /// Anything.
    None,
}

/// Opens a log for appending, and makes it if it is missing. A FIFO need not have a reader yet, and stays nonblocking.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    // As files these would be opened anew, which a socket or another user's terminal refuses.
    match walk(path, true)? {
        Found::Standard(1) => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        Found::Standard(_) => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        Found::Place(place) => place.append(),
    }
}

/// Writes a small file anew; links of ours are followed. What was written is returned open, with its place.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<(Place, File)> {
    match walk(path, true)? {
        Found::Place(place) => place.write(text).map(|file| (place, file)),
        Found::Standard(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Makes a folder that only `owner` (or we) may enter; the folder around it has to be there.
pub(crate) fn make_folder(path: &Path, owner: Owner) -> io::Result<()> {
    Place::at(path)?.make_folder(owner)
}

/// Listens on a unix socket, and gives it `mode` and `owner` before anybody can connect. A socket file that nobody
/// listens on any more is replaced; any other file, or a socket in use, is an error.
pub(crate) fn listen(
    path: &Path,
    options: &ListenOptions,
    mode: Option<u32>,
    owner: Owner,
) -> io::Result<OwnedFd> {
    let place = Place::at(path)?;
    let socket = place.listen(options, mode, owner)?;
    place.note_made(path);
    Ok(socket)
}

/// As [`listen`], in place of a process that may still listen there: its file has another name from then on.
pub(crate) fn listen_instead(
    path: &Path,
    options: &ListenOptions,
    mode: Option<u32>,
    owner: Owner,
) -> io::Result<(OwnedFd, Option<Replaced>)> {
    let place = Place::at(path)?;
    if !place.stat().is_ok_and(|stat| kind(&stat) == FileType::Socket) {
        return listen(path, options, mode, owner).map(|socket| (socket, None));
    }
    let (fresh, before) = (place.beside("new")?, place.beside("old")?);
    let socket = fresh.listen(options, mode, owner)?;
    linkat(&place.folder, &place.name, &before.folder, &before.name, AtFlags::empty())?;
    renameat(&fresh.folder, &fresh.name, &place.folder, &place.name)?;
    place.note_made(path);
    Ok((socket, Some(Replaced { place, before })))
}

/// The file of a socket that another process made, under the name that it has while ours has its name. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Replaced {
    place: Place,
    before: Place,
}

impl Replaced {
    /// The file has its name again.
    pub(crate) fn restore(self) {
        let _ = renameat(&self.before.folder, &self.before.name, &self.place.folder, &self.place.name);
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = unlinkat(&self.before.folder, &self.before.name, AtFlags::empty());
    }
}

/// Device and number of the socket files that this process made: one that another process put in place of ours is not ours.
static MADE: Mutex<BTreeMap<PathBuf, (u64, u64)>> = Mutex::new(BTreeMap::new());

/// Removes a unix socket's file; what is gone, or something else by now, is left.
pub(crate) fn remove_socket(path: &Path) {
    let Ok(place) = Place::at(path) else { return };
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    let ours = |stat: &Stat| made.is_none_or(|made| made == (stat.st_dev, stat.st_ino));
    if place.stat().is_ok_and(|stat| kind(&stat) == FileType::Socket && ours(&stat)) {
        // Gone already is as good.
        let _ = unlinkat(&place.folder, &place.name, AtFlags::empty());
    }
}

impl Place {
    /// The place itself, whether it is a link or not.
    fn at(path: &Path) -> io::Result<Self> {
        match walk(path, false)? {
            Found::Place(place) => Ok(place),
            Found::Standard(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// A name beside it that nobody else uses.
    fn beside(&self, what: &str) -> io::Result<Self> {
        let suffix = format!(".{}.{what}", std::process::id());
        let with = |name: &OsStr| {
            let mut name = name.to_owned();
            name.push(&suffix);
            name
        };
        Ok(Self {
            folder: self.folder.try_clone()?,
            name: with(&self.name),
            path: with(self.path.as_os_str()).into(),
            trust: self.trust,
            magic: false,
        })
    }

    /// Notes the file that we made.
    fn note_made(&self, path: &Path) {
        if let Ok(stat) = self.stat() {
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            made.insert(path.to_owned(), (stat.st_dev, stat.st_ino));
        }
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn open(&self, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        let follow = if self.magic { OFlags::empty() } else { OFlags::NOFOLLOW };
        let always = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat(&self.folder, &self.name, flags | follow | always, Mode::from_raw_mode(mode))
    }

    fn append(&self) -> io::Result<File> {
        let fd = match self.open(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, 0o644) {
            // A FIFO without a reader: being one ourselves, we keep what it holds until another comes.
            Err(Errno::NXIO) => self.open(OFlags::RDWR | OFlags::APPEND, 0)?,
            other => other?,
        };
        let stat = fstat(&fd)?;
        match kind(&stat) {
            FileType::RegularFile => self.refuse_foreign_names(&stat)?,
            FileType::Fifo => return Ok(fd.into()),
            _ => {}
        }
        fcntl_setfl(&fd, OFlags::APPEND)?;
        Ok(fd.into())
    }

    fn write(&self, text: &str) -> io::Result<File> {
        let fd = self.open(OFlags::RDWR | OFlags::CREATE, 0o644)?;
        let stat = fstat(&fd)?;
        if kind(&stat) != FileType::RegularFile {
            return Err(self.refusal("it is no regular file"));
        }
        self.refuse_foreign_names(&stat)?;
        if self.trust != Trust::Private && !Trusted::now()?.is(stat.st_uid) {
            return Err(self.refusal(&format!("it belongs to user {}", stat.st_uid)));
        }
        ftruncate(&fd, 0)?;
        let mut file = File::from(fd);
        io::Write::write_all(&mut file, text.as_bytes())?;
        Ok(file)
    }

    /// Where others can make files, one with a second name may be a file that is not theirs.
    fn refuse_foreign_names(&self, stat: &Stat) -> io::Result<()> {
        match self.trust == Trust::Private || stat.st_nlink <= 1 {
            true => Ok(()),
            false => Err(self.refusal("it has other names, and others can write in its folder")),
        }
    }

    fn refusal(&self, why: &str) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", self.path.display()))
    }

    /// Removes the name, if it still is `file`.
    pub(crate) fn remove(&self, file: &File) -> io::Result<()> {
        let (named, open) = (self.stat()?, fstat(file)?);
        if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) {
            unlinkat(&self.folder, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }

    fn make_folder(&self, (uid, gid): Owner) -> io::Result<()> {
        mkdirat(&self.folder, &self.name, Mode::from_raw_mode(0o700))?;
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let made = self.open(OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        if fstat(&made)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(self.refusal("somebody exchanged it while it was made"));
        }
        Ok(fchown(&made, uid.map(Uid::from_raw), gid.map(Gid::from_raw))?)
    }

    fn listen(&self, options: &ListenOptions, mode: Option<u32>, owner: Owner) -> io::Result<OwnedFd> {
        self.remove_stale_socket()?;
        listen_unix(&self.address(), options, || self.give_socket(mode, owner))
    }

    /// What to bind and connect to. Where others can exchange folders on the way, the way goes by the open one: it shows
    /// in lists of sockets, and nowhere else.
    fn address(&self) -> PathBuf {
        match self.trust {
            Trust::None => by_descriptor(&self.folder).join(&self.name),
            _ => self.path.clone(),
        }
    }

    fn remove_stale_socket(&self) -> io::Result<()> {
        match self.stat() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(stat) if kind(&stat) != FileType::Socket => {
                let text = "a file that is no socket is in the way";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            Ok(_) => {}
        }
        match std::os::unix::net::UnixStream::connect(self.address()) {
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens on this socket")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the socket that was just bound its mode and owner.
    fn give_socket(&self, mode: Option<u32>, (uid, gid): Owner) -> io::Result<()> {
        if mode.is_none() && uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = openat(&self.folder, &self.name, flags, Mode::empty())?;
        let stat = fstat(&socket)?;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
        if kind(&stat) != FileType::Socket || !ours {
            return Err(self.refusal("somebody exchanged it while it was made"));
        }
        if let Some(mode) = mode {
            let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(by_descriptor(&socket), rights)?;
        }
        if uid.is_some() || gid.is_some() {
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            chownat(&socket, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }
}

fn by_descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Who may place links that we follow: root, ourselves, and whoever the root folder belongs to (in a container without
/// a user for the machine's root that is somebody else).
#[derive(Clone, Copy)]
struct Trusted {
    us: u32,
    root: u32,
}

impl Trusted {
    fn now() -> io::Result<Self> {
        Ok(Self { us: rustix::process::geteuid().as_raw(), root: rustix::fs::stat("/")?.st_uid })
    }

    fn is(self, uid: u32) -> bool {
        uid == 0 || uid == self.us || uid == self.root
    }
}

impl Trust {
    /// Of a folder inside one of `self`.
    fn inside(self, stat: &Stat, trusted: Trusted) -> Self {
        let mode = stat.st_mode;
        match self {
            Self::None => Self::None,
            _ if !trusted.is(stat.st_uid) => Self::None,
            _ if mode & 0o022 == 0 => Self::Private,
            // A group may rename what it finds there, and cannot make links in root's name: /var/log of some systems.
            _ if mode & 0o002 == 0 || mode & 0o1000 != 0 => Self::Shared,
            _ => Self::None,
        }
    }
}

/// Goes to the folder of `path`'s last component; with `follow`, through links in that component, too.
fn walk(path: &Path, follow: bool) -> io::Result<Found> {
    let path = std::path::absolute(path)?;
    let trusted = Trusted::now()?;
    let mut way = Way::from_root(trusted)?;
    let mut rest = components(&path);
    let mut links = 0;
    if follow && let Some(number) = standard(&path) {
        return Ok(Found::Standard(number));
    }
    while let Some(name) = rest.pop_front() {
        let last = rest.is_empty();
        if last && (!follow || name == "..") {
            return Ok(Found::Place(way.place(name, false)));
        }
        let Some(target) = way.link(&name, trusted)? else {
            match last {
                true => return Ok(Found::Place(way.place(name, false))),
                false => way.enter(&name, trusted)?,
            }
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if last && way.in_proc()? && !target.as_bytes().starts_with(b"/") && target.as_bytes().contains(&b':')
        {
            return Ok(Found::Place(way.place(name, true)));
        }
        let target = way.shown.join(target);
        let whole = rest.iter().fold(target, |path, name| path.join(name));
        if follow && let Some(number) = standard(&whole) {
            return Ok(Found::Standard(number));
        }
        (way, rest) = (Way::from_root(trusted)?, components(&whole));
    }
    Err(Errno::ISDIR.into())
}

/// The names of the standard streams that logs are written to.
fn standard(path: &Path) -> Option<u8> {
    match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(1),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(2),
        _ => None,
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// How far a walk has come.
struct Way {
    folder: OwnedFd,
    shown: PathBuf,
    trust: Trust,
}

impl Way {
    fn from_root(trusted: Trusted) -> io::Result<Self> {
        let folder = open_folder(CWD, OsStr::new("/"))?;
        let trust = Trust::Private.inside(&fstat(&folder)?, trusted);
        Ok(Self { folder, shown: "/".into(), trust })
    }

    /// Where the link `name` leads; `None` if it is none, or nothing.
    fn link(&self, name: &OsStr, trusted: Trusted) -> io::Result<Option<OsString>> {
        let target = match readlinkat(&self.folder, name, Vec::new()) {
            Ok(target) => OsString::from_vec(target.into_bytes()),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let owner = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid;
        // Without root's rights there is nothing to be had from us that the placer of a link does not have.
        let ours = trusted.us != 0 || (self.trust != Trust::None && trusted.is(owner));
        match ours {
            true => Ok(Some(target)),
            false => {
                let path = self.shown.join(name);
                let text =
                    format!("{}: a link that user {owner} can exchange is not followed", path.display());
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
        }
    }

    fn enter(&mut self, name: &OsStr, trusted: Trusted) -> io::Result<()> {
        self.folder = open_folder(&self.folder, name)?;
        self.trust = self.trust.inside(&fstat(&self.folder)?, trusted);
        self.shown.push(name);
        Ok(())
    }

    fn in_proc(&self) -> io::Result<bool> {
        Ok(fstatfs(&self.folder)?.f_type as u64 == PROC_SUPER_MAGIC)
    }

    fn place(self, name: OsString, magic: bool) -> Place {
        let path = self.shown.join(&name);
        Place { folder: self.folder, name, path, trust: self.trust, magic }
    }
}

fn open_folder(beside: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(beside, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
    use tempfile::TempDir;

    const NOBODY: u32 = 65534;

    /// A folder below which root owns everything, with one of somebody else inside; `None` if we are not root.
    fn scene() -> Option<(TempDir, PathBuf)> {
        let dir = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
        let theirs = dir.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(NOBODY), Some(NOBODY)).is_ok().then_some((dir, theirs))
    }

    fn link(target: &Path, at: &Path, owner: u32) {
        symlink(target, at).unwrap();
        std::os::unix::fs::lchown(at, Some(owner), Some(owner)).unwrap();
    }

    #[test]
    fn links_of_others_lead_nowhere() {
        let Some((dir, theirs)) = scene() else { return };
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "root's").unwrap();
        link(&precious, &theirs.join("file"), NOBODY);
        // Nor does one in the middle, or root's own where they can put another in its place.
        link(dir.path(), &theirs.join("folder"), NOBODY);
        link(&precious, &theirs.join("ours"), 0);
        for path in ["file", "folder/precious", "ours"] {
            let path = theirs.join(path);
            assert!(append(&path).is_err() && write(&path, "x").is_err(), "{}", path.display());
        }
        assert!(make_folder(&theirs.join("folder/new"), (Some(NOBODY), None)).is_err());
        assert!(
            listen(&theirs.join("folder/socket"), &ListenOptions::default(), None, (None, None)).is_err()
        );
        std::fs::hard_link(&precious, theirs.join("name")).unwrap();
        assert!(append(&theirs.join("name")).is_err() && write(&theirs.join("name"), "x").is_err());
        assert_eq!(std::fs::read(&precious).unwrap(), b"root's");
        assert_eq!(std::fs::metadata(&precious).unwrap().uid(), 0);
    }

    #[test]
    fn their_own_files_are_appended_to_and_not_believed() {
        let Some((_dir, theirs)) = scene() else { return };
        let log = theirs.join("access.log");
        std::fs::write(&log, "a").unwrap();
        chown(&log, Some(NOBODY), Some(NOBODY)).unwrap();
        append(&log).unwrap().write_all(b"b").unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"ab");
        assert!(write(&log, "1").unwrap_err().to_string().contains("belongs to user 65534"));
        let (place, file) = write(&theirs.join("new.pid"), "7\n").unwrap();
        place.remove(&file).unwrap();
        assert!(!theirs.join("new.pid").exists());
    }

    #[test]
    fn roots_own_links_are_followed() {
        let Some((dir, _)) = scene() else { return };
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        symlink("real", dir.path().join("way")).unwrap();
        symlink("../real/./end", real.join("next")).unwrap();
        append(&dir.path().join("way/../way/next")).unwrap().write_all(b"x").unwrap();
        assert_eq!(std::fs::read(real.join("end")).unwrap(), b"x");
        symlink("round", real.join("round")).unwrap();
        assert!(append(&real.join("round")).is_err());
        // Where only a group may write as well, too: /var/log of some systems.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o775)).unwrap();
        assert!(append(&dir.path().join("way/end")).is_ok());
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(append(&dir.path().join("way/end")).is_err());
    }

    #[test]
    fn standard_streams_are_found_behind_links() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/dev/stdout", dir.path().join("access.log")).unwrap();
        symlink("/dev/fd/2", dir.path().join("error.log")).unwrap();
        let same = |a: &Stat, b: &Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        for (path, stream) in [("access.log", fstat(io::stdout())), ("error.log", fstat(io::stderr()))] {
            let log = append(&dir.path().join(path)).unwrap();
            assert!(same(&fstat(&log).unwrap(), &stream.unwrap()));
        }
        // Of other processes, too: containers whose first process is a supervisor log to its output.
        let (mut read, write) = io::pipe().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), write.as_raw_fd());
        append(Path::new(&path)).unwrap().write_all(b"x").unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn a_fifo_is_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert!(write(&path, "1").is_err());
        let mut log = append(&path).unwrap();
        log.write_all(b"early\n").unwrap();
        // Whoever comes later finds it; and what is too much is refused, not waited for.
        let mut early = [0; 6];
        File::open(&path).unwrap().read_exact(&mut early).unwrap();
        assert_eq!(&early, b"early\n");
        let full = loop {
            if let Err(error) = log.write(&[b'x'; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(append(dir.path()).is_err() && append(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn sockets_get_mode_and_owner_and_stale_ones_are_replaced() {
        let Some((_dir, theirs)) = scene() else { return };
        let path = theirs.join("socket");
        let options = ListenOptions::default();
        drop(listen(&path, &options, None, (None, None)).unwrap());
        let _open = listen(&path, &options, Some(0o660), (Some(NOBODY), Some(7))).unwrap();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (0o660, NOBODY, 7));
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        let taken = listen(&path, &options, None, (None, None)).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        remove_socket(&path);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").unwrap();
        remove_socket(&path);
        let there = listen(&path, &options, None, (None, None)).unwrap_err();
        assert_eq!(there.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_socket_takes_the_place_of_another_and_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let options = ListenOptions::default();
        let old = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let number = || std::fs::metadata(&path).unwrap().ino();
        let before = number();
        let (new, replaced) = listen_instead(&path, &options, Some(0o600), (None, None)).unwrap();
        assert_ne!(number(), before);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        replaced.unwrap().restore();
        assert_eq!(number(), before);
        let accepted = std::thread::spawn(move || old.accept().map(|_| old));
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        let old = accepted.join().unwrap().unwrap();
        // What another process has put there is not ours to remove.
        remove_socket(&path);
        assert_eq!(number(), before);
        drop((new, old));
        let (_new, replaced) = listen_instead(&path, &options, None, (None, None)).unwrap();
        drop(replaced);
        remove_socket(&path);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_the_last_folder_is_made_and_given_away() {
        let Some((dir, _)) = scene() else { return };
        let path = dir.path().join("body");
        make_folder(&path, (Some(NOBODY), Some(NOBODY))).unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (0o700, NOBODY, NOBODY));
        assert!(make_folder(&dir.path().join("a/b"), (None, None)).is_err());
        assert_eq!(make_folder(&path, (None, None)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
