//! What a configuration is made of outside itself: files, folders, addresses of names.
//!
//! Owns: [`Store`], which answers the front ends and `lower`, remembers every answer, and can replay them.
//! Never: asks a name server by itself. Names are gathered, looked up all at once by whoever may, and answered from that
//! table.
//! Driven by: `compile`; the keeper sends a recording to the data plane, which replays it.
//! Why: the data plane compiles the same texts to the same plan with no rights at all, and asks for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use super::wire::{Reader, Writer};

/// What the system gave, or its error number (0 for none) and words.
type Answer<T> = Result<T, (i32, String)>;

/// Every answer that was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    files: BTreeMap<PathBuf, Answer<Vec<u8>>>,
    globs: BTreeMap<String, Vec<PathBuf>>,
    folders: BTreeMap<PathBuf, Answer<Vec<PathBuf>>>,
    names: BTreeMap<String, Vec<IpAddr>>,
}

/// Files, folders and names, from this machine or from a recording.
pub(crate) struct Store {
    replay: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: Answers,
    unresolved: BTreeSet<String>,
}

impl Store {
    /// This machine, recorded.
    pub(crate) fn disk() -> Self {
        Self { replay: false, state: Mutex::default() }
    }

    /// A recording: what it does not hold does not exist.
    pub(crate) fn replay(answers: Answers) -> Self {
        Self { replay: true, state: Mutex::new(State { answers, unresolved: BTreeSet::new() }) }
    }

    /// Whether it is a recording.
    pub(crate) fn is_replay(&self) -> bool {
        self.replay
    }

