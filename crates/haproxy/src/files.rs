//! Files as this front end sees them.
//!
//! Owns: the trait, and what a folder given in place of a file stands for.
//! Why: a trait, so that tests and fuzzers need no disk, and the keeper can open what the data plane may not.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use weir_diag::Diagnostic;

use crate::findings::Findings;

/// Reading of files and folders.
pub trait Files {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The paths of the files in a folder; an error for anything that is no folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Addresses of a host name; empty if there are none.
    fn resolve(&self, host: &str) -> Vec<IpAddr>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let found = (host, 0).to_socket_addrs().into_iter().flatten();
        found.map(|address| address.ip()).collect()
    }
}

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    all: BTreeMap<PathBuf, Vec<u8>>,
}

impl Memory {
    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        self.all.insert(path.into(), bytes.into());
        self
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.all.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let inside: Vec<PathBuf> =
            self.all.keys().filter(|path| path.parent() == Some(folder)).cloned().collect();
        if inside.is_empty() { Err(io::ErrorKind::NotADirectory.into()) } else { Ok(inside) }
    }

    /// The one name that every machine knows.
    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        if host == "localhost" { vec![Ipv4Addr::LOCALHOST.into()] } else { Vec::new() }
    }
}

/// Files for the paths given: a folder stands for its `.cfg` files that are not hidden, by name.
pub(crate) fn expand(files: &dyn Files, paths: &[PathBuf], findings: &mut Findings) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths {
        let Ok(mut inside) = files.list(path) else {
            all.push(path.clone());
            continue;
        };
        inside.retain(|path| {
            let hidden =
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'));
            !hidden && path.extension().is_some_and(|extension| extension == "cfg")
        });
        inside.sort();
        if inside.is_empty() {
            let title = format!("the folder `{}` holds no `.cfg` file", path.display());
            findings.push(Diagnostic::error("haproxy::empty", title));
        }
        all.append(&mut inside);
    }
    all
}
