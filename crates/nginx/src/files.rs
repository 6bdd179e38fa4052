//! Where configuration texts come from.
//!
//! Owns: the [`Files`] trait and its two implementations, [`Disk`] and [`Memory`].
//! Never: interprets a text.
//! Driven by: [`crate::load`] and the include pass.
//! Why: tests stay hermetic, and a data plane without privileges can ask its keeper to read for it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// What reading a configuration needs of the world.
pub trait Files {
    /// The bytes of a file.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Paths that match a shell pattern (`*`, `?`, `[…]`), in the order of their bytes. None is no error.
    fn glob(&self, pattern: &str) -> Vec<PathBuf>;

    /// Addresses of a host name; empty if there are none.
    fn resolve(&self, host: &str) -> Vec<IpAddr>;
}

/// The file system and the system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        // nginx calls glob(3) without flags: a leading dot is matched only by a dot.
        let options = glob::MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: true,
            ..Default::default()
        };
        let Ok(paths) = glob::glob_with(pattern, options) else { return Vec::new() };
        let mut found: Vec<PathBuf> = paths.filter_map(Result::ok).collect();
        found.sort_unstable();
        found
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let Ok(found) = (host, 0).to_socket_addrs() else { return Vec::new() };
        let mut addresses: Vec<IpAddr> = found.map(|a| a.ip()).collect();
        addresses.dedup();
        addresses
    }
}

/// Texts held in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The files.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Addresses of host names; `localhost` is known without being listed.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
}

impl Memory {
    /// One file.
    pub fn with(path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Self {
        let mut memory = Self::default();
        memory.files.insert(path.into(), text.into());
        memory
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        let Ok(pattern) = glob::Pattern::new(pattern) else { return Vec::new() };
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        self.files.keys().filter(|path| pattern.matches_path_with(path, options)).cloned().collect()
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        match self.hosts.get(host) {
            Some(found) => found.clone(),
            None if host == "localhost" => vec![IpAddr::from([127, 0, 0, 1])],
            None => Vec::new(),
        }
    }
}

/// True if nginx would treat an include's path as a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}
