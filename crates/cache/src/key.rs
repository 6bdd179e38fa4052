//! Names of objects.
//!
//! Owns: the key that stands for a name, and the path of its file.
//! Why: files are named as nginx names them (MD5 of the key, folders from its end), because scripts that remove objects
//! by hand rely on it. What is served is decided by the whole name, which the file holds.

use std::fmt;
use std::path::{Path, PathBuf};

use md5::{Digest as _, Md5};

/// Stands for the name of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

impl Key {
    /// Of a name.
    pub fn of(name: &[u8]) -> Self {
        Self(Md5::digest(name).into())
    }

    /// Of a name in parts; each counts with its length, so that no two lists of parts are alike.
    pub fn of_parts<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut digest = Md5::new();
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Already spread evenly.
    pub(crate) fn hash(&self) -> u64 {
        let mut low = [0; 8];
        low.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(low)
    }

    /// The shard it belongs to; of bits that [`Key::hash`] does not have.
    pub(crate) fn shard(&self, shards: usize) -> usize {
        usize::from(self.0[8]) % shards
    }

    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; 16];
        if name.len() != 32 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(name.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many letters of a key each level of folders takes, from its end: up to three levels of one or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels([u8; 3]);

impl Levels {
    /// `1:2` and its like. `None`: that is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut levels = [0; 3];
        let parts: Vec<&str> = text.split(':').collect();
        if parts.len() > 3 {
            return None;
        }
        for (level, part) in levels.iter_mut().zip(parts) {
            *level = match part {
                "1" => 1,
                "2" => 2,
                _ => return None,
            };
        }
        Some(Self(levels))
    }

    /// How many levels of folders there are.
    pub(crate) fn depth(self) -> usize {
        self.0.iter().filter(|&&letters| letters > 0).count()
    }

    /// The file of an object.
    pub(crate) fn path(self, root: &Path, key: &Key) -> PathBuf {
        let name = key.to_string();
        let (mut path, mut end) = (root.to_owned(), name.len());
        for letters in self.0.into_iter().filter(|&letters| letters > 0) {
            let start = end - usize::from(letters);
            path.push(&name[start..end]);
            end = start;
        }
        path.push(name);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_nginx_has_them() {
        let key = Key::of(b"http://127.0.0.1/a");
        assert_eq!(Key::parse(key.to_string().as_bytes()), Some(key));
        let key = Key::parse(b"b7f54b2df7773722d382f4809d65029c").unwrap();
        let at = |levels: &str| Levels::parse(levels).unwrap().path(Path::new("/c"), &key);
        assert_eq!(at("1:2"), Path::new("/c/c/29/b7f54b2df7773722d382f4809d65029c"));
        assert_eq!(at("2:2:1"), Path::new("/c/9c/02/5/b7f54b2df7773722d382f4809d65029c").to_owned());
        assert_eq!(Levels::default().path(Path::new("/c"), &key).parent(), Some(Path::new("/c")));
        for wrong in ["", "3", "1:", "1:2:1:1", "0"] {
            assert_eq!(Levels::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Key::parse(b"B7f54b2df7773722d382f4809d65029c"), None);
        assert_ne!(Key::of_parts([&b"ab"[..], b"c"]), Key::of_parts([&b"a"[..], b"bc"]));
    }
}
