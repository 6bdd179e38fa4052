//! Versions of the configuration.
//!
//! Owns: [`Version`], how many are kept, their file.
//! Never: compiles one; shows a layer, which holds secrets.
//! Driven by: `desk`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_native::Plain;

use super::journal::now;
use crate::compile::layer::Layer;
use crate::state;

/// Versions that are kept; older ones cannot be gone back to.
const MOST: usize = 100;

/// Most bytes of them all. The newest is kept in any case.
const MOST_BYTES: usize = 32 << 20;

/// Lines of a version's difference that are kept.
const LINES: usize = 200;

/// The format of the file.
const FORMAT: u32 = 1;

/// A configuration that was in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) version: u64,
    /// RFC 3339.
    pub(super) since: String,
    pub(super) who: String,
    /// The request, or what else brought it.
    pub(super) what: String,
    /// What differs from the one before.
    pub(super) changes: Vec<String>,
    /// What the API decides over the files.
    pub(super) layer: Arc<Layer>,
    /// The whole of it, without secrets, as JSON.
    pub(super) document: Arc<str>,
    #[serde(skip)]
    size: usize,
}

impl Version {
    pub(super) fn new(
        version: u64,
        who: &str,
        what: &str,
        changes: Vec<String>,
        layer: Arc<Layer>,
        document: &Plain,
    ) -> Self {
        let mut changes = changes;
        changes.truncate(LINES);
        let document: Arc<str> = serde_json::to_string(document).unwrap_or_default().into();
        let (who, what) = (who.to_owned(), what.to_owned());
        Self { version, since: now(), who, what, changes, layer, document, size: 0 }.measured()
    }

    fn measured(mut self) -> Self {
        let layer = serde_json::to_string(&self.layer).map_or(0, |text| text.len());
        self.size = layer + self.document.len() + self.changes.iter().map(String::len).sum::<usize>();
        self
    }

    /// The document as data.
    pub(super) fn plain(&self) -> Plain {
        serde_json::from_str(&self.document).unwrap_or(Plain::Null)
    }

    /// For people and programs.
    pub(super) fn shown(&self) -> serde_json::Value {
        serde_json::json!({
            "version": self.version, "since": self.since, "who": self.who, "what": self.what,
            "changes": self.changes, "decided_here": self.layer.names(),
        })
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Book {
    all: VecDeque<Version>,
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written<'b> {
    format: u32,
    versions: &'b VecDeque<Version>,
}

#[derive(Deserialize)]
struct Record {
    format: u32,
    versions: Vec<Version>,
}

impl Book {
    /// With a file. One that is not there yet is an empty one.
    ///
    /// # Errors
    /// One line: it cannot be read or written, others could have written it, or it is of another format.
    pub(super) fn with_file(path: &Path) -> Result<Self, String> {
        let told = |why: &str| format!("the file of versions {}: {why}", path.display());
        let mut book = Self { all: VecDeque::new(), file: Some(path.into()) };
        match read(path) {
            Ok(None) => book.save().map_err(|why| told(&why))?,
            Ok(Some(text)) => {
                let record: Record = serde_json::from_str(&text).map_err(|error| told(&error.to_string()))?;
                if record.format != FORMAT {
                    return Err(told(&format!(
                        "it has format {}, and this program knows {FORMAT}",
                        record.format
                    )));
                }
                book.all = record.versions.into_iter().map(Version::measured).collect();
            }
            Err(why) => return Err(told(&why)),
        }
        Ok(book)
    }

    pub(super) fn last(&self) -> Option<&Version> {
        self.all.back()
    }

    pub(super) fn find(&self, version: u64) -> Option<&Version> {
        self.all.iter().find(|one| one.version == version)
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Version> {
        self.all.iter()
    }

    /// Adds one, and lets old ones go.
    pub(super) fn add(&mut self, version: Version) {
        self.all.push_back(version);
        let mut bytes: usize = self.all.iter().map(|one| one.size).sum();
        while self.all.len() > MOST || (bytes > MOST_BYTES && self.all.len() > 1) {
            bytes -= self.all.pop_front().map_or(0, |one| one.size);
        }
    }

    /// Writes the file anew, whole or not at all.
    ///
    /// # Errors
    /// One line.
    pub(super) fn save(&self) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        let bytes = serde_json::to_vec(&Written { format: FORMAT, versions: &self.all });
        let bytes = bytes.map_err(|error| error.to_string())?;
        write(path, &bytes).map_err(|error| format!("it cannot be written: {error}"))
    }
}

/// The text, if nobody else could have written it.
fn read(path: &Path) -> Result<Option<String>, String> {
    let told = |error: io::Error| format!("it cannot be read: {error}");
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
    };
    let about = file.metadata().map_err(told)?;
    let ours = about.uid() == rustix::process::geteuid().as_raw();
    if !ours || about.mode() & 0o077 != 0 {
        return Err("it holds what is put in force, so it has to be ours, with mode 600".into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(told)?;
    Ok(Some(text))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    state::put(path, bytes)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn version(number: u64) -> Version {
        let document = weir_native::plain("{pools: [{name: a}]}").unwrap();
        Version::new(number, "joe", "PUT", vec!["+ a".into()], Arc::default(), &document)
    }

    #[test]
    fn versions_are_found_again_in_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("versions");
        let mut book = Book::with_file(&path).unwrap();
        (1..=150).for_each(|number| book.add(version(number)));
        book.save().unwrap();
        let book = Book::with_file(&path).unwrap();
        assert_eq!((book.all().count(), book.last().unwrap().version), (MOST, 150));
        assert!(book.find(50).is_none() && book.find(51).is_some());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Book::with_file(&path).err().unwrap().contains("mode 600"));
    }

    #[test]
    fn large_versions_push_old_ones_out() {
        let mut book = Book::default();
        for number in 1..=4 {
            let mut large = version(number);
            large.size = MOST_BYTES / 2;
            book.add(large);
        }
        assert_eq!(book.all().count(), 2);
    }
}