    /// Everything answered so far.
    pub(crate) fn into_answers(self) -> Answers {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).answers
    }

    /// Names that were asked for and are not in the table yet.
    pub(crate) fn unresolved(&self) -> Vec<String> {
        self.lock().unresolved.iter().cloned().collect()
    }

    /// Adds addresses of names.
    pub(crate) fn learn(&self, names: BTreeMap<String, Vec<IpAddr>>) {
        let mut state = self.lock();
        for (name, addresses) in names {
            state.unresolved.remove(&name);
            state.answers.names.insert(name, addresses);
        }
    }

    /// A file's bytes.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if !self.replay {
            self.lock().answers.files.insert(path.into(), remember(read_file(path)));
        }
        give(self.lock().answers.files.get(path))
    }

    /// Paths that match a pattern, in order.
    pub(crate) fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        if !self.replay {
            let found = weir_nginx::Files::glob(&weir_nginx::Disk, pattern);
            self.lock().answers.globs.insert(pattern.into(), found);
        }
        self.lock().answers.globs.get(pattern).cloned().unwrap_or_default()
    }

    /// The paths in a folder; an error for anything that is none.
    pub(crate) fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        if !self.replay {
            self.lock().answers.folders.insert(folder.into(), remember(list_folder(folder)));
        }
        give(self.lock().answers.folders.get(folder))
    }

    /// Addresses of a name; none if it is not known (yet).
    pub(crate) fn resolve(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            return vec![address];
        }
        let mut state = self.lock();
        match state.answers.names.get(host) {
            Some(addresses) => addresses.clone(),
            None => {
                state.unresolved.insert(host.into());
                Vec::new()
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most bytes of one file.
const MAX_FILE: u64 = 256 << 20;

/// How long a pipe may take to bring its next bytes.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Reads a file, or a pipe (`<(command)` of a shell). Neither one without an end nor one without a writer holds us up: at
/// a reload this may be root, in a folder of somebody else.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(MAX_FILE) as usize);
    loop {
        match file.by_ref().take(MAX_FILE + 1 - bytes.len() as u64).read_to_end(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok(_) if bytes.len() as u64 > MAX_FILE => return Err(io::ErrorKind::FileTooLarge.into()),
            Ok(_) => return Ok(bytes),
        }
        if poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn list_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

fn remember<T>(result: io::Result<T>) -> Answer<T> {
    result.map_err(|error| (error.raw_os_error().unwrap_or(0), error.to_string()))
}

fn give<T: Clone>(answer: Option<&Answer<T>>) -> io::Result<T> {
    match answer {
        Some(Ok(value)) => Ok(value.clone()),
        Some(Err((0, text))) => Err(io::Error::other(text.clone())),
        Some(Err((code, _))) => Err(io::Error::from_raw_os_error(*code)),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

fn put_path(out: &mut Writer, path: &Path) {
    out.bytes(path.as_os_str().as_bytes());
}

fn take_path(input: &mut Reader<'_>) -> Option<PathBuf> {
    Some(PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_vec())))
}

fn put_answer<T>(out: &mut Writer, answer: &Answer<T>, put: impl FnOnce(&mut Writer, &T)) {
    match answer {
        Ok(value) => {
            out.number(0);
            put(out, value);
        }
        Err((code, text)) => {
            out.number(1);
            out.number(u64::from(code.unsigned_abs()));
            out.bytes(text.as_bytes());
        }
    }
}

fn take_answer<T>(
    input: &mut Reader<'_>,
    take: impl FnOnce(&mut Reader<'_>) -> Option<T>,
) -> Option<Answer<T>> {
    match input.number()? {
        0 => take(input).map(Ok),
        _ => Some(Err((i32::try_from(input.number()?).ok()?, input.text()?))),
    }
}

fn put_paths(out: &mut Writer, paths: &[PathBuf]) {
    out.list(paths, |out, path| put_path(out, path));
}

fn take_paths(input: &mut Reader<'_>) -> Option<Vec<PathBuf>> {
    (0..input.number()?).map(|_| take_path(input)).collect()
}

impl Answers {
    /// As bytes, for [`Answers::decode`].
    pub(crate) fn encode(&self, out: &mut Writer) {
        out.list(&self.files, |out, (path, answer)| {
            put_path(out, path);
            put_answer(out, answer, |out, bytes| out.bytes(bytes));
        });
        out.list(&self.globs, |out, (pattern, found)| {
            out.bytes(pattern.as_bytes());
            put_paths(out, found);
        });
        out.list(&self.folders, |out, (path, answer)| {
            put_path(out, path);
            put_answer(out, answer, |out, paths| put_paths(out, paths));
        });
        out.list(&self.names, |out, (name, addresses)| {
            out.bytes(name.as_bytes());
            out.list(addresses, |out, address| out.bytes(address.to_string().as_bytes()));
        });
    }

    /// From bytes; `None` if they are not of [`Answers::encode`].
    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let mut answers = Self::default();
        for _ in 0..input.number()? {
            let path = take_path(input)?;
            answers.files.insert(path, take_answer(input, |input| Some(input.bytes()?.to_vec()))?);
        }
        for _ in 0..input.number()? {
            let pattern = input.text()?;
            answers.globs.insert(pattern, take_paths(input)?);
        }
        for _ in 0..input.number()? {
            let path = take_path(input)?;
            answers.folders.insert(path, take_answer(input, take_paths)?);
        }
        for _ in 0..input.number()? {
            let name = input.text()?;
            let addresses =
                (0..input.number()?).map(|_| input.text()?.parse().ok()).collect::<Option<_>>()?;
            answers.names.insert(name, addresses);
        }
        Some(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        // Nobody writes: it is empty.
        assert_eq!(read_file(&fifo).unwrap(), b"");
        assert_eq!(read_file(Path::new("/dev/null")).unwrap(), b"");
        let (read, mut write) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
        let writing = std::thread::spawn(move || {
            // Two parts, the second once the first is gone.
            io::Write::write_all(&mut write, &[b'a'; 1 << 17]).unwrap();
        });
        assert_eq!(read_file(Path::new(&path)).unwrap().len(), 1 << 17);
        writing.join().unwrap();
        assert_eq!(read_file(dir.path()).unwrap_err().raw_os_error(), Some(nix::libc::EISDIR));
    }

    #[test]
    fn a_recording_answers_as_the_machine_did() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.conf"), b"x\xff").unwrap();
        let pattern = format!("{}/*.conf", dir.path().display());
        let ask = |store: &Store| {
            (
                store.read(&dir.path().join("a.conf")).unwrap(),
                store.read(&dir.path().join("b.conf")).unwrap_err().kind(),
                store.glob(&pattern),
                store.list(dir.path()).unwrap(),
                store.list(&dir.path().join("a.conf")).unwrap_err().kind(),
                store.resolve("there.example"),
                store.resolve("192.0.2.9"),
            )
        };
        let disk = Store::disk();
        disk.resolve("there.example");
        assert_eq!(disk.unresolved(), ["there.example"]);
        disk.learn([("there.example".into(), vec!["192.0.2.1".parse().unwrap()])].into());
        let first = ask(&disk);
        let mut out = Writer::default();
        disk.into_answers().encode(&mut out);
        let bytes = out.into_bytes();
        let answers = Answers::decode(&mut Reader::new(&bytes)).unwrap();
        std::fs::remove_file(dir.path().join("a.conf")).unwrap();
        assert_eq!(ask(&Store::replay(answers)), first);
        assert!(Answers::decode(&mut Reader::new(&bytes[..bytes.len() - 1])).is_none());
    }
}
