//! What a configuration is made of outside itself: files, folders, addresses of names.
//!
//! Owns: [`Store`], which answers the front ends and `lower`, remembers every answer, and can replay them.
//! Never: asks a name server by itself. Names are gathered in a first pass, looked up all at once by whoever may,
//! and answered from that table in the second.
//! Driven by: `compile`; the keeper sends a recording to the data plane, which replays it.
//! Why: the data plane compiles the same texts to the same plan with no rights at all, and asks for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::wire::{Reader, Writer};

/// Every answer that was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    files: BTreeMap<PathBuf, Result<Vec<u8>, (i32, String)>>,
    globs: BTreeMap<String, Vec<PathBuf>>,
    folders: BTreeMap<PathBuf, bool>,
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
        if self.replay {
            let state = self.lock();
            return match state.answers.files.get(path) {
                Some(Ok(bytes)) => Ok(bytes.clone()),
                Some(Err((code, _))) if *code != 0 => Err(io::Error::from_raw_os_error(*code)),
                Some(Err((_, text))) => Err(io::Error::other(text.clone())),
                None => Err(io::ErrorKind::NotFound.into()),
            };
        }
        let result = std::fs::read(path);
        let remembered = match &result {
            Ok(bytes) => Ok(bytes.clone()),
            Err(error) => Err((error.raw_os_error().unwrap_or(0), error.to_string())),
        };
        self.lock().answers.files.insert(path.into(), remembered);
        result
    }

    /// Paths that match a pattern, in order.
    pub(crate) fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        if !self.replay {
            let found = Vec::new();
            self.lock().answers.globs.insert(pattern.into(), found);
        }
        self.lock().answers.globs.get(pattern).cloned().unwrap_or_default()
    }

    /// Whether a path is a folder.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        if !self.replay {
            self.lock().answers.folders.insert(path.into(), path.is_dir());
        }
        self.lock().answers.folders.get(path).copied().unwrap_or(false)
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

impl Answers {
    /// As bytes, for [`Answers::decode`].
    pub(crate) fn encode(&self, out: &mut Writer) {
        out.list(&self.files, |out, (path, answer)| {
            out.bytes(path.as_os_str().as_bytes());
            match answer {
                Ok(bytes) => {
                    out.number(0);
                    out.bytes(bytes);
                }
                Err((code, text)) => {
                    out.number(1);
                    out.number(u64::from(code.unsigned_abs()));
                    out.bytes(text.as_bytes());
                }
            }
        });
        out.list(&self.globs, |out, (pattern, found)| {
            out.bytes(pattern.as_bytes());
            out.list(found, |out, path| out.bytes(path.as_os_str().as_bytes()));
        });
        out.list(&self.folders, |out, (path, is)| {
            out.bytes(path.as_os_str().as_bytes());
            out.number(u64::from(*is));
        });
        out.list(&self.names, |out, (name, addresses)| {
            out.bytes(name.as_bytes());
            out.list(addresses, |out, address| out.bytes(address.to_string().as_bytes()));
        });
    }

    /// From bytes; `None` if they are not of [`Answers::encode`].
    pub(crate) fn decode(input: &mut Reader<'_>) -> Option<Self> {
        let path = |input: &mut Reader<'_>| {
            Some(PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_vec())))
        };
        let mut answers = Self::default();
        for _ in 0..input.number()? {
            let path = path(input)?;
            let answer = match input.number()? {
                0 => Ok(input.bytes()?.to_vec()),
                _ => Err((i32::try_from(input.number()?).ok()?, input.text()?)),
            };
            answers.files.insert(path, answer);
        }
        for _ in 0..input.number()? {
            let pattern = input.text()?;
            let found = (0..input.number()?).map(|_| path(input)).collect::<Option<_>>()?;
            answers.globs.insert(pattern, found);
        }
        for _ in 0..input.number()? {
            let path = path(input)?;
            answers.folders.insert(path, input.number()? != 0);
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
    fn a_recording_answers_as_the_machine_did() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.conf"), b"x\xff").unwrap();
        let pattern = format!("{}/*.conf", dir.path().display());
        let ask = |store: &Store| {
            (
                store.read(&dir.path().join("a.conf")).unwrap(),
                store.read(&dir.path().join("b.conf")).unwrap_err().kind(),
                store.glob(&pattern),
                store.is_folder(dir.path()),
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
